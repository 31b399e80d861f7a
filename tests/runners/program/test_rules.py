"""Rules that the tracer has from torch: attention's kernels, autocast's lists, DDP's buckets."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from estimator.scenario import catalog
from runners.program import autocast, fake
from runners.program.attention import Asked, backend
from runners.program.chip import CAPABILITIES, capability
from runners.program.command import NO_CUDA
from runners.program.ddp import buckets
from runners.program.distributed import _patch_propagation, _told_once
from runners.program.tensors import given_tensors

HOPPER, AMPERE, VOLTA = (9, 0), (8, 0), (7, 0)


def asked(width=64, dtype=torch.bfloat16, sequence=512, **more):
    shape = (2, 8, sequence, width)
    given = {"mask": None, "dropout": 0.0, "causal": True, "grouped": False, "gradient": True}
    tensors = {name: torch.empty(shape, dtype=dtype, device="meta") for name in ("query", "key", "value")}
    return Asked(**{**given, **tensors, **more})


def test_attention_takes_the_first_kernel_that_can():
    mask = torch.empty(2, 1, 512, 512, dtype=torch.bfloat16, device="meta")
    assert backend(asked(), HOPPER) == "cudnn"
    assert backend(asked(mask=mask, causal=False), HOPPER) == "cudnn"
    assert backend(asked(dropout=0.1), HOPPER) == "flash"  # cuDNN drops in sixteenths
    assert backend(asked(dropout=0.125), HOPPER) == "cudnn"
    assert backend(asked(width=256), HOPPER) == "flash"
    assert backend(asked(width=256, mask=mask, causal=False), HOPPER) == "efficient"
    assert backend(asked(width=320), HOPPER) == "efficient"
    assert backend(asked(dtype=torch.float32), HOPPER) == "efficient"
    assert backend(asked(dtype=torch.float64), HOPPER) == "math"
    assert backend(asked(), AMPERE) == "flash"
    assert backend(asked(mask=mask, causal=False), AMPERE) == "efficient"
    assert backend(asked(), VOLTA) == "math"  # no bf16 there
    assert backend(asked(dtype=torch.float16), VOLTA) == "efficient"


def test_a_mask_that_one_value_was_expanded_to_is_left_to_plain_products():
    """BERT's mask in a compiled region, where every token sees every other."""
    everything = torch.ones(2, 1, 512, 1, dtype=torch.bool, device="meta").expand(2, 1, 512, 512)
    assert backend(asked(mask=everything, causal=False, dropout=0.125), HOPPER) == "math"
    assert backend(asked(mask=everything.contiguous(), causal=False, dropout=0.125), HOPPER) == "cudnn"


def test_flash_trains_no_wide_heads_on_ada():
    assert backend(asked(width=200), (8, 9)) == "efficient"
    assert backend(asked(width=200, gradient=False), (8, 9)) == "flash"


def test_grouped_queries_need_to_be_announced():
    few = torch.empty(2, 2, 512, 64, dtype=torch.bfloat16, device="meta")
    wide = replace(asked(), key=few, value=few)
    assert backend(wide, AMPERE) == "math"
    assert backend(replace(wide, grouped=True), AMPERE) == "flash"


def test_deterministic_algorithms_rule_cudnn_out():
    torch.use_deterministic_algorithms(True)
    try:
        assert backend(asked(), HOPPER) == "flash"
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("macro", "names"),
    [
        ("AT_FORALL_LOWER_PRECISION_FP", autocast.LOWER_PRECISION),
        ("AT_FORALL_FP32", autocast.FULL_PRECISION),
        ("AT_FORALL_FP32_SET_OPT_DTYPE", autocast.FULL_PRECISION_RESULT),
        ("AT_FORALL_PROMOTE", autocast.WIDEST),
    ],
)
def test_autocast_casts_what_torch_casts_on_cuda(macro, names):
    text = (Path(torch.__file__).parent / "include" / "ATen" / "autocast_mode.h").read_text().replace("\\\n", "")
    line = re.search(rf"#define {macro}\(_\)(.*)", text).group(1)
    wanted = {".".join(part.strip() for part in one.split(",")) for one in re.findall(r"_\(([^)]*)\)", line)}
    assert set(names) == wanted


def test_buckets_close_when_they_are_full():
    weights = [torch.empty(size, device="meta") for size in (100, 300, 50, 600, 10)]
    assert buckets(weights, [400, 2000])[0] == [[0], [1, 2, 3], [4]]
    half = torch.empty(10, dtype=torch.float16, device="meta")
    assert buckets([weights[0], half, weights[2]], [1000])[0] == [[0, 2], [1]]
    assert buckets([weights[4], weights[0]], [400], order=[4, 0])[0] == [[4, 0]]


def test_every_gpu_of_the_catalogue_has_a_capability():
    for entry in catalog.entries("chips"):
        if entry.value.efficiency not in NO_CUDA:
            assert entry.value.efficiency in CAPABILITIES
            assert capability(entry.value)[0] >= 6


def test_inputs_of_a_split_op_are_looked_through_once_for_all_its_tensors():
    told, looked = [], []
    strided, plain = type("Strided", (), {}), object()
    spec = lambda place, flag: SimpleNamespace(placements=(plain, place), use_strided_shard_as_shard_order=flag)  # noqa: E731

    class Schema:
        def __init__(self, *specs):
            self.specs = specs

        @property
        def args_spec(self):
            looked.append(self)
            return self.specs

    sharding = SimpleNamespace(
        _StridedShard=strided,
        _propagate_use_strided_shard_flag=lambda strategy, schema: told.append((strategy, schema.args_spec)),
    )
    flagged = _told_once(sharding)
    first, second, other = spec(strided(), False), spec(strided(), True), spec(plain, None)
    many = Schema(other, first, second, spec(strided(), False))
    for strategy in ("a", "b"):
        flagged(strategy, many)
    flagged("c", Schema(other))
    assert told == [("a", (first, second)), ("b", (first, second))]
    assert len(looked) == 2


def test_a_torch_whose_dtensor_propagates_otherwise_is_left_as_it_is():
    """Torch 2.11 has no flag of shards with strides, and so nothing to be told once."""
    sharding = SimpleNamespace(__name__="torch.distributed.tensor._sharding_prop")
    _patch_propagation(SimpleNamespace(recorder=SimpleNamespace(unrecorded=lambda: "fakes of its own")), sharding)
    assert sharding.detect_fake_mode() == "fakes of its own"
    assert not hasattr(sharding, "_propagate_use_strided_shard_flag")


def test_a_mode_finds_the_rule_that_a_library_has_for_it_when_it_comes(monkeypatch):
    registry = torch._library.simple_registry
    monkeypatch.setattr(registry, "find_torch_dispatch_rule", registry.find_torch_dispatch_rule)
    fake._keep_rules()
    op, mode = torch.ops.aten.mm.default, type("Mode", (), {})
    assert registry.find_torch_dispatch_rule(op, mode) is None
    ours = registry.singleton.find(op.__qualname__).torch_dispatch_rules.register(mode, print)
    assert registry.find_torch_dispatch_rule(op, mode) is print
    ours.destroy()
    assert registry.find_torch_dispatch_rule(op, mode) is None


@pytest.mark.parametrize("rules", [SimpleNamespace(), SimpleNamespace(_data=[])])
def test_a_torch_that_keeps_its_rules_otherwise_looks_them_up_itself(monkeypatch, rules):
    registry = torch._library.simple_registry
    own = registry.find_torch_dispatch_rule
    entry = SimpleNamespace(torch_dispatch_rules=rules)
    monkeypatch.setattr(registry, "singleton", SimpleNamespace(find=lambda name: entry))
    monkeypatch.setattr(registry, "find_torch_dispatch_rule", own)
    fake._keep_rules()
    assert registry.find_torch_dispatch_rule is own


def test_tensors_of_an_op_are_its_lists_too_but_for_sizes():
    one, two = torch.empty(1), torch.empty(2)
    assert list(map(id, given_tensors(([1, 2], [None, one], 3.0), {"other": (two,)}))) == [id(one), id(two)]
