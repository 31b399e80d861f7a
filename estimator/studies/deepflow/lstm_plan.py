"""Plan of an LSTM language model: replicas, groups of processors in a chain, a kernel split for each part."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from estimator.scenario.arrays import ceil_div
from estimator.scenario.problems import InputProblems, Problem, divisors_near
from estimator.studies.deepflow import kernel_split, lstm
from estimator.studies.deepflow.kernel_split import KernelSplit
from estimator.studies.deepflow.lstm import Lstm
from estimator.studies.deepflow.lstm_price import Rates

PARTS = ("hidden", "softmax", "embedding", "projection")


@dataclass(frozen=True, kw_only=True)
class LstmPlan:
    """Degrees: ``dp`` replicas of the model, ``hlp`` pipeline stages of recurrent layers, a kernel split for each part.

    ``lp`` counts the groups of processors in a chain: the ``hlp`` stages, and with lp = hlp + 1 a group of their own
    for projection and softmax, with lp = hlp + 2 one more for the embedding.
    """

    dp: int = 1
    lp: int = 1
    hlp: int = 1
    hidden: KernelSplit = field(default_factory=KernelSplit)
    softmax: KernelSplit = field(default_factory=KernelSplit)
    embedding: KernelSplit = field(default_factory=KernelSplit)
    projection: KernelSplit = field(default_factory=KernelSplit)

    @property
    def chips(self) -> int:
        """Processors in all: a group is as large as the largest part on it."""
        stages = self.hlp * self.hidden.degree
        head = max(self.softmax.degree, self.projection.degree)
        apart = self.lp - self.hlp
        if apart == 0:
            return self.dp * max(stages, head, self.embedding.degree)
        if apart == 1:
            return self.dp * (max(stages, self.embedding.degree) + head)
        return self.dp * (stages + head + self.embedding.degree)

    @property
    def rings(self) -> tuple[int, ...]:
        """Degrees that need a ring of links at one processor."""
        most = max((getattr(self, part) for part in PARTS), key=lambda split: split.degree)
        return (self.dp, self.lp, most.first, most.second)


def replica(m: Lstm, dp: int) -> Lstm:
    """The model with the batch of one of ``dp`` replicas, the largest where they differ."""
    batch: Any = ceil_div(m.batch, dp)
    return replace(m, batch=int(batch) if isinstance(batch, float) else batch)


def check(m: Lstm, r: Rates, plan: LstmPlan, *, projected: bool = False) -> None:
    """Raise InputProblems with every degree that does not fit the model, and where processors have no link."""
    problems = []
    if plan.dp > m.batch:
        problems.append(
            Problem(
                field="dp", message=f"{plan.dp} replicas share {m.batch} sequences", remedy="Use at most the batch."
            )
        )
    own = replica(m, plan.dp)
    width = m.projection if projected else m.hidden
    if m.layers % plan.hlp:
        remedy = f"Choose {divisors_near(plan.hlp, m.layers)}."
        problems.append(Problem(field="hlp", message=f"{plan.hlp} does not divide {m.layers} layers", remedy=remedy))
    if not 0 <= plan.lp - plan.hlp <= 2:
        remedy = (
            f"With hlp = {plan.hlp} give {plan.hlp}, {plan.hlp + 1} (softmax apart) or {plan.hlp + 2} (embedding too)."
        )
        problems.append(Problem(field="lp", message=f"{plan.lp} groups cannot hold {plan.hlp} stages", remedy=remedy))
    for part in ("hidden", "softmax", "projection"):
        product = lstm.forward_product(own, part, width)
        problems += kernel_split.problems(getattr(plan, part), product, f"kp_{part}")
    table = lstm.Product(name="embedding", a=own.batch * own.sequence, b=m.vocab, c=m.hidden)
    problems += kernel_split.problems(plan.embedding, table, "kp_embedding")
    if plan.chips > 1 and not bool(np.all(np.asarray(r.link_bytes_per_s) > 0)):
        remedy = "Give the links a share of the power, or set every degree to 1."
        problems.append(
            Problem(
                field="link_power_frac", message=f"{plan.chips} processors have no link between them", remedy=remedy
            )
        )
    if problems:
        raise InputProblems(problems)
