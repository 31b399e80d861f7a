"""Breakdown: seconds by category and phase, bytes by kind; what predictions and measurements both end in."""

from __future__ import annotations

CATEGORIES = ("matmul", "attention", "elementwise", "communication", "optimizer", "bubble", "host", "other")
"""Where the time of a step goes. ``host`` is the device waiting for the host, ``bubble`` for other stages,
``communication`` only what is exposed; ``other`` is copies and what has no other home."""

PHASES = ("forward", "backward", "optimizer", "exposed_communication", "bubble", "host_wait")
"""Parts of a step that follow one another on the critical path; they add to the step time."""

MEMORY_KINDS = (
    "parameters",
    "gradients",
    "optimizer",
    "activations",
    "logits",
    "temporaries",
    "communication",
    "framework",
)
"""What device memory holds at the peak; the kinds add to ``peak_bytes``. ``framework`` is library workspaces."""


def complete(values: dict[str, float], names: tuple[str, ...]) -> dict[str, float]:
    """Return ``values`` with every name present, zeros for the missing ones, in the order of ``names``."""
    unknown = set(values) - set(names)
    assert not unknown, f"unknown categories: {sorted(unknown)}"
    return {name: float(values.get(name, 0.0)) for name in names}
