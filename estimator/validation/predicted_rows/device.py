"""Device: where a table was measured, and what had to be assumed to predict it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from estimator.cost.efficiency import Calibrated, Efficiencies, efficiencies_for
from estimator.scenario import catalog
from estimator.scenario.codec import encode
from estimator.scenario.hardware import Chip, Cluster, chips_of_a_node
from estimator.scenario.measurement import Measurement
from estimator.scenario.plan import AXES
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, chip_from_json, cluster_from_json, scenario_from_json
from estimator.validation.spellings import chips_of_row, gpu_of_row

NEEDED = "needed_bytes"
"""Beside predictions of a row's columns: what the allocator would hold of the fullest rank, which fits or does not."""
LARGEST = 1_000_000_000_000
"""No count of a row, bytes of a payload included, is above it; what is was not written by a benchmark."""


def whole(row: Mapping[str, Any], column: str, default: int | None = None) -> int:
    """Read a count from a row, which a file may have filled with anything; raise InputProblems where it is none."""
    value = row.get(column, default)
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and 1 <= value <= LARGEST
        and value == int(value)
    ):
        return int(value)
    shown = f"{value!r:.40} is no count" if column in row else "is missing"
    raise InputProblems(
        [Problem(field=column, message=shown, remedy="Write a whole number from 1 on, and import again.")]
    )


def word(row: Mapping[str, Any], column: str, default: str | None = None) -> str:
    """Read a word from a row; raise InputProblems where it is none."""
    value = row.get(column, default)
    if isinstance(value, str):
        return value
    raise InputProblems([Problem(field=column, message="is no word", remedy="Import the table again.")])


def chip_of(measurement: Measurement) -> str | Chip:
    """Name the chip that a measurement ran on as the catalogue finds it, "" where it does not say; or one's own.

    Of CPUs the catalogue has at most the one that runs this, which then stands for all.
    """
    if measurement.device.get("kind") == "cpu":
        return catalog.THIS_CPU
    own = measurement.device.get("own")
    return chip_from_json(own) if own else str(measurement.device.get("name") or "")


def chips_said(measurement: Measurement) -> dict[str, str | Chip]:
    """What people say that the GPU names of a table's rows are: chips of the catalogue by name, or their own."""
    said = measurement.device.get("chips")
    named = said.items() if isinstance(said, Mapping) else ()
    return {name: chip if isinstance(chip, str) else chip_from_json(chip) for name, chip in named}


def chip_named(row: Mapping[str, Any], said: Mapping[str, str | Chip]) -> str | Chip:
    """What the GPU name of a row is: as people ``said``, else the only chip that the catalogue has of it, else ""."""
    known = chips_of_row(row)
    return said.get(gpu_of_row(row)) or (known[0] if len(known) == 1 else "")


@dataclass(kw_only=True)
class TableDevice:
    """A chip of the catalogue or one's own, and the ranks that a row has where it names none.

    They are in one node, unless they are more than usual in one of this chip.
    """

    chip: str | Chip
    ranks: int
    calibration: Calibrated | None = None
    assumed: dict[str, None] = field(default_factory=dict)

    @cached_property
    def hardware(self) -> Chip:
        """What the chip is; raises InputProblems where the catalogue has none of that name."""
        return catalog.chip(self.chip) if isinstance(self.chip, str) else self.chip

    @cached_property
    def label(self) -> str:
        """What people call the chip; raises InputProblems where the catalogue has none of that name."""
        return self.hardware.label or self.hardware.name or "a chip of one's own"

    @cached_property
    def efficiencies(self) -> Efficiencies:
        """Shares of the peaks that the chip reaches: as it was calibrated, else as its family does."""
        return efficiencies_for(self.hardware, self.calibration)

    def assume(self, words: str) -> None:
        """Note something that the table does not say; once."""
        self.assumed[words] = None

    def cluster(self, ranks: int) -> Cluster:
        """So many chips, with the links that the catalogue gives them."""
        return cluster_from_json(self._node(ranks))

    def scenario(self, model: Any, plan: dict[str, Any], training: dict[str, Any]) -> Scenario:
        """Build the scenario of a row; raise InputProblems."""
        ranks = math.prod(plan.get(axis, 1) for axis in AXES)
        return scenario_from_json({"model": model, "cluster": self._node(ranks), "plan": plan, "training": training})

    def _node(self, ranks: int) -> dict[str, Any]:
        usual = self.hardware.chips_per_node
        in_node = ranks if ranks <= usual or usual == 1 else chips_of_a_node(ranks, usual)
        return {"chip": encode(self.chip), "chips_per_node": in_node, "nodes": ranks // in_node}
