"""Measured: what a row of a CSV says was measured: seconds of a step or of its parts, and which kind of memory."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from estimator.scenario import catalog
from estimator.scenario.breakdown import WORK_PHASES, Phase
from estimator.scenario.hardware import peak_flops_per_s
from estimator.scenario.parameters import model_flops_per_token
from estimator.scenario.plan import AXES
from estimator.scenario.problems import InputProblems
from estimator.scenario.scenario import Scenario
from estimator.validation.spellings import chip_of, precision_of

PEERS = re.compile(r"(naive|roofline|habitat|li_et_al|neusight|[a-z0-9]+(?:_[a-z0-9]+)*_predicted)_s$")
"""Columns of others' predictions of the time that a row measures."""
PART_OF_A_STEP = re.compile(r"\[\s*forward(?!.*(adam|sgd|optimizer))(.*backward)?.*\]", re.I)
"""A model's name in tables of single GPUs may say which part of a step was timed: [forward], [forward+backward]."""
INFERENCE = re.compile(r"\[[^\]]*\binference\b[^\]]*\]", re.I)
"""It may say that autograd was off: [inference]."""
DEVICE_USE = re.compile(r"nvml|nvidia-smi|device use", re.I)
RESERVED = re.compile(r"(max|peak)[ _]?(memory[ _])?reserved|reserved peak", re.I)
LAST_RANK = re.compile(r"megatron-lm tests/functional_tests", re.I)
"""Megatron-LM logs memory from its last rank (is_last_rank in megatron/training/global_vars.py)."""
CONTEXT = re.compile(r"(\d+) ?MiB context", re.I)
CONTEXT_BYTES = 500 * 2**20
"""What a process holds of a GPU beside its allocator, where a row does not say: 0.3 to 0.6 GiB on recent drivers."""
CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes of torch.compile that replay CUDA graphs: no launch waits for the host."""
MEGATRON_VOCAB = 51_200
"""Vocabulary of the Megatron-LM papers' models, for rows that state none."""
WHOLE_STEP = ("measured_step_time_s", "measured_tokens_per_s_per_gpu", "measured_tflops_per_gpu", "measured_mfu")

NOTHING_MEASURED = (
    "no measured time or memory: give measured_step_time_s, measured_tokens_per_s_per_gpu, measured_peak_mem_gib, the"
    " times of phases, or measured_tflops_per_gpu or measured_mfu of a source whose FLOP convention is known"
)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What a row says was measured; None and {} where it says nothing.

    ``step_s`` is the time of ``timed_parts``, of a whole step where there are none. ``memory_kind``: the peak is of
    what was ``allocated``, of what the allocator ``reserved``, or of the whole ``device``, ``context_bytes`` of the
    process included. ``memory_of_last``: it is the last pipeline rank's, not the fullest's. ``graphs``: CUDA
    graphs were replayed. ``peers_s``: others' predictions of ``step_s``, by whose.
    """

    step_s: float | None
    timed_parts: tuple[str, ...]
    parts_s: dict[str, float]
    memory_bytes: float | None
    memory_kind: str
    memory_of_last: bool
    context_bytes: float
    graphs: bool
    peers_s: dict[str, float]

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to compare with."""
        return self.step_s is None and self.memory_bytes is None and not self.parts_s


def measured_of(cells: Mapping[str, str], scenario: Scenario | None) -> Measured:
    """Read what was measured; the scenario is what a source's FLOPs per second or utilisation are counted for."""
    parts_s, timed_parts = _parts(cells)
    step_s = _part_of_step_s(cells, scenario, parts_s, timed_parts) if timed_parts else _step_s(cells, scenario)
    if "time not useful" in cells.get("quality_flags", ""):
        step_s = None
    memory_gib = number(cells.get("measured_peak_mem_gib", ""))
    notes = cells.get("notes", "")
    device, stated = DEVICE_USE.search(notes), CONTEXT.search(notes)
    peers = {name[1]: number(cell) for column, cell in cells.items() if (name := PEERS.match(column))}
    return Measured(
        step_s=step_s,
        timed_parts=timed_parts,
        parts_s=parts_s,
        # What a part of a step keeps is not what is predicted
        memory_bytes=memory_gib * 2**30 if memory_gib and not timed_parts else None,
        memory_kind="device" if device else "reserved" if RESERVED.search(notes) else "allocated",
        memory_of_last=bool(LAST_RANK.search(cells.get("source", ""))),
        context_bytes=float(stated[1]) * 2**20 if stated else CONTEXT_BYTES,
        graphs=cells.get("compile", "").lower() in CUDA_GRAPHS,
        peers_s={name: seconds for name, seconds in peers.items() if seconds},
    )


def is_inference(cells: Mapping[str, str]) -> bool:
    """Whether a row is of a forward that autograd does not record, by its mode or by what its model's name says."""
    return cells.get("mode", "").lower() == "inference" or bool(INFERENCE.search(cells.get("model", "")))


def _parts(cells: Mapping[str, str]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Read the times of phases, and which of them the row's time is made of where it is not a whole step.

    Inference is a forward. A row with forward and backward and no whole step is those two. ``quality_flags`` that begin
    with forward say that its time is not to be used.
    """
    found = {part: number(cells.get(f"measured_{part}_s", "")) for part in WORK_PHASES}
    if cells.get("quality_flags", "").startswith("forward"):
        found[Phase.FORWARD] = None
    known = {part: seconds for part, seconds in found.items() if seconds}
    named = PART_OF_A_STEP.search(cells.get("model", ""))
    if is_inference(cells) or (named and not named[2]):
        return known, WORK_PHASES[:1]
    if named:
        return known, WORK_PHASES[:2]
    whole = any(number(cells.get(column, "")) for column in WHOLE_STEP)
    return known, WORK_PHASES[:2] if Phase.BACKWARD in known and Phase.OPTIMIZER not in known and not whole else ()


def _part_of_step_s(
    cells: Mapping[str, str], scenario: Scenario | None, parts_s: Mapping[str, float], timed_parts: tuple[str, ...]
) -> float | None:
    if any(part not in parts_s for part in timed_parts):
        # The name of the row says that its step is these parts
        return _step_s(cells, scenario) if PART_OF_A_STEP.search(cells.get("model", "")) else None
    both = number(cells.get("measured_forward_backward_s", "")) if len(timed_parts) > 1 else None
    return both or sum(parts_s[part] for part in timed_parts)


def _step_s(cells: Mapping[str, str], scenario: Scenario | None) -> float | None:
    """Measured step time, or what throughput or FLOP/s say about it."""
    measured = number(cells.get("measured_step_time_s", ""))
    if measured:
        return measured
    rate = number(cells.get("measured_tokens_per_s_per_gpu", ""))
    batch, seq_len = number(cells.get("global_batch", "")), number(cells.get("seq_len", ""))
    chips = chips_stated(cells)
    if rate and batch and seq_len and chips:
        return batch * seq_len / (rate * chips)
    if not chips:
        return None
    flops_per_s = (number(cells.get("measured_tflops_per_gpu", "")) or 0.0) * 1e12 or _used_flops_per_s(cells, scenario)
    flops = _stated_flops(cells, scenario)
    return flops / (flops_per_s * chips) if flops_per_s and flops else None


PERCENT = 1.5
"""A measured_mfu above this is in percent."""
WHOLE_SQUARE = ("llm-foundry", "nemo", "dgxc", "palm")
"""Sources and conventions that count 6·N + 12·L·d·s per token: the full attention square, nothing recomputed."""
HALF_SQUARE = ("megatron-bridge", "causal")
"""Those that count half of the square."""


def _used_flops_per_s(cells: Mapping[str, str], scenario: Scenario | None) -> float:
    """FLOP/s of a chip that its utilisation stands for."""
    used, precision = number(cells.get("measured_mfu", "")), precision_of(cells.get("precision", "bf16"))
    try:
        chip = scenario.cluster.chip if scenario is not None else catalog.chip(chip_of(cells.get("hardware", "")))
    except InputProblems:
        return 0.0
    if not used or not precision:
        return 0.0
    return (used / 100 if used > PERCENT else used) * peak_flops_per_s(chip, precision)


def _stated_flops(cells: Mapping[str, str], scenario: Scenario | None) -> float | None:
    """FLOPs of a step by the row's ``flop_convention`` (palm, causal, 96bslh, megatron), else by that of its source.

    None where that is not known. palm: PaLM's (arXiv 2204.02311, appendix B); causal: half of the attention square.
    Narayanan 2021 (arXiv 2104.04473, eq. 3) counts recomputation: 96·B·s·l·h²·(1 + s/6h + V/16lh). Megatron-LM's own
    counter does not: 72·B·s·l·h²·(1 + s/6h + V/12lh). Both are for GPT blocks with an FFN of 4·h.
    """
    names = ("global_batch", "seq_len", "n_layers", "d_model", "vocab")
    batch, seq_len, layers, hidden, vocab = (number(cells.get(name, "")) for name in names)
    if not (batch and seq_len and layers and hidden):
        return None
    words = f"{cells.get('flop_convention', '')} {cells.get('source', '')}".lower()
    causal = any(word in words for word in HALF_SQUARE)
    if scenario is not None and (causal or any(word in words for word in WHOLE_SQUARE)):
        model = scenario.model
        half = 6.0 * layers * seq_len * model.output_width if causal else 0.0
        return scenario.tokens * (model_flops_per_token(model, scenario.training.seq_len) - half)
    vocab = vocab or MEGATRON_VOCAB
    tokens = batch * seq_len * layers * hidden**2
    if "96bslh" in f"{words} {cells.get('notes', '').lower()}":
        return 96 * tokens * (1 + seq_len / (6 * hidden) + vocab / (16 * layers * hidden))
    own = "megatron-lm" in words or cells.get("flop_convention", "").lower() == "megatron"
    if own and number(cells.get("d_ff", "")) == 4 * hidden:
        return 72 * tokens * (1 + seq_len / (6 * hidden) + vocab / (12 * layers * hidden))
    return None


def chips_stated(cells: Mapping[str, str]) -> int:
    """How many chips a row ran on: as it says, else as the degrees that it states have; 0 where it says neither."""
    if stated := number(cells.get("n_gpus", "")):
        return int(stated)
    degrees = [degree for axis in AXES if (degree := number(cells.get(axis, "")))]
    return int(math.prod(degrees)) if degrees else 0


def is_count(value: float) -> bool:
    """Whether a number can count GPUs, layers or sequences: it is whole, and from 1 on."""
    return math.isfinite(value) and value >= 1 and value == int(value)


def number(text: str) -> float | None:
    """Read a number; None where the cell is empty or is none."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Tables written by pandas say nan where nothing is known.
    return value if math.isfinite(value) else None
