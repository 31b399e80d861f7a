"""Device: where a table was measured, and what had to be assumed to predict it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from estimator.cost.efficiency import Calibrated, Efficiencies, efficiencies_for
from estimator.scenario import catalog
from estimator.scenario.hardware import Cluster
from estimator.scenario.measurement import Measurement
from estimator.scenario.plan import AXES
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.scenario import Scenario, cluster_from_json, scenario_from_json
from estimator.validation.csv_row import chips_of_a_node

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


def chip_of(measurement: Measurement) -> str:
    """Name the chip that a measurement ran on as the catalogue finds it, "" where it does not say.

    Of CPUs the catalogue has at most the one that runs this, which then stands for all.
    """
    if measurement.device.get("kind") == "cpu":
        return catalog.THIS_CPU
    return str(measurement.device.get("name") or "")


@dataclass(kw_only=True)
class TableDevice:
    """A chip of the catalogue, and the ranks that a row has where it names none.

    They are in one node, unless they are more than usual in one of this chip.
    """

    chip: str
    ranks: int
    calibration: Calibrated | None = None
    assumed: dict[str, None] = field(default_factory=dict)

    @cached_property
    def label(self) -> str:
        """What people call the chip; raises InputProblems where the catalogue has none of that name."""
        return catalog.chip(self.chip).label or self.chip

    @cached_property
    def efficiencies(self) -> Efficiencies:
        """Shares of the peaks that the chip reaches: as it was calibrated, else as its family does."""
        return efficiencies_for(catalog.chip(self.chip), self.calibration)

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
        usual = catalog.chip(self.chip).chips_per_node
        in_node = ranks if ranks <= usual or usual == 1 else chips_of_a_node(ranks, usual)
        return {"chip": self.chip, "chips_per_node": in_node, "nodes": ranks // in_node}
