"""Context parallelism: published volumes, laws, and which degrees a model allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.communication.context import context_messages
from estimator.cost.collectives import TRAFFIC
from estimator.scenario.legality import sequence_problems
from estimator.scenario.plan import CP_KINDS

N, D, P = 60_000, 16_384, 16
"""Tokens, hidden size and ranks of the first reference log of a Ulysses layer, bf16."""


def sent(kind, cp=P, width=D, kv_width=D, tokens=N // P, **rest):
    return context_messages(
        cp_kind=kind, cp=cp, tokens=tokens, query_width=width, key_width=kv_width, value_width=kv_width,
        output_width=width, element_bytes=2, **rest,
    )  # fmt: skip


def received(found, phase, cp=P):
    return sum(
        x.payload_bytes * x.count * TRAFFIC[x.kind] * (1.0 if x.kind == "p2p" else (cp - 1) / cp)
        for x in found
        if x.phase == phase
    )


def test_volumes_of_the_reference_layer():
    found = [x for x in sent("ulysses") if x.phase == "forward"]
    assert len(found) == 4
    for x in found:
        assert x.payload_bytes == 122.88e6
        assert received([x], "forward") == pytest.approx(115.20e6)
    assert received(found, "forward") == pytest.approx(460.8e6)
    assert received(sent("ulysses"), "backward") == pytest.approx(460.8e6)
    assert received(sent("all-gather"), "forward") == pytest.approx(3.69e9, abs=0.005e9)
    assert received(sent("ring"), "forward") == pytest.approx(3.69e9, abs=0.005e9)


@given(st.sampled_from(CP_KINDS), st.booleans(), st.booleans())
def test_one_rank_sends_nothing(kind, keep, recompute):
    found = sent(kind, cp=1, keep=keep, recompute=recompute)
    assert received(found, "forward", cp=1) == received(found, "backward", cp=1) == 0


@given(st.integers(2, 64), st.integers(1, 4096), st.booleans())
def test_ring_and_gather_move_the_same_and_backward_twice_that(cp, tokens, keep):
    ring, gather = (sent(kind, cp=cp, tokens=tokens, keep=keep) for kind in ("ring", "all-gather"))
    forward = received(ring, "forward", cp)
    assert received(gather, "forward", cp) == pytest.approx(forward)
    assert received(ring, "backward", cp) == pytest.approx(2 * forward)
    assert received(gather, "backward", cp) == pytest.approx((1 if keep else 2) * forward)


@given(st.integers(2, 64))
def test_ulysses_falls_with_the_ranks_and_the_others_do_not(cp):
    def forward(kind, ranks):
        return received(sent(kind, cp=ranks, tokens=N / ranks), "forward", ranks)

    assert forward("ulysses", 2 * cp) < forward("ulysses", cp)
    assert forward("ring", 2 * cp) > forward("ring", cp)
    # Multi-head attention: ulysses moves 4 tensors' shares, a ring 2 whole ones.
    assert forward("ring", cp) / forward("ulysses", cp) == pytest.approx(cp / 2)


def test_only_ring_runs_beside_attention():
    for kind in CP_KINDS:
        assert all((x.hides_behind == "attention") == (kind == "ring") for x in sent(kind, recompute=True))


@given(st.integers(1, 64), st.booleans())
def test_a_ring_that_waits_moves_the_same_and_hides_neither_its_first_message_nor_gradients(cp, recompute):
    waiting, plain = (sent("ring", cp=cp, recompute=recompute, waits=waits) for waits in (True, False))
    for phase in ("forward", "backward"):
        assert received(waiting, phase, cp) == pytest.approx(received(plain, phase, cp))
    assert all(x.open_frac == 0.0 for x in plain)
    in_open = {(x.name, x.phase): x.count * (x.open_frac if x.hides_behind else 1.0) for x in waiting}
    first = min(cp - 1, 1)
    expected = {("keys, values", "forward"): first, ("keys, values of backward", "backward"): 0,
                ("key, value gradients", "backward"): cp - 1}  # fmt: skip
    assert in_open == pytest.approx(expected | ({("keys, values again", "backward"): first} if recompute else {}))


@pytest.mark.parametrize(
    ("kind", "keep", "again"),
    [("ulysses", False, 1), ("ring", False, 1), ("all-gather", True, 1), ("all-gather", False, 0)],
)
def test_recomputation_repeats_forward_unless_backward_gathers_anyway(kind, keep, again):
    once, twice = (received(sent(kind, keep=keep, recompute=full), "backward") for full in (False, True))
    assert twice - once == pytest.approx(again * received(sent(kind), "forward"))


@given(st.integers(2, 64), st.sampled_from([1, 2, 4, 8]), st.integers(1, 16), st.integers(1, 8))
def test_degrees_named_as_remedy_are_legal(cp, tp, group, kv_heads):
    model = {"tp": tp, "heads": tp * group * kv_heads, "kv_heads": kv_heads}
    for problem in sequence_problems(cp_kind="ulysses", cp=cp, seq_len=cp, **model):
        for word in problem.remedy.replace(",", "").split():
            if word.isdigit():
                assert sequence_problems(cp_kind="ulysses", cp=int(word), seq_len=int(word), **model) == []


def test_wider_gradients_travel_wider():
    narrow, wide = (received(sent("ring", gradient_bytes=width), "backward") for width in (2, 4))
    assert wide == pytest.approx(1.5 * narrow)
    many, few = (received(sent("ulysses", kv_width=w * 128), "forward") for w in (128, 16))
    assert few == pytest.approx(many * (2 * 128 + 2 * 16) / (4 * 128))


def test_arrays_give_what_scalars_give():
    cp, tokens = np.array([1.0, 2.0, 8.0]), np.array([64.0, 32.0, 16.0])
    for kind in CP_KINDS:
        for phase in ("forward", "backward"):
            together = received(sent(kind, cp=cp, tokens=tokens), phase, cp)
            for i in range(3):
                assert together[i] == received(sent(kind, cp=cp[i], tokens=tokens[i]), phase, cp[i])


MODEL = {"tp": 2, "heads": 32, "kv_heads": 8, "seq_len": 4096}


@pytest.mark.parametrize("kind", CP_KINDS)
@pytest.mark.parametrize("cp", [1, 2, 4, 8, 16])
def test_legal_degrees_have_no_problems(kind, cp):
    assert sequence_problems(cp_kind=kind, cp=cp, **MODEL) == []


def test_ulysses_needs_whole_heads_and_says_so():
    (problem,) = sequence_problems(cp_kind="ulysses", cp=32, **MODEL)
    assert problem.field == "plan.cp"
    assert "32 heads" in problem.message
    assert problem.remedy == "Choose cp 16, or cp_kind ring or all-gather."
    assert sequence_problems(cp_kind="ring", cp=32, **MODEL) == []
    (problem,) = sequence_problems(cp_kind="ulysses", cp=3, **MODEL | {"heads": 24, "seq_len": 4095})
    assert "key/value heads" in problem.message
    assert problem.remedy.startswith("Choose cp 2 or 4,")


def test_a_ring_needs_two_equal_chunks_per_rank():
    (problem,) = sequence_problems(cp_kind="ring", cp=8, **MODEL | {"seq_len": 4104})
    assert "multiple of 16" in problem.remedy
    assert sequence_problems(cp_kind="ulysses", cp=8, **MODEL | {"seq_len": 4104}) == []
