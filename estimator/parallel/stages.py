"""Stages: seconds of one micro-batch on the ranks of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.arrays import maximum, where
from estimator.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class StageTimes:
    """Seconds of one micro-batch on one rank, over all its chunks: forward, backward to input and weights."""

    forward_s: Number
    input_s: Number
    weight_s: Number

    @property
    def seconds(self) -> Number:
        """Forward and both halves of backward."""
        return self.forward_s + self.input_s + self.weight_s


@dataclass(frozen=True, kw_only=True, slots=True)
class Stages:
    """The first stage, one that stands for all between, the last, and how many there are; two have none between."""

    first: StageTimes
    middle: StageTimes
    last: StageTimes
    count: Number

    @property
    def pace_s(self) -> Number:
        """Seconds of the slowest."""
        ends_s = maximum(self.first.seconds, self.last.seconds)
        return maximum(ends_s, where(self.count > 2, self.middle.seconds, ends_s))

    @property
    def total(self) -> StageTimes:
        """Seconds of all together."""
        between = self.count - 2
        return StageTimes(
            forward_s=self.first.forward_s + between * self.middle.forward_s + self.last.forward_s,
            input_s=self.first.input_s + between * self.middle.input_s + self.last.input_s,
            weight_s=self.first.weight_s + between * self.middle.weight_s + self.last.weight_s,
        )
