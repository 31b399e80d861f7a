"""Breakdown: seconds by category and phase, bytes by kind; what predictions and measurements both end in.

The one place that spells these names and says how people see them; the page has both from the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Term:
    """What a name says, its formula, and where that is from."""

    says: str
    formula: str = ""
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How people see a name: its label, its hue among those of ``static/css/tokens.css``, and what it says."""

    label: str
    hue: str
    term: Term | None = None


@dataclass(frozen=True, kw_only=True)
class ShownCategory(Shown):
    """A category: how people see it, and all that the rest follows it by.

    ``binds``: the sentence where it takes most of a step; ``amount_unit``: what its work is counted in, FLOP or bytes,
    as its kernels take their time from; ``op_kinds``: the kinds of a network's ops that are of it, each priced and
    varied on its own; ``phase``: of what is no work of the device, the phase of a step that is all of it.
    """

    binds: str
    amount_unit: str = ""
    op_kinds: tuple[str, ...] = ()
    phase: str = ""


class Category:
    """Where the time of a step goes. ``HOST`` is the device waiting for the host, ``BUBBLE`` for other stages,
    ``COMMUNICATION`` only what is exposed; ``OTHER`` is copies and what has no other home."""

    MATMUL = "matmul"
    ATTENTION = "attention"
    ELEMENTWISE = "elementwise"
    COMMUNICATION = "communication"
    OPTIMIZER = "optimizer"
    BUBBLE = "bubble"
    HOST = "host"
    OTHER = "other"


class Phase:
    """Parts of a step that follow one another on the critical path; they add to the step time."""

    FORWARD = "forward"
    BACKWARD = "backward"
    OPTIMIZER = "optimizer"
    EXPOSED_COMMUNICATION = "exposed_communication"
    BUBBLE = "bubble"
    HOST_WAIT = "host_wait"


WEIGHT_GRADIENTS = "weight_gradients"
"""A pass of its own under a schedule that parts it from backward; of a step's phases it is backward's."""
ACCUMULATION = "accumulation"
"""Gradients of micro-batches added up, of all of them together; of a step's phases it is backward's."""


class MemoryKind:
    """What device memory holds at the peak; the kinds add to ``peak_bytes``. ``FRAMEWORK`` is library workspaces."""

    PARAMETERS = "parameters"
    GRADIENTS = "gradients"
    OPTIMIZER = "optimizer"
    ACTIVATIONS = "activations"
    LOGITS = "logits"
    TEMPORARIES = "temporaries"
    COMMUNICATION = "communication"
    FRAMEWORK = "framework"


SHOWN_CATEGORIES: dict[str, ShownCategory] = {
    Category.MATMUL: ShownCategory(
        label="matmul",
        hue="blue",
        binds="Matrix products bind.",
        amount_unit="FLOP",
        op_kinds=("gemm",),
        term=Term(
            says="Matrix products: projections, feed-forward, logits. Time is by tiles and waves of the chip's"
            " multiprocessors.",
            formula="2 · m · n · k FLOPs each",
        ),
    ),
    Category.ATTENTION: ShownCategory(
        label="attention",
        hue="violet",
        binds="Attention binds.",
        amount_unit="FLOP",
        op_kinds=("gemm", "attention", "kernels"),
        term=Term(
            says="Scores, softmax and weighting of values; fused or not, as the attention setting says.",
            formula="4 · S² · heads · head width FLOPs forward, half of it where causal kernels skip",
            source="Dao 2023, arXiv 2307.08691",
        ),
    ),
    Category.ELEMENTWISE: ShownCategory(
        label="elementwise",
        hue="teal",
        binds="Memory traffic of element-wise kernels binds.",
        amount_unit="bytes",
        op_kinds=("kernels",),
        term=Term(
            says="Norms, activations, residuals, rotary positions, cross-entropy: bound by memory bandwidth, so bytes"
            " count.",
            formula="bytes / (memory bandwidth · share reached)",
        ),
    ),
    Category.COMMUNICATION: ShownCategory(
        label="communication",
        hue="orange",
        binds="Exposed communication binds.",
        amount_unit="bytes",
        phase=Phase.EXPOSED_COMMUNICATION,
        term=Term(
            says="Time of collectives that compute does not hide. Ring all-reduce of n bytes over r ranks moves"
            " 2·n·(r−1)/r on each link, all-gather and reduce-scatter half of it.",
            formula="start + bytes · (r−1)/r / link bandwidth",
            source="nccl-tests, doc/PERFORMANCE.md",
        ),
    ),
    Category.OPTIMIZER: ShownCategory(
        label="optimizer",
        hue="slate",
        binds="The optimizer's memory traffic binds.",
        amount_unit="bytes",
        term=Term(says="The update of the parameters: reads and writes of master weights, moments and gradients."),
    ),
    Category.BUBBLE: ShownCategory(
        label="bubble",
        hue="rose",
        binds="The pipeline bubble binds.",
        phase=Phase.BUBBLE,
        term=Term(
            says="Stages of a pipeline that wait for the first or last micro-batches.",
            formula="(pp − 1) / (v · m) of the compute, under 1F1B with v chunks and m micro-batches",
            source="Narayanan et al. 2021, arXiv 2104.04473",
        ),
    ),
    Category.HOST: ShownCategory(
        label="host",
        hue="ochre",
        binds="The host binds: the chip waits for launches, and a faster chip or link gains little.",
        phase=Phase.HOST_WAIT,
        term=Term(
            says="Time in which the chip waits because the host has not launched the next kernel yet. Compiling or"
            " larger batches lower it.",
            formula="max(0, launches · time of a launch − device time), along the step",
        ),
    ),
    Category.OTHER: ShownCategory(label="other", hue="grey", binds="Copies bind."),
}
# forward and backward hold ops of many categories, so that they have the hue of none
SHOWN_PHASES = {
    Phase.FORWARD: Shown(label="forward", hue="moss"),
    Phase.BACKWARD: Shown(label="backward", hue="brown"),
    Phase.OPTIMIZER: Shown(label="optimizer", hue="slate"),
    Phase.EXPOSED_COMMUNICATION: Shown(
        label="exposed communication", hue="orange", term=SHOWN_CATEGORIES[Category.COMMUNICATION].term
    ),
    Phase.BUBBLE: Shown(label="bubble", hue="rose"),
    Phase.HOST_WAIT: Shown(label="host wait", hue="ochre", term=SHOWN_CATEGORIES[Category.HOST].term),
}
SHOWN_PASSES = {
    Phase.FORWARD: SHOWN_PHASES[Phase.FORWARD],
    Phase.BACKWARD: SHOWN_PHASES[Phase.BACKWARD],
    WEIGHT_GRADIENTS: Shown(label="weight gradients", hue="pink"),
    ACCUMULATION: Shown(label="elementwise: gradient accumulation", hue="teal"),
}
"""Passes of a micro-batch through a stage, and what follows them, as a timeline of a pipeline draws them."""
BETWEEN_PASSES = (ACCUMULATION, Category.OPTIMIZER, Phase.BUBBLE, Category.COMMUNICATION, Category.HOST)
"""What a stage's lane shows beside its passes."""
SHOWN_MEMORY_KINDS = {
    MemoryKind.PARAMETERS: Shown(label="parameters", hue="blue"),
    MemoryKind.GRADIENTS: Shown(label="gradients", hue="teal"),
    MemoryKind.OPTIMIZER: Shown(label="optimizer", hue="slate"),
    MemoryKind.ACTIVATIONS: Shown(label="activations", hue="violet"),
    MemoryKind.LOGITS: Shown(label="logits", hue="pink"),
    MemoryKind.TEMPORARIES: Shown(label="temporaries", hue="amber"),
    MemoryKind.COMMUNICATION: Shown(label="communication", hue="orange"),
    MemoryKind.FRAMEWORK: Shown(label="framework", hue="grey"),
}

CATEGORIES = tuple(SHOWN_CATEGORIES)
PHASES = tuple(SHOWN_PHASES)
MEMORY_KINDS = tuple(SHOWN_MEMORY_KINDS)

WAITING = {name: shown.phase for name, shown in SHOWN_CATEGORIES.items() if shown.phase}
"""Categories in which the device does nothing of its own, with their phases."""
WORK_CATEGORIES = tuple(name for name in CATEGORIES if name not in WAITING)
WORK_PHASES = tuple(name for name in PHASES if name not in WAITING.values())
"""Forward, backward and the optimizer's step: in which the device works."""
ARITHMETIC = tuple(name for name, shown in SHOWN_CATEGORIES.items() if shown.amount_unit == "FLOP")
"""Categories whose ops have FLOPs to share among their kernels."""
PLAIN = (Category.ELEMENTWISE, Category.OTHER)
"""What names alone cannot tell from the optimizer's own work: in its phase it is that."""


def complete(values: dict[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """Return ``values`` with every name present, zeros for the missing ones, in the order of ``names``."""
    unknown = set(values) - set(names)
    assert not unknown, f"unknown categories: {sorted(unknown)}"
    return {name: float(values.get(name, 0.0)) for name in names}
