"""Own file: which of the JSON objects that Headroom reads or writes one is, told by its keys, and where it belongs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from estimator.scenario.problems import refusal


@dataclass(frozen=True, kw_only=True)
class OwnFile:
    """A kind of file that has all of ``keys``, the first of which nothing else has; ``belongs``: what takes it."""

    kind: str
    keys: tuple[str, ...]
    belongs: str

    @property
    def called(self) -> str:
        """Its kind with an article."""
        return f"{'an' if self.kind[0] in 'aeio' else 'a'} {self.kind}"


KINDS = (
    OwnFile(kind="trace", keys=("traceEvents",), belongs="Import it: drop it on the page, or headroom import FILE."),
    OwnFile(
        kind="calibration",
        keys=("ranges", "base"),
        belongs="Predict under it: headroom estimate, sweep, trace, validate, predict and serve take "
        "--calibration FILE. The page makes its own, under Calibrated, of what `python -m runners probes` wrote.",
    ),
    OwnFile(
        kind="op list",
        keys=("signatures", "calls", "format"),
        belongs="Predict it: drop it on the page or choose it by the arrow at the top, or headroom estimate FILE.",
    ),
    OwnFile(
        kind="scenario",
        keys=("cluster", "model"),
        belongs="Predict it: drop it on the page, which opens it as A, or headroom estimate FILE.",
    ),
    OwnFile(
        kind="measurement",
        keys=("origin", "device"),
        belongs="Import it: drop it on the page, or headroom import FILE.",
    ),
)


def own_file(names: Collection[str]) -> OwnFile | None:
    """The kind of file that has these keys at its top; None where it is none of them."""
    return next((one for one in KINDS if all(key in names for key in one.keys)), None)


def refuse_own(names: Collection[str], expected: str) -> None:
    """Raise InputProblems where a file with these keys is one of Headroom's own, and another was expected."""
    if one := own_file(names):
        raise refusal(one.keys[0], f"this is {one.called}, no {expected}", one.belongs)
