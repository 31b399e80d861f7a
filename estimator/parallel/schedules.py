"""Schedules: idle time and exposed messages of each, as formulas in the times of one stage and of all the others.

Every form takes the times of the stage that may set the pace, the sums over all other stages, p stages, m
micro-batches, v chunks per rank, and seconds per message. It returns what the step takes beyond m times that stage,
without and with messages. For equal stages they are what ``estimator.timeline`` simulates;
tests/properties/test_schedules.py says where they are exact, and how far off they are elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from estimator.arrays import maximum, minimum, where
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


Form = Callable[[StageTimes, StageTimes, Number, Number, Number, Number], tuple[Number, Number]]


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


def zero_bubble_v(
    own: StageTimes, others: StageTimes, p: Number, m: Number, v: Number, send_s: Number
) -> tuple[Number, Number]:
    """Longest of the paths through ZB-V's fixed order; F = B = W and m ≥ 2p − 1 leave (p − 1)F/2.

    That rest is the stagger of the ranks' starts, which only an optimizer without a global gradient norm can hide
    (Qi 2023, arXiv 2401.10241, section 4; Qi 2024, arXiv 2405.15362). m ≤ p: Σ others (F + B) − (m − 1)/2 · min(F +
    min(F, B), 2B + W + min(B, W)); linear in m between p and 2p − 1. Messages beside the work.
    """
    hops = maximum(p - 1, 1)
    forward_s, input_s, weight_s = own.forward_s, own.input_s, own.weight_s
    # Twice the seconds, as a rank's chunk takes half of them.
    hidden_s = minimum(forward_s + minimum(forward_s, input_s), 2 * input_s + weight_s + minimum(input_s, weight_s))
    filling_s = 2 * (others.forward_s + others.input_s) - (minimum(m, p) - 1) * hidden_s
    almost_s = 2 * others.forward_s - others.forward_s / hops
    paths = (
        2 * others.input_s - 2 * hops * weight_s,
        2 * others.forward_s - (2 * hops + 1) * weight_s,
        2 * others.forward_s - hops * input_s - weight_s,
        almost_s - (hops - 1) * input_s,
        almost_s + others.input_s / hops - 2 * hops * weight_s,
        (maximum(others.forward_s, others.input_s) + (hops - 1) * others.weight_s) / hops,
    )
    full_s = others.input_s
    for path_s in paths:
        full_s = maximum(full_s, path_s)
    short = minimum(maximum((2 * p - 1 - m) / hops, 0.0), 1.0)
    idle_s = (short * filling_s + (1 - short) * full_s) / 2
    return idle_s, idle_s + send_s * (4 * hops + (1 - short) * (hops - 2))


FORMS: dict[str, Form] = {
    "gpipe": gpipe,
    "1f1b": one_forward_one_backward,
    "interleaved": interleaved,
    "zero-bubble": zero_bubble_h1,
    "zero-bubble-v": zero_bubble_v,
}
