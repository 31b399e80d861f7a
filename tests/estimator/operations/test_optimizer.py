"""Update: bytes that the optimizer's kernels move, and the sums over micro-batches."""

from dataclasses import replace

import pytest

from estimator.cost.efficiency import efficiencies_for
from estimator.cost.price import price
from estimator.estimate.estimate import estimate
from estimator.estimate.recorded import recorded
from estimator.operations.aten import kernels_of
from estimator.operations.op import Op
from estimator.operations.optimizer import gradient_accumulation, optimizer
from estimator.operations.rank_sizes import rank_sizes
from estimator.scenario import catalog
from estimator.scenario.op_list import Call, Operand, OpList, Signature
from estimator.scenario.scenario import Scenario
from tests.estimator.examples import GPT, cluster, scenario


def adamw(framework: str, **training) -> Op:
    d = rank_sizes(scenario(GPT, framework=framework, **training))
    (op,) = optimizer(d.training, d.widths, 1e6, 10.0, multi_tensor=d.training.updates_together(cpu=False))
    return op


def test_gradients_are_unscaled_and_clipped_before_an_update_that_does_neither():
    def before(framework: str, **training) -> dict[str, tuple[float, float]]:
        d = rank_sizes(scenario(GPT, framework=framework, **training))
        ops = optimizer(d.training, d.widths, 1e6, 10.0, multi_tensor=d.training.updates_together(cpu=False))
        return {op.name: (op.bytes, op.launches) for op in ops[:-1]}

    together = pytest.approx(1, abs=0.1)
    assert before("pytorch-eager") == before("megatron", precision="fp16-amp") == before("ideal") == {}
    # Read and written in fp32; the norm reads, the scaling reads and writes.
    assert before("pytorch-eager", precision="fp16-amp") == {"loss scale": (8e6, together)}
    assert before("trainer") == {"gradient norm": (2e6, together), "gradient clipping": (4e6, together)}
    assert before("trainer-2022", precision="fp16-amp") == {
        "loss scale": (8e6, together),
        "gradient norm": (4e6, 10.0),
        "gradient clipping": (8e6, 10.0),
    }


def test_the_optimizer_moves_what_its_kernels_touch():
    # Foreach AdamW in bf16: 20 accesses of 2 bytes. One fused pass: parameter, gradient, two moments in; all but the
    # gradient out. Megatron: fp32 master, two moments and gradient in, three out, 2-byte copy, norm and scale.
    assert adamw("pytorch-eager").bytes == 40e6
    assert adamw("pytorch-eager", precision="fp32").bytes == 80e6
    assert adamw("ideal").bytes == 7 * 2e6
    assert adamw("megatron").bytes == 38e6
    assert adamw("pytorch-eager", optimizer="sgd").bytes == 6e6
    # Parameter and gradient as wide as they are; both moments read and written, a byte each and their scales.
    assert adamw("pytorch-eager", optimizer="adamw-8bit").bytes == 10e6
    assert adamw("ideal", optimizer="adamw-8bit").bytes == pytest.approx((3 * 2 + 4) * 1e6, rel=2e-3)
    assert adamw("pytorch-eager", optimizer="adafactor").launches == 14 * 10
    # Parameter and the rest of its master in and out, the gradient and its norm; both moments of 2 bytes turned to fp32
    # (2 + 4), read and written (4 + 4), narrowed (4 + 2) and copied back (2 + 2).
    assert adamw("pytorch-eager", optimizer="adamw-bf16").bytes == 14e6
    assert adamw("megatron", optimizer="adamw-bf16").bytes == (4 + 4 + 4 + 2 * (6 + 8 + 6 + 4)) * 1e6


def test_torchs_kernels_of_an_update_move_what_theirs_do():
    # Fused, as torch's op is priced in a trace: parameter, gradient and two moments in, all but the gradient out.
    fused = adamw("pytorch-eager", precision="fp32", optimizer_kernel="fused")
    tensors = (Operand(shape=(1000, 100), dtype="float32"),) * 40 + (Operand(shape=(), dtype="float32"),) * 10
    (traced,) = kernels_of(Signature(op="aten::_fused_adamw_", inputs=tensors))
    assert fused.bytes == traced.bytes == 7 * 4e6
    assert fused.launches == pytest.approx(traced.launches, rel=0.1)
    assert fused.chunk_bytes == traced.chunk_bytes == 7 * 4 * 65536
    assert adamw("pytorch-eager", optimizer="sgd", optimizer_kernel="fused").bytes == 6e6
    # One tensor after another: as many bytes as over all at once, in eight kernels a tensor.
    loop = adamw("pytorch-eager", precision="fp32", optimizer_kernel="for-loop")
    assert (loop.bytes, loop.launches) == (80e6, 8 * 10)
    assert loop.bytes == adamw("pytorch-eager", precision="fp32", optimizer_kernel="foreach").bytes
    # Who has an update of his own keeps it.
    for own in ({"framework": "megatron"}, {"framework": "ideal"}, {"optimizer": "adamw-8bit"}):
        chosen = {"framework": "pytorch-eager", **own}
        assert adamw(**chosen, optimizer_kernel="fused") == adamw(**chosen)


@pytest.mark.parametrize(
    ("parameters", "launches", "seconds"),
    [(354_823_168, 23, 2.866e-3), (494_032_768, 28, 3.902e-3), (1_235_814_400, 60, 9.857e-3)],
)
def test_a_fused_update_takes_what_it_took_on_an_h200(parameters, launches, seconds):
    """GPT-2 medium, Qwen2 0.5B, Llama 3.2 1B in fp32 under the trainer of transformers (h200_scripts/two)."""
    d = rank_sizes(scenario(GPT, precision="fp32", optimizer_kernel="fused"))
    (op,) = optimizer(d.training, d.widths, parameters, 300.0, multi_tensor=True)
    h200 = catalog.chip("h200-sxm")
    found = price(replace(op, launches=launches), h200, efficiencies_for(h200, None)).seconds
    assert found == pytest.approx(seconds, rel=0.06)


def test_an_update_tensor_after_tensor_ends_as_single_kernels_do_and_waits_for_the_host():
    many = scenario(GPT, precision="bf16-amp", optimizer_kernel="for-loop")
    e = efficiencies_for(many.cluster.chip, None)
    found = {kernel: estimate(replaced(many, kernel)) for kernel in ("default", "foreach", "fused", "for-loop")}
    assert found["default"].step_time_s == found["foreach"].step_time_s > found["fused"].step_time_s
    assert found["fused"].phases_s["optimizer"] < found["foreach"].phases_s["optimizer"] / 2
    (op,) = (one for one in found["for-loop"].ops if one.category == "optimizer")
    waits = found["for-loop"].host_wait_by_phase_s["optimizer"] + found["for-loop"].phases_s["optimizer"]
    assert waits == pytest.approx(op.launches * (e.host_tensor_s + e.kernel_gap_s), rel=0.05)
    peaks = [found[kernel].memory.peak_bytes for kernel in ("fused", "for-loop", "foreach")]
    assert peaks == sorted(peaks)


def test_a_cpus_update_finds_a_tensor_in_its_cache_from_one_kernel_to_the_next():
    """AdamW of 51 tensors, 4.2 M parameters: 10 ms on one core of an EPYC whose memory copies 21 GB/s, 33 GB/s of all
    that its kernels touch. Where a tensor's set is larger than the cache nothing is found."""
    here = {"kind": "cpu", "memory_bytes_per_s": 21e9, "l2_bytes": 2.0**25, "compute_units": 1, "efficiency": "cpu"}
    cpu = replace(catalog.chip("h200-sxm"), **here)
    e = efficiencies_for(cpu, None)
    d = rank_sizes(scenario(GPT, precision="fp32"))

    def seconds(parameters: float, tensors: float) -> float:
        (op,) = optimizer(d.training, d.widths, parameters, tensors, multi_tensor=False)
        found = price(op, cpu, e)
        return found.seconds - found.launch_s

    small = seconds(4.18e6, 51.0)
    assert small == pytest.approx(28 * 4.18e6 / (21e9 * e.memory_frac))
    assert small + 51 * 8 * e.optimizer_tail_s == pytest.approx(10e-3, rel=0.15)
    assert seconds(40e6, 1.0) == pytest.approx(80 * 40e6 / (21e9 * e.memory_frac))
    # A profile's ops, each of which moves its share
    tensor = Operand(shape=(82_000,), dtype="float32")
    ops = (("mul_", 1, 2), ("lerp_", 2, 1), ("addcmul_", 3, 1), ("sqrt", 1, 1), ("div", 1, 1), ("add_", 1, 1),
           ("addcdiv_", 3, 1))  # fmt: skip
    signatures = tuple(
        Signature(op=f"aten::{name}", inputs=(tensor,) * many, outputs=(tensor,)) for name, many, _ in ops
    )
    calls = tuple(Call(kind="kernel", signature=at, phase="optimizer") for at in (0, *range(len(ops))))
    found = OpList(source="profile", program="p", chip="h200-sxm", signatures=signatures, calls=calls)
    one = recorded(found, replace(cluster(), chip=cpu), e, interval=False)
    moved = sum(float(k.memory_s) for at in one.of_call for k in one.work[at].kernels)
    assert moved == pytest.approx(28 * 82_000 / (21e9 * e.memory_frac), rel=0.1)


def replaced(one: Scenario, kernel: str) -> Scenario:
    return replace(one, training=replace(one.training, optimizer_kernel=kernel))


def test_accumulating_reads_both_and_writes_one():
    d = rank_sizes(scenario(GPT, precision="bf16-amp"))
    (op,) = gradient_accumulation(d.training, d.widths, 1e6, 10.0)
    assert op.bytes == 3 * 4e6
    fused = rank_sizes(scenario(GPT, framework="megatron"))
    assert gradient_accumulation(fused.training, fused.widths, 1e6, 10.0) == []
