"""Time of one training step of an LSTM language model under a plan: components, then their schedule."""

from __future__ import annotations

from dataclasses import dataclass, replace

from estimator.scenario.arrays import where
from estimator.scenario.units import Number
from estimator.studies.deepflow import kernel_split, lstm
from estimator.studies.deepflow.kernel_split import Cut, KernelCollective, KernelSplit
from estimator.studies.deepflow.lstm import Lstm, Pointwise
from estimator.studies.deepflow.lstm_exchanges import embedding_gather, embedding_rows, gate_exchange, moved_s, row_sums
from estimator.studies.deepflow.lstm_plan import LstmPlan, check, replica
from estimator.studies.deepflow.lstm_price import (
    PricedPointwise,
    PricedProduct,
    Rates,
    Update,
    embedding_s,
    price_pointwise,
    price_product,
    price_update,
    transfer_s,
)


@dataclass(frozen=True, kw_only=True)
class Component:
    """One component of the step, executed once."""

    products: tuple[PricedProduct, ...] = ()
    pointwise: PricedPointwise | None = None
    collectives: tuple[KernelCollective, ...] = ()
    communication_s: Number = 0.0
    seconds: Number = 0.0


@dataclass(frozen=True, kw_only=True)
class LstmStep:
    """All components, by the names of the reference, and the step that they make."""

    cf: Component
    cb: Component
    softmax_f: Component
    softmax_b: Component
    projection_f: Component
    projection_b: Component
    embedding_f_s: Number
    embedding_b_s: Number
    updates: dict[str, Update]
    forward_s: Number
    backward_s: Number
    seconds: Number


def price(
    cuts: tuple[Cut, ...],
    r: Rates,
    point: Pointwise | None = None,
    degree: int = 1,
    extra: tuple[KernelCollective, ...] = (),
) -> Component:
    """One processor's products one after the other, its share of the pointwise work, and the collectives."""
    products = tuple(price_product(p, r) for cut in cuts for p in cut.products)
    priced = None
    if point:
        priced = price_pointwise(replace(point, flops=point.flops / degree, bytes=point.bytes / degree), r)
    collectives = (*(move for cut in cuts for move in cut.collectives), *extra)
    seconds: Number = 0.0
    for each in products:
        seconds = seconds + each.seconds
    if priced:
        seconds = seconds + priced.seconds
    moved = moved_s(collectives, r)
    return Component(
        products=products, pointwise=priced, collectives=collectives, communication_s=moved, seconds=seconds + moved
    )


def waves_s(cell_s: Number, hand_over_s: Number, layers: int, stages: int, steps: int) -> Number:
    """Time steps pipelined over ``stages`` of layers: (L + L/h·(S − 1))·cell + (h − 1)·hand-over.

    Where handing over takes longer than a stage, it sets the beat: L·cell + (S + h − 2)·hand-over
    (June 2019 revision of DeepFlow).
    """
    stage_s = cell_s * layers / stages
    by_cells = (layers + layers / stages * (steps - 1)) * cell_s + hand_over_s * (stages - 1)
    by_links = layers * cell_s + (steps + stages - 2) * hand_over_s
    return where(hand_over_s <= stage_s, by_cells, by_links)


def backward_waves_s(cell_s: Number, update_s: Number, hand_over_s: Number, m: Lstm, stages: int) -> Number:
    """Backward pass and the updates of the layers, which hide behind the next layer's last cell.

    R ≤ cell: waves + R. Else the stage's layers wait for their updates at the last time step:
    (L + L/h·(S − 2) + 1)·cell + R·L/h + (h − 1)·hand-over.
    """
    layers, steps = m.layers, m.sequence
    hidden = waves_s(cell_s, hand_over_s, layers, stages, steps) + update_s
    shown = (layers + layers / stages * (steps - 2) + 1) * cell_s + update_s * (layers / stages)
    return where(update_s <= cell_s, hidden, shown + hand_over_s * (stages - 1))


def recurrent(m: Lstm, r: Rates, split: KernelSplit, *, corrected: bool = False) -> tuple[Component, Component]:
    """One cell of one time step, forward and backward; ``m`` is one replica's."""
    cell = lstm.forward_product(m, "hidden", m.hidden)
    gates = gate_exchange(cell, split)
    forward = price((kernel_split.forward(cell, split),), r, lstm.cell_forward(m), split.degree, gates)
    cuts = (
        kernel_split.backward_activations(cell, split, "Cb_act"),
        kernel_split.backward_weights(cell, split, "Cb_wt"),
    )
    backward = price(cuts, r, lstm.cell_backward(m, corrected=corrected), split.degree, gates)
    return forward, backward


def softmax(m: Lstm, r: Rates, split: KernelSplit, width: int) -> tuple[Component, Component]:
    """Logits and their gradients; the columns of logits stay where they are, only sums of rows travel forward."""
    logits = lstm.forward_product(m, "softmax", width)
    cut = kernel_split.forward(logits, split, gather=False)
    forward = price((cut,), r, lstm.softmax_forward(m), split.degree, row_sums(logits, split))
    cuts = (
        kernel_split.backward_weights(logits, split, "softmax_b_wt"),
        kernel_split.backward_activations(logits, split, "softmax_b_act"),
    )
    return forward, price(cuts, r, lstm.softmax_backward(m), split.degree)


def projection(m: Lstm, r: Rates, split: KernelSplit) -> tuple[Component, Component]:
    """Projection of every position and its gradients."""
    project = lstm.forward_product(m, "projection", m.hidden)
    cuts = (
        _turned(kernel_split.backward_weights(project, split, "projection_b_wt")),
        kernel_split.backward_activations(project, split, "projection_b_act"),
    )
    return price((kernel_split.forward(project, split),), r), price(cuts, r)


def embedding(m: Lstm, r: Rates, split: KernelSplit, replicas: int) -> tuple[Number, Number]:
    """Look-up and its gradient, in seconds."""
    looked_up = embedding_s(lstm.embedding_bytes(m) / split.degree, r)
    return (
        looked_up + moved_s(embedding_gather(m, split), r),
        looked_up + moved_s(embedding_rows(m, split, replicas), r),
    )


def step(
    m: Lstm, r: Rates, plan: LstmPlan | None = None, *, projected: bool = False, corrected: bool = False
) -> LstmStep:
    """Price one step of one processor of ``plan``; raises InputProblems for degrees that cannot be.

    ``projected`` puts the projection into the step and narrows the softmax, which the reference leaves out;
    ``corrected`` counts the backward pointwise work in full, and updates that do not hide.
    """
    plan = plan or LstmPlan()
    check(m, r, plan, projected=projected)
    return priced(m, r, plan, projected=projected, corrected=corrected, several=plan.chips > 1)


def priced(
    m: Lstm, r: Rates, plan: LstmPlan, *, projected: bool = False, corrected: bool = False, several: bool = True
) -> LstmStep:
    """Price one step of a plan on ``several`` processors or one, or of many plans whose degrees are arrays, unchecked.

    Plans of an array cut each part in the same kind of way, and each runs on several processors.
    """
    own = replica(m, plan.dp)
    width = m.projection if projected else m.hidden
    cf, cb = recurrent(own, r, plan.hidden, corrected=corrected)
    softmax_f, softmax_b = softmax(own, r, plan.softmax, width)
    projection_f, projection_b = projection(own, r, plan.projection)
    embedding_f, embedding_b = embedding(own, r, plan.embedding, plan.dp)
    updates = {part: update(m, r, plan, part, width) for part in ("Hidden", "Projection", "Softmax")}
    hand_over: Number = 0.0
    if not kernel_split.alone(plan.lp):
        hand_over = where(plan.lp > 1, transfer_s(own.batch * m.hidden / plan.hidden.degree, r), 0.0)
    forward = waves_s(cf.seconds, hand_over, m.layers, plan.hlp, m.sequence)
    if corrected or several:
        backward = backward_waves_s(cb.seconds, updates["Hidden"].seconds, hand_over, m, plan.hlp)
    else:
        backward = waves_s(cb.seconds, 0.0, m.layers, 1, m.sequence) + updates["Hidden"].seconds
    seconds = softmax_f.seconds + softmax_b.seconds + embedding_f + embedding_b
    if projected:
        seconds = seconds + (projection_f.seconds + projection_b.seconds + updates["Projection"].seconds)
    seconds = seconds + updates["Softmax"].seconds + (forward + backward)
    return LstmStep(
        cf=cf, cb=cb, softmax_f=softmax_f, softmax_b=softmax_b, projection_f=projection_f, projection_b=projection_b,
        embedding_f_s=embedding_f, embedding_b_s=embedding_b, updates=updates,
        forward_s=forward, backward_s=backward, seconds=seconds,
    )  # fmt: skip


def update(m: Lstm, r: Rates, plan: LstmPlan, part: str, width: int) -> Update:
    """Updates of one part's weights on one processor: of one layer where the part is ``Hidden``."""
    rows, columns = lstm.weight_shape(m, part.lower(), width)
    split: KernelSplit = getattr(plan, part.lower())
    return price_update(part, rows * columns / split.degree, r, plan.dp)


def _turned(cut: Cut) -> Cut:
    """The reference writes the projection's weight gradient transposed: (Pr × rows)·(rows × D)."""
    (p,) = cut.products
    return Cut(products=(replace(p, a=p.c, c=p.a),), collectives=cut.collectives)
