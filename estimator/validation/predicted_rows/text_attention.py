"""Text attention: rows of imported tables that time one attention, or say what it keeps, by width and length.

Such tables leave out what their script fixed: one head, the batch, the mask. CS336's assignment 2 (2025, sections 1.2
and 1.3), whose tables they mostly are, has a batch of 8 without a mask where one implementation is swept, and a batch
of 1 with a causal mask where several stand side by side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from estimator.cost.host import phase_wait_s
from estimator.cost.price import price
from estimator.operations.op import Op
from estimator.scenario.hardware import PEAK_FIELD, peak_flops_per_s
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import Number
from estimator.validation.predicted_rows.attention import fused_ops, naive_ops, recomputed_backward_ops, tile_columns
from estimator.validation.predicted_rows.device import TableDevice, whole, word
from estimator.validation.swept_attention import FP32_BYTES, SWEPT_BATCH, WIDTHS, WRITTEN_OUT_BYTES, kept_bytes

NAIVE = {"torch", "pytorch", "eager", "naive", "native", "standard", "baseline", "reference", "vanilla", "uncompiled",
         "not compiled", ""}  # fmt: skip
COMPILED = {"compiled", "torch.compile", "compile", "jit"}
FUSED = {"triton": "sdpa", "sdpa": "sdpa", "torch_sdpa": "sdpa", "flash": "flash", "fa2": "flash", "flash2": "flash",
         "flashattention": "flash", "flash_attention": "flash"}  # fmt: skip
COMPARED_BATCH = 1
PASSES = {"forward": ("forward",), "backward": ("backward",), "forward_backward": ("forward", "backward")}


def peak_bytes(
    batch: Number, length: Number, width: Number, *, compiled: bool = False, widened: bool = False
) -> Number:
    """Peak of eager fp32 attention in backward: softmax's output, its gradient, their product and the scores' gradient,
    4·B·S²·4, beside q, k, v, output and the gradients of all, 8·B·S·d·4. Compiled, 2 and 9 of them.
    """
    square, one = FP32_BYTES * batch * length * length, FP32_BYTES * batch * length * width
    return 2.0 * square + (11.0 if widened else 9.0) * one if compiled else 4.0 * square + 8.0 * one


def sweep_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of one implementation, which is eager attention unless its ``version`` says otherwise."""
    length, width, batch = _case(row, place, SWEPT_BATCH)
    precision = _precision(row, place)
    version = str(row.get("version", "")).lower()
    compiled = bool(row.get("compile")) or version in COMPILED
    if not compiled and version not in NAIVE:
        return _times(_ops_of(place, version, batch, length, width, precision, causal=False), place, compiled=False)
    ops = naive_ops(batch, length, width, precision, causal=False, compiled=compiled,
                    tile=tile_columns(place, precision), **_written_out(row, of_queries=True))  # fmt: skip
    found = _times(ops, place, compiled=compiled)
    if precision not in ("fp32", "tf32"):
        return found
    widened = compiled and bool(row.get("dynamic_shapes"))
    workspace = place.efficiencies.workspace_bytes
    kept_workspace = workspace / 2 if row.get("workspaces") == 1 else workspace
    rows = WRITTEN_OUT_BYTES if row.get("softmax") == "written out" else 0.0
    kept = float(kept_bytes(batch, length, width, row_bytes=rows, widened=widened)) + kept_workspace
    peak = float(peak_bytes(batch, length, width, compiled=compiled, widened=widened)) + workspace
    return {
        **found,
        "memory_before_backward_bytes": kept,
        "memory_per_seq_squared_bytes": kept / length**2,
        "peak_memory_bytes": peak,
    }


def speedup_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict how many times faster compiled attention is than eager, pass by pass."""
    length, width, batch = _case(row, place, SWEPT_BATCH)
    precision = _precision(row, place)
    eager, compiled = (
        _times(
            naive_ops(batch, length, width, precision, causal=False, compiled=one, tile=tile_columns(place, precision)),
            place,
            compiled=one,
        )
        for one in (False, True)
    )
    return {f"{name}_speedup": eager[f"{name}_s"] / compiled[f"{name}_s"] for name in PASSES}


def implementations_row(row: Mapping[str, Any], place: TableDevice) -> dict[str, float]:
    """Predict a row of several implementations side by side, and how many times faster one is than another.

    Device time of the kernels alone, as such tables are timed (triton.testing.do_bench).
    """
    length, width, batch = _case(row, place, COMPARED_BATCH)
    precision = _precision(row, place)
    if "causal" not in row:
        place.assume("a causal mask, as CS336's assignment has it")
    causal = bool(row.get("causal", True))
    names = {key.removesuffix("_forward_s") for key in row if key.endswith("_forward_s")}
    found: dict[str, float] = {}
    for name in sorted(names):
        ops = _ops_of(place, name, batch, length, width, precision, causal=causal, **_written_out(row))
        if name == "triton":
            # its section 1.3 asks for a backward of plain PyTorch under torch.compile
            place.assume("triton's backward is compiled PyTorch that recomputes, as CS336's assignment has it")
            again = recomputed_backward_ops(batch, length, width, precision, tile=tile_columns(place, precision))
            ops = [op for op in ops if op.phase == "forward"] + again
        for part, phases in PASSES.items():
            if ops:
                found[f"{name}_{part}_s"] = _device_s(ops, phases, place)
    slow, fast = sorted(names & NAIVE), sorted(names - NAIVE)
    if len(slow) == len(fast) == 1 and f"{fast[0]}_forward_s" in found:
        for part in PASSES:
            found[f"{part}_speedup"] = found[f"{slow[0]}_{part}_s"] / found[f"{fast[0]}_{part}_s"]
    return found


def _written_out(row: Mapping[str, Any], *, of_queries: bool = False) -> dict[str, bool]:
    """Whether the softmax of a row is written out; its memory then shows that only the queries ask for a gradient."""
    if row.get("softmax") != "written out":
        return {}
    return {"written_out": True, **({"of_queries": True} if of_queries else {})}


def _case(row: Mapping[str, Any], place: TableDevice, usual_batch: int) -> tuple[int, int, int]:
    width = next((name for name in WIDTHS if name in row), WIDTHS[0])
    if "batch" not in row:
        place.assume(f"batch {usual_batch}, one head, as CS336's assignment has it")
    return whole(row, "seq_len"), whole(row, width), whole(row, "batch", usual_batch) * whole(row, "heads", 1)


def _precision(row: Mapping[str, Any], place: TableDevice) -> str:
    if "precision" not in row:
        place.assume("precision fp32, as the table states none")
    written = word(row, "precision", "fp32")
    found = {"fp16": "bf16"}.get(written, written)
    if found not in PEAK_FIELD or not peak_flops_per_s(place.hardware, found) > 0:
        remedy = "Choose a chip that has it."
        raise InputProblems([Problem(field="precision", message=f"{place.label} has no {found}", remedy=remedy)])
    return found


def _ops_of(
    place: TableDevice, name: str, batch: int, length: int, width: int, precision: str, *, causal: bool,
    written_out: bool = False,
) -> list[Op]:  # fmt: skip
    if name in NAIVE:
        return naive_ops(
            batch, length, width, precision, causal=causal, tile=tile_columns(place, precision), written_out=written_out
        )
    if name not in FUSED:
        return []
    return fused_ops(place, batch, 1, length, width, precision, FUSED[name], causal=causal)


def _device_s(ops: Sequence[Op], phases: Sequence[str], place: TableDevice) -> float:
    chip = place.hardware
    return sum(float(price(op, chip, place.efficiencies).seconds) for op in ops if op.phase in phases)


def _times(ops: Sequence[Op], place: TableDevice, *, compiled: bool) -> dict[str, float]:
    """Seconds of each pass: its kernels', or the host's where that takes longer to launch them."""
    e, found = place.efficiencies, {}
    each = {
        "forward": e.host_fused_forward_s if compiled else e.host_forward_s,
        "backward": e.host_fused_backward_s if compiled else e.host_backward_s,
    }
    if not ops:
        return {}
    for part, host_s in each.items():
        device_s = _device_s(ops, (part,), place)
        launches = sum(float(op.launches) for op in ops if op.phase == part)
        wait_s, _ = phase_wait_s(device_s, host_s * launches, 0.0)
        found[f"{part}_s"] = device_s + float(wait_s)
    return {**found, "forward_backward_s": sum(found.values())}
