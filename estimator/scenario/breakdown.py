"""Breakdown: seconds by category and phase, bytes by kind; what predictions and measurements both end in.

The one place that spells these names and says how people see them; the page has both from the catalogue.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Shown:
    """How people see a name: its label, and its hue among those of ``static/css/tokens.css``."""

    label: str
    hue: str


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


SHOWN_CATEGORIES = {
    Category.MATMUL: Shown(label="matmul", hue="blue"),
    Category.ATTENTION: Shown(label="attention", hue="violet"),
    Category.ELEMENTWISE: Shown(label="elementwise", hue="teal"),
    Category.COMMUNICATION: Shown(label="communication", hue="orange"),
    Category.OPTIMIZER: Shown(label="optimizer", hue="slate"),
    Category.BUBBLE: Shown(label="bubble", hue="rose"),
    Category.HOST: Shown(label="host", hue="ochre"),
    Category.OTHER: Shown(label="other", hue="grey"),
}
SHOWN_PHASES = {
    Phase.FORWARD: Shown(label="forward", hue="blue"),
    Phase.BACKWARD: Shown(label="backward", hue="violet"),
    Phase.OPTIMIZER: Shown(label="optimizer", hue="slate"),
    Phase.EXPOSED_COMMUNICATION: Shown(label="exposed communication", hue="orange"),
    Phase.BUBBLE: Shown(label="bubble", hue="rose"),
    Phase.HOST_WAIT: Shown(label="host wait", hue="ochre"),
}
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


def complete(values: dict[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """Return ``values`` with every name present, zeros for the missing ones, in the order of ``names``."""
    unknown = set(values) - set(names)
    assert not unknown, f"unknown categories: {sorted(unknown)}"
    return {name: float(values.get(name, 0.0)) for name in names}
