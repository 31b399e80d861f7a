"""Schedules: idle time and exposed messages of each, as formulas in the times of one stage and of all the others.

Every form takes the times of the stage that may be critical, the sums over all other stages, p stages, m
micro-batches, v chunks per rank, and seconds per message. It returns what the step takes beyond m times that stage,
without and with messages. For equal stages they are what ``estimator.schedule.simulation`` simulates;
tests/properties/test_schedules.py says where they are exact, and how far off they are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from estimator.cost.host import PUT_OFF
from estimator.scenario.arrays import ceil_div, maximum, minimum, where
from estimator.scenario.plan import FOLDED
from estimator.scenario.units import Number
from estimator.schedule.micro_batch import Stages, StageTimes
from estimator.schedule.zero_bubble_v import zero_bubble_v

Form = Callable[[StageTimes, StageTimes, Number, Number, Number, Number], tuple[Number, Number]]
Whole = Callable[[Stages, Number, Number, Number], tuple[Number, Number]]
Held = Callable[[Number, Number, Number, Number], Number]


@dataclass(frozen=True, kw_only=True, slots=True)
class Formulas:
    """A schedule in formulas.

    ``beyond_s``: seconds of a step beyond m times the slowest of its stages, without and with messages. ``held``:
    micro-batches whose activations stage i of p holds at its peak, of m, with v chunks; see ``in_flight``.
    ``ramp_s``: seconds of a stage's micro-batch that filling and draining wait for, once for each stage.
    """

    beyond_s: Whole
    held: Held
    ramp_s: Callable[[StageTimes, Number], Number]


def gpipe(
    own: StageTimes, others: StageTimes, p: Number, m: Number, v: Number, send_s: Number
) -> tuple[Number, Number]:
    """Σ others; messages in line, 2(p − 1) on the way and 2 per further micro-batch (Huang 2019, arXiv 1811.06965)."""
    idle_s = others.seconds
    return idle_s, idle_s + 2 * send_s * (p - 1 + m - 1)


def one_forward_one_backward(
    own: StageTimes, others: StageTimes, p: Number, m: Number, v: Number, send_s: Number
) -> tuple[Number, Number]:
    """Σ others; messages in line, as GPipe's (Narayanan 2021, arXiv 2104.04473, section 2.2.1).

    Of two stages each sends only one way, hence 1 per further micro-batch.
    """
    idle_s = others.seconds
    return idle_s, idle_s + send_s * (2 * (p - 1) + where(p > 2, 2.0, 1.0) * (m - 1))


def interleaved(
    own: StageTimes, others: StageTimes, p: Number, m: Number, v: Number, send_s: Number
) -> tuple[Number, Number]:
    """Σ others / v; messages beside the work: 2(pv − 1) to fill and drain (Narayanan 2021, section 2.2.2).

    The rest hides while a message takes no longer than a chunk's forward or backward, whichever is shorter; longer ones
    hold up every micro-batch after the first p. One chunk is plain 1F1B.
    """
    plain_s, plain_and_sends_s = one_forward_one_backward(own, others, p, m, v, send_s)
    idle_s = plain_s / v
    shorter_s = minimum(own.forward_s, own.input_s + own.weight_s) / v
    late_s = maximum(
        (v - 1) * maximum(send_s - shorter_s, 0.0),
        (p * v - 1) / p * maximum(send_s - own.seconds / (2 * v), 0.0),
    )
    both_s = idle_s + 2 * send_s * (p * v - 1) + (m - p) * late_s
    return idle_s, where(v > 1, both_s, plain_and_sends_s)


def held_up_s(middle: StageTimes, p: Number, v: Number) -> Number:
    """Seconds that PyTorch's interleaved step takes more, as all messages of a rank take turns in one stream.

    A receive stands where its sender's work is put by dependencies alone, in the warm-up ahead of sends that are ready
    (pytorch/pytorch, issues 188833 and 175225; _add_send_recv in torch/distributed/pipelining/schedules.py): each of
    the v - 1 further chunks waits for p(p - 2) + min(p - 2, 2) forwards of a chunk. Where B is longer than F,
    p/2 + 1 + min(2v - 4, 3) times what it is longer. Two ranks hold up nothing.
    """
    forward_s, backward_s = middle.forward_s / v, (middle.input_s + middle.weight_s) / v
    forwards = (v - 1) * (p * (p - 2) + minimum(p - 2, 2.0))
    longer = p / 2 + 1 + minimum(2.0 * v - 4, 3.0)
    late_s = forwards * forward_s + longer * maximum(backward_s - forward_s, 0.0)
    return where((p > 2) & (v > 1), late_s, 0.0)


def zero_bubble_h1(
    own: StageTimes, others: StageTimes, p: Number, m: Number, v: Number, send_s: Number
) -> tuple[Number, Number]:
    """Σ others (F + B) − (min(m, p) − 1) · min(F, B, W); messages beside the work (ZB-H1, Qi 2023, arXiv 2401.10241).

    With W the shortest and m ≥ p that is the paper's (p − 1)(F + B − W). Filling and draining shows 2(p − 1) messages,
    each of the round trips that W no longer covers 2 more.
    """
    hops, held = p - 1, minimum(m, p) - 1
    fill_s = others.forward_s + others.input_s
    idle_s = fill_s - held * minimum(minimum(own.forward_s, own.input_s), own.weight_s)
    trips = minimum(m - 1, p) * hops // p
    all_trips = (m - 1) * hops // p
    by_weight_s = 2 * send_s * trips - held * own.weight_s
    by_weight_s = maximum(by_weight_s, where(m > p, all_trips * (2 * send_s - own.weight_s), by_weight_s))
    by_input_s = where(m >= p, send_s * hops, 0.0) - held * own.input_s
    both_s = fill_s + 2 * send_s * hops + maximum(maximum(by_weight_s, by_input_s), -held * own.forward_s)
    return idle_s, both_s


def of_each_stage(form: Form) -> Whole:
    """Return what a step takes beyond m · slowest: max over stages i of m·tᵢ + formᵢ."""

    def beyond_s(stages: Stages, m: Number, v: Number, send_s: Number) -> tuple[Number, Number]:
        pace_s, total = stages.slowest_s, stages.total
        idle_s: Number = 0.0
        both_s: Number = 0.0
        for own, there in ((stages.first, True), (stages.last, True), (stages.middle, stages.count > 2)):
            others = StageTimes(
                forward_s=total.forward_s - own.forward_s,
                input_s=total.input_s - own.input_s,
                weight_s=total.weight_s - own.weight_s,
            )
            behind_s = m * (own.seconds - pace_s)
            quiet_s, loud_s = form(own, others, stages.count, m, v, send_s)
            idle_s = maximum(idle_s, where(there, behind_s + quiet_s, 0.0))
            both_s = maximum(both_s, where(there, behind_s + loud_s, 0.0))
        return idle_s, both_s

    return beyond_s


def _all(stage: Number, p: Number, m: Number, v: Number) -> Number:
    return m + 0 * stage


def _until_backward(stage: Number, p: Number, m: Number, v: Number) -> Number:
    return minimum(m, p - stage)


def _by_chunks(stage: Number, p: Number, m: Number, v: Number) -> Number:
    warm_up = 2 * (p - 1 - stage) + (v - 1) * p
    return minimum(m, where(v > 1, (warm_up + 1) / v, p - stage))


def _until_weights(stage: Number, p: Number, m: Number, v: Number) -> Number:
    return minimum(m, p) + 0 * stage


def _until_weights_of_the_fold(stage: Number, p: Number, m: Number, v: Number) -> Number:
    return minimum(minimum(m, p), (m + 1 + stage) / 2)


def _whole_s(one: StageTimes, v: Number) -> Number:
    return one.seconds


FORMULAS: dict[str, Formulas] = {
    "gpipe": Formulas(beyond_s=of_each_stage(gpipe), held=_all, ramp_s=_whole_s),
    "1f1b": Formulas(beyond_s=of_each_stage(one_forward_one_backward), held=_until_backward, ramp_s=_whole_s),
    "interleaved": Formulas(
        beyond_s=of_each_stage(interleaved), held=_by_chunks, ramp_s=lambda one, v: one.seconds / v
    ),
    "zero-bubble": Formulas(
        beyond_s=of_each_stage(zero_bubble_h1),
        held=_until_weights,
        ramp_s=lambda one, v: one.forward_s + one.input_s - minimum(minimum(one.forward_s, one.input_s), one.weight_s),
    ),
    "zero-bubble-v": Formulas(
        beyond_s=zero_bubble_v, held=_until_weights_of_the_fold, ramp_s=lambda one, v: one.forward_s / 2
    ),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Bubble:
    """What a step takes beyond micro-batches times the slowest stage: idle time, and messages that nothing hides."""

    idle_s: Number
    send_s: Number


def bubble_s(
    schedule: str,
    *,
    first: StageTimes,
    middle: StageTimes,
    last: StageTimes,
    stages: Number,
    micro_batches: Number,
    virtual_stages: Number,
    send_s: Number,
) -> Bubble:
    """Return what one step takes beyond m · slowest by its schedule's own formula in ``estimator.schedule.schedules``.

    What messages of ``send_s`` each add to that is apart. For GPipe and 1F1B without messages the step is
    Σ stages + (m − 1) · slowest. ``middle`` stands for every stage between the first and the last; two stages have
    none, and one stage has no bubble.
    """
    found = Stages(first=first, middle=middle, last=last, count=stages)
    idle_s, both_s = FORMULAS[schedule].beyond_s(found, micro_batches, virtual_stages, send_s)
    idle_s = where(stages > 1, idle_s, 0.0)
    return Bubble(idle_s=idle_s, send_s=where(stages > 1, maximum(both_s - idle_s, 0.0), 0.0))


def in_flight(
    schedule: str, stage: Number, stages: Number, micro_batches: Number, virtual_stages: Number = 1
) -> Number:
    """Micro-batches whose activations a stage holds at its peak, in units of one micro-batch on the whole rank.

    ``stage`` counts from 0. GPipe: all. 1F1B: min(m, p − stage) (Narayanan 2021, arXiv 2104.04473, section 2.2.1).
    Interleaved: min(m, (2(p − 1 − stage) + (v − 1)p + 1)/v), on the first stage p(1 + (p − 1)/(pv)). Where W waits,
    activations wait too: ZB-H1 min(m, p) (Qi 2023, arXiv 2401.10241), ZB-V min(m, p, (m + 1 + stage)/2).
    """
    return FORMULAS[schedule].held(stage, stages, micro_batches, virtual_stages)


def weights_waiting(schedule: str, stage: Number, micro_batches: Number) -> Number:
    """Micro-batches whose inputs have their gradients and whose weights wait, while the next one's inputs get theirs.

    ZB-H1 delays W by as many micro-batches as there are stages before (Qi 2023, arXiv 2401.10241, figure 2); ZB-V runs
    it right behind in its steady state.
    """
    return 0.0 * stage if schedule in FOLDED else minimum(stage, micro_batches - 1.0)


def fullest_of(kind: str, schedule: str, stages: Number) -> tuple[Number, ...]:
    """Stages, counted from 0, of which one needs the most memory of its kind, whose stages differ in this alone.

    In the middle the second holds most micro-batches, but where W waits the last but one holds most, or most that
    waits: there either may need it, as fewer in flight leave more buffers for messages empty.
    """
    if kind != "middle":
        return (stages - 1.0,) if kind == "last" else (0.0,)
    return (1.0, maximum(stages - 2.0, 1.0)) if schedule in PUT_OFF else (1.0,)


def chunks_in_flight(
    schedule: str, held: Number, stages: Number, micro_batches: Number, virtual_stages: Number
) -> tuple[Number, Number]:
    """Micro-batches in flight on a rank's first and last chunk, of the ``held`` ones.

    Interleaved, as many go through each chunk as there are stages, before the next chunk's turn comes.
    """
    if schedule != "interleaved":
        return held, held
    turn = minimum(stages, micro_batches)
    passes = held * virtual_stages
    turns = ceil_div(passes + 1.0, turn * virtual_stages) - 1.0
    rest = passes - turns * turn * virtual_stages
    first = turns * turn + minimum(rest, turn)
    return first, turns * turn + maximum(rest - (virtual_stages - 1.0) * turn, 0.0)


def head_in_flight(schedule: str, held: Number, stages: Number, virtual_stages: Number) -> Number:
    """Micro-batches that wait behind the head for their backward, of the ``held`` ones of the last stage.

    Interleaved, all but the last chunk's are of chunks before it: v·held − (v − 1)p, at least 1. On ZB-V's fold each
    forward of the last chunk is followed by its backward: 1 (Qi 2024, arXiv 2405.15362, figure 2).
    """
    if schedule in FOLDED:
        return minimum(held, 1.0)
    if schedule != "interleaved":
        return held
    return minimum(maximum(held * virtual_stages - (virtual_stages - 1) * stages, 1.0), held)
