"""flash_attn where it is not installed: what a trace records of it is what the package would launch."""

import importlib
import importlib.util
import math
import sys
from types import SimpleNamespace

import pytest
import torch

from estimator.estimate.layout.lay_out import laid_out, laying_of
from estimator.estimate.op_list_report import PASSES_ONCE
from estimator.operations.aten import kernels_of
from estimator.scenario.problems import InputProblems
from runners.program import stand_in
from runners.program.failures import failure
from runners.program.flash_attn.attention import REMEDY, Form, effective_length, length_of
from runners.program.flash_attn.launch import STATED, STATED_THIRD, Launch
from runners.program.recording import Recording
from tests.runners.program.conftest import PROGRAMS

OF_STATES = 4096
"""Bytes below which storages are the state of a generator, which each has otherwise."""


@pytest.fixture(scope="session")
def forms(traced):
    return traced(PROGRAMS / "flash_forms.py")


@pytest.fixture
def stood_in():
    """The package's modules as a trace finds them, for as long as a test runs."""
    finders = list(sys.meta_path)
    sys.meta_path.append(stand_in.Finder(Recording()))
    yield
    sys.meta_path[:] = finders
    for name in stand_in.MODULES:
        sys.modules.pop(name, None)


def work(found):
    """Kernels of each call, but for their names: where, how much they compute and move, how fast, of what."""
    return [
        (call.phase, call.module, op.kind, op.flops, op.bytes, op.batch, op.m, op.n, op.k, op.visible_frac,
         op.efficiency, op.launches, op.slowed_by)
        for call in found.calls if call.kind == "kernel" for op in kernels_of(found.of(call))
    ]  # fmt: skip


def held(found):
    return sorted((one.bytes, one.born, one.died, one.kind) for one in found.storages if one.bytes > OF_STATES)


def attended(found, phase):
    calls = [call for call in found.calls if call.phase == phase and found.of(call).op.startswith("flash_attn::")]
    return {found.modules[call.module]: found.of(call) for call in calls}


def test_the_package_is_recorded_as_torchs_own_flash_attention(traced):
    package, own = (traced(PROGRAMS / "flash_package.py", "--", which) for which in ("package", "torch"))
    assert sum("flash_attn::" in one.op for one in package.signatures) == 2
    assert sum("_scaled_dot_product_flash" in one.op for one in own.signatures) == 2
    assert work(package) == work(own)
    assert held(package) == held(own)
    assert (STATED in package.assumptions, own.assumptions) == (True, ())
    assert not package.problems


def test_heads_that_are_shared_cost_their_own_keys_alone(traced):
    found = traced(PROGRAMS / "flash_package.py", "--", "package")
    for phase, launches in (("forward", 1.0), ("backward", 5.0)):
        (op,) = kernels_of(attended(found, phase)["0"])
        queries, keys = 2 * 1024 * 8 * 64 * 2, 2 * 1024 * 2 * 64 * 2
        once = 2 * queries + 2 * keys
        assert op.bytes == (once if phase == "forward" else 2.5 * once) + 4 * 2 * 8 * 1024
        assert (op.batch, op.launches, op.visible_frac) == (16, launches, 0.5)


def test_shared_heads_are_laid_out_over_ranks_as_torchs_own(traced):
    split = laying_of({"tp": 2}, split=["qkv=column", "out=row"])
    package, own = (
        laid_out(traced(PROGRAMS / "flash_package.py", "--", which), split) for which in ("package", "torch")
    )
    assert work(package) == work(own)
    assert attended(package, "forward")["0"].inputs[1].shape == (2, 1024, 1, 64)
    four = laying_of({"tp": 4}, split=["qkv=column", "out=row"])
    with pytest.raises(InputProblems, match="does not divide the 2 heads of attention"):
        laid_out(traced(PROGRAMS / "flash_package.py", "--", "package"), four)


def test_the_third_version_is_recorded_as_its_own_op_and_priced_as_the_fastest_kernel(traced):
    found = traced(PROGRAMS / "flash_third.py")
    assert (found.problems, found.assumptions[:1]) == ((), (STATED_THIRD,))
    for phase in ("forward", "backward"):
        calls = [call for call in found.calls if call.phase == phase and "flash_attn_3::" in found.of(call).op]
        told = {found.modules[call.module]: found.of(call) for call in calls}
        assert {one.op for one in told.values()} == {f"flash_attn_3::_flash_attn_{phase}"}
        assert {name: {**one.arguments} for name, one in told.items()} == {
            "0": {"is_causal": True},
            "1": {"is_causal": True, "max_seqlen": 512},
            "2": {"is_causal": True, "window": 127},
        }
        apart, packed, _ = (kernels_of(told[name])[0] for name in "012")
        assert (apart.batch, apart.m, apart.n, apart.k, apart.efficiency) == (16, 1024, 1024, 64, "attention_frac")
        assert (packed.batch, packed.m, packed.n) == (32, 512, 512)
    queries, keys = 2 * 1024 * 8 * 64 * 2, 2 * 1024 * 2 * 64 * 2
    (forward,) = kernels_of(next(s for s in found.signatures if s.op == "flash_attn_3::_flash_attn_forward"))
    assert forward.bytes == 2 * queries + 2 * keys + 4 * 2 * 8 * 1024
    split = laid_out(found, laying_of({"tp": 2}, split=["qkv=column", "out=row"]))
    narrow = [s for call in split.calls if (s := split.of(call)).op == "flash_attn_3::_flash_attn_forward"]
    assert [s.inputs[1].shape for s in narrow] == [(2, 1024, 1, 64), (2048, 1, 64), (2, 1024, 1, 64)]
    assert [s.outputs[1].shape for s in narrow] == [(2, 4, 1024), (4, 2048), (2, 4, 1024)]


@pytest.mark.parametrize("lengths", [(512,) * 4, (1024,), (100, 300, 624), (1, 1, 2046), (7,) * 99 + (331,), (0, 64)])
def test_packed_sequences_have_as_many_scores_as_they_have(lengths):
    tokens, square = sum(lengths), sum(one * one for one in lengths)
    length = effective_length(square, tokens)
    assert math.ceil(tokens / length) * length**2 == pytest.approx(square, rel=2 / length)
    if len(set(lengths)) == 1:
        assert length == lengths[0]


@pytest.mark.parametrize(("longest", "taken"), [(1, 342), (600, 600)])
def test_sequences_of_unknown_lengths_are_all_as_long_and_a_problem(longest, taken):
    recording = Recording()
    starts = torch.zeros(4, dtype=torch.int32)  # of no tensor of the host is known what it is on the device
    form = Form(
        causal=True, dropout=0.0, window=(-1, -1), probabilities=False, starts=(starts,) * 2, longest=(longest,) * 2
    )
    assert length_of(Launch(recording), form, 1024) == taken, "a longest of 1 was read from the device"
    (problem,) = recording.op_list(program="own.py").problems
    assert (problem.field, problem.remedy) == ("flash_attn_varlen_func", REMEDY)


def test_each_form_of_attention_is_told_how_far_it_sees(forms):
    for phase, count in (("forward", 3), ("backward", 6)):
        found = attended(forms, phase)
        told = {name: {**one.arguments} for name, one in found.items()}
        assert told == {
            "blocks.0": {"is_causal": True},
            "blocks.1": {"is_causal": True, "window": 64},
            "blocks.2": {"is_causal": False},
            "blocks.3": {"is_causal": False},
            "blocks.4": {"is_causal": True, "max_seqlen": 404},
        }
        assert {len(one.inputs) for one in found.values()} == {count}
        assert found["blocks.3"].inputs[0].shape == (1, 1024, 2, 64)  # 60 wide, filled up to a multiple of 8
    (several,) = kernels_of(attended(forms, "forward")["blocks.4"])
    assert several.flops == pytest.approx(4 * 2 * 64 * sum(one * one for one in (100, 300, 624)), rel=0.001)


def test_norms_rotations_and_the_loss_are_kernels_of_triton(forms):
    ops = [forms.of(call).op for call in forms.calls]
    assert {op for op in ops if op.startswith("triton::")} == PASSES_ONCE
    assert {name: ops.count(f"triton::{name}") for name in (
        "_layer_norm_fwd_1pass_kernel", "_layer_norm_bwd_kernel", "rotary_kernel", "cross_entropy_fwd_kernel",
        "cross_entropy_bwd_kernel",
    )} == {
        "_layer_norm_fwd_1pass_kernel": 6, "_layer_norm_bwd_kernel": 6, "rotary_kernel": 12,
        "cross_entropy_fwd_kernel": 1, "cross_entropy_bwd_kernel": 1,
    }  # fmt: skip
    assert not forms.problems


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from flash_attn.ops.fused_dense import FusedDense", "flash_attn.ops.fused_dense"),
        ("from flash_attn.layers.rotary import ApplyRotaryEmb", "flash_attn.layers.rotary.ApplyRotaryEmb"),
        ("import flash_attn\nflash_attn.flash_attn_gpu", "flash_attn.flash_attn_gpu"),
        ("from flash_attn_interface import flash_attn_combine", "flash_attn_interface.flash_attn_combine"),
        ("import flash_attn_3.flash_attn_gpu", "flash_attn_3.flash_attn_gpu"),
    ],
)
def test_a_name_that_is_not_stood_in_for_says_so(stood_in, line, name):
    with pytest.raises((ImportError, AttributeError)) as raised:
        exec(line, {})  # as a program says it
    said = str(failure("own.py", raised.value, own=True))
    package = name.partition(".")[0]
    assert said.startswith(f"{name}: is not among what stands for {package}. The package is not installed")


def test_what_the_stand_in_does_not_do_is_a_problem(stood_in):
    with pytest.raises(InputProblems, match="flash_attn_with_kvcache: is not among what stands for flash_attn"):
        importlib.import_module("flash_attn").flash_attn_with_kvcache()
    third = importlib.import_module("flash_attn_interface")
    of_cache = r"flash_attn_interface\.flash_attn_with_kvcache: is not among what stands for flash_attn_interface"
    with pytest.raises(InputProblems, match=of_cache):
        third.flash_attn_with_kvcache()
    with pytest.raises(InputProblems, match="with qv"):
        third.flash_attn_func(None, None, None, qv=torch.ones(1))
    with pytest.raises(TypeError, match="takes fp16 and bf16 alone"):
        importlib.import_module("flash_attn").flash_attn_func(*(torch.ones(1, 2, 2, 8),) * 3)
    assert importlib.util.find_spec("flash_attn.layers") is None


def test_transformers_is_told_of_both_versions_and_takes_the_third_only_where_it_is_named():
    def absent(*_):
        return False

    matrix = {one: {"general_availability_check": absent, "pkg_availability_check": absent} for one in (2, 3, 4)}
    utils = SimpleNamespace(
        FLASH_ATTENTION_COMPATIBILITY_MATRIX=matrix, is_flash_attn_2_available=absent, is_flash_attn_3_available=absent
    )
    stand_in._told(utils)
    assert [all(check() for check in matrix[one].values()) for one in (2, 3, 4)] == [True, True, False]
    assert utils.is_flash_attn_2_available()
    assert not utils.is_flash_attn_3_available()


def test_another_package_fails_as_it_did():
    said = str(failure("own.py", ModuleNotFoundError("No module named 'flash_attn'", name="flash_attn"), own=True))
    assert said.startswith("own.py: failed: ModuleNotFoundError")
