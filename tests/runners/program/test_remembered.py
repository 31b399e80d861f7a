"""What an op gives on shapes the second time is what torch's own fake tensors give, memory and type included."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from runners.program.remembered import Remembered

aten = torch.ops.aten


def _described(found: Any, given: Any) -> Any:
    if isinstance(found, (tuple, list)):
        return [_described(one, given) for one in found]
    if not isinstance(found, FakeTensor):
        return found
    shares = [found.untyped_storage()._cdata == one.untyped_storage()._cdata for one in given]
    return (
        *(tuple(found.shape), found.stride(), found.storage_offset(), found.dtype, found.fake_device),
        *(found.untyped_storage().nbytes(), shares, any(found is one for one in given)),
        found.untyped_storage().data_ptr(),
    )


@pytest.mark.parametrize(
    ("func", "rest"),
    [
        (aten.add.Tensor, lambda x: (x,)),
        (aten.add.Tensor, lambda x: (1,)),
        (aten.div.Scalar, lambda x: (1.0,)),
        (aten.t.default, lambda x: ()),
        (aten._unsafe_view.default, lambda x: ([8, 4],)),
        (aten.slice.Tensor, lambda x: (1, 2, 5)),
        (aten.split.Tensor, lambda x: (3,)),
        (aten.mul_.Tensor, lambda x: (x,)),
        (aten.native_layer_norm.default, lambda x: ([8], None, None, 1e-5)),
        (aten.max.dim, lambda x: (1,)),
        (aten.transpose_.default, lambda x: (0, 1)),
        (aten.sum.dim_IntList, lambda x: ([0],)),
        (aten._softmax.default, lambda x: (1, False)),
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int64])
@pytest.mark.filterwarnings("ignore:Accessing the data pointer")  # which FSDP compares
def test_a_second_run_gives_what_the_first_gave(func: Any, rest: Any, dtype: torch.dtype) -> None:
    fakes = FakeTensorMode()
    remembered = Remembered(fakes)
    found = []
    for run in (remembered.dispatch, remembered.dispatch, fakes.dispatch):
        with fakes:
            x = torch.empty(4, 8, dtype=dtype)
        args = (x, *rest(x))
        try:
            result = run(func, (FakeTensor,), args, {})
        except RuntimeError as error:  # as whole numbers have no norm
            found.append(str(error))
            continue
        found.append([_described(result, [x]), tuple(x.shape)])
    assert found[0] == found[1] == found[2]


def test_what_lies_elsewhere_or_is_laid_out_otherwise_is_another_result() -> None:
    """The key holds type, strides, and whether a number is whole: 1 and 1.0 make other types."""
    fakes = FakeTensorMode()
    remembered = Remembered(fakes)
    with fakes:
        x = torch.empty(4, 8, dtype=torch.int64)
        across = torch.empty(8, 4, dtype=torch.int64).t()
    run = remembered.dispatch
    types = [run(aten.mul.Tensor, (FakeTensor,), (x, value), {}).dtype for value in (2, 2.0, True, 2)]
    assert types == [torch.int64, torch.float32, torch.int64, torch.int64]
    strides = [run(aten.neg.default, (FakeTensor,), (one,), {}).stride() for one in (x, across, x)]
    assert strides == [(8, 1), (1, 4), (8, 1)]


def test_a_view_that_its_schema_does_not_tell_is_remembered() -> None:
    """What torch gives of a transposed product's result, thousands of times in a step of Mamba-2."""
    fakes = FakeTensorMode()
    remembered = Remembered(fakes)
    with fakes:
        x = torch.empty(4, 8)

    class Below(TorchDispatchMode):
        """Takes ops below autograd, as the recorder does."""

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return remembered.dispatch(func, types, args, kwargs or {})

    with Below():
        aten._unsafe_view.default(x, [8, 4])
    assert len(remembered._results) == 1
