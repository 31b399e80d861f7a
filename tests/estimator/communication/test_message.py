"""Message: one collective's price in its group, what compute hides of it, and sums of like ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.communication.message import Message, members, merged, priced, priced_in_line, received_bytes
from estimator.communication.placement import Degrees, groups_of
from estimator.cost.collectives import TRAFFIC, Group, collective_s, ramp_frac
from estimator.cost.efficiency import Efficiencies, efficiencies
from tests.estimator.examples import cluster, flawless

E = flawless()
GROUPS = groups_of(Degrees(tp=4, cp=4, dp=2, pp=1, shard=4), "tp-cp-dp-pp", 16)
MACHINE = cluster(16, 2)
IDLE = {"forward": 0.0, "backward": 0.0}
PHASES = ("forward", "backward")
NAMED = ("tp", "cp", "data", "ep")
"""Groups that messages of a block are sent in."""


def message(kind: str = "all-reduce", group: str = "tp", **rest: Any) -> Message:
    values = {"name": "x", "axis": group, "phase": "forward", "payload_bytes": 1e9, "count": 3.0, **rest}
    return Message(kind=kind, group=group, **values)


def in_line(
    messages: Sequence[Message],
    *,
    attention_s: Any = 0.0,
    device_s: Any = 0.0,
    products_s: Any = 0.0,
    e: Efficiencies = E,
):
    each = {"attention_s": attention_s, "device_s": device_s, "products_s": products_s}
    seconds = {name: dict.fromkeys(PHASES, value) for name, value in each.items()}
    return priced_in_line(messages, GROUPS, MACHINE, e, **seconds)


def test_a_message_costs_what_its_collective_does_as_often_as_it_runs():
    found = priced(message(), GROUPS, MACHINE, E)
    assert found.ranks == 4
    # 2·3/4 of 1 GB at 10 GB/s, three times.
    assert found.seconds == found.exposed_s == pytest.approx(0.45)
    assert found.copies_exposed_s == 0.0


def test_a_message_in_line_shows_wholly_however_long_compute_takes():
    sent = message("all-gather", "data", phase="backward")
    assert in_line([sent], attention_s=1e9, device_s=1e9) == [priced(sent, GROUPS, MACHINE, E)]


def test_a_ring_shows_what_lasts_longer_than_a_piece_of_attention():
    def exposed(attention_s: float, payload_bytes: Any = 5e10) -> Any:
        (found,) = in_line([message("p2p", "cp", payload_bytes=payload_bytes, hides_behind="attention")],
                           attention_s=attention_s)  # fmt: skip
        assert found.seconds == pytest.approx(3 * payload_bytes / 1e10)
        return found.exposed_s

    # Three messages of 5 s pass during four pieces: of 3 s each they show 2, of 6 s nothing.
    assert exposed(12.0) == pytest.approx(3 * 2.0)
    assert exposed(24.0) == 0.0
    assert exposed(0.0) == pytest.approx(15.0)
    assert exposed(12.0, np.array([5e10, 1e10])) == pytest.approx([6.0, 0.0])


def test_messages_beside_products_show_a_ranks_share_or_what_lasts_longer():
    def exposed(products_s: float) -> Any:
        sent = [message("all-gather", hides_behind="products"), message("reduce-scatter", hides_behind="products")]
        found = in_line(sent, products_s=products_s)
        assert [one.seconds for one in found] == pytest.approx([0.225, 0.225])
        return [one.exposed_s for one in found]

    # A quarter of four ranks' pieces has no product beside it.
    assert exposed(1.0) == pytest.approx([0.225 / 4] * 2)
    # Of 0.45 s together, 0.15 s of products hide that much.
    assert exposed(0.15) == pytest.approx([0.15] * 2)
    assert exposed(0.0) == pytest.approx([0.225] * 2)


def test_messages_that_pass_in_one_phase_share_its_attention():
    # Recomputation sends keys and values round once more: six messages during eight pieces.
    both = [message("p2p", "cp", payload_bytes=5e10, hides_behind="attention", name=name) for name in ("once", "again")]
    assert [found.exposed_s for found in in_line(both, attention_s=24.0)] == pytest.approx([3 * 2.0] * 2)
    apart = [replace(one, phase=phase) for one, phase in zip(both, PHASES, strict=True)]
    assert [found.exposed_s for found in in_line(apart, attention_s=24.0)] == [0.0, 0.0]


def test_of_messages_beside_attention_the_share_in_the_open_shows_wholly():
    def exposed(attention_s: float) -> Any:
        sent = message("p2p", "cp", payload_bytes=5e10, hides_behind="attention", open_frac=1 / 3)
        return in_line([sent], attention_s=attention_s)[0].exposed_s

    # One of three messages of 5 s; the other two pass during a piece each.
    assert exposed(24.0) == pytest.approx(5.0)
    assert exposed(12.0) == pytest.approx(5.0 + 2 * 2.0)
    assert exposed(0.0) == pytest.approx(15.0)


def test_a_ring_of_one_rank_beside_one_of_four_shows_nothing():
    rings = message("p2p", "cp", payload_bytes=np.array([5e10, 0.0]), count=np.array([3.0, 0.0]),
                    hides_behind="attention")  # fmt: skip
    groups = groups_of(Degrees(tp=1, cp=np.array([4.0, 1.0]), dp=1, pp=1, shard=1), "tp-cp-dp-pp", 16)
    attention = dict.fromkeys(PHASES, 12.0)
    (found,) = priced_in_line([rings], groups, MACHINE, E, attention_s=attention, device_s=IDLE, products_s=IDLE)
    assert found.exposed_s == pytest.approx([6.0, 0.0])


def test_a_lower_bound_hides_all_that_compute_can_by_the_same_share():
    # 3 s and 1 s are sent while 3 s are computed: a quarter of each shows.
    sent = [message("p2p", "cp", payload_bytes=1e10, count=3.0), message("p2p", "cp", payload_bytes=1e10, count=1.0)]
    bound = replace(E, lower_bound=True)
    assert [found.exposed_s for found in in_line(sent, device_s=3.0, e=bound)] == pytest.approx([0.75, 0.25])
    assert [found.exposed_s for found in in_line(sent, device_s=5.0, e=bound)] == [0.0, 0.0]
    apart = [sent[0], replace(sent[1], phase="backward")]
    assert [found.exposed_s for found in in_line(apart, device_s=2.0, e=bound)] == pytest.approx([1.0, 0.0])


def test_messages_beside_compute_share_it_and_leave_the_others_in_line():
    sent = [
        message("p2p", "cp", payload_bytes=1e10, count=3.0, hides_behind="compute"),
        message("p2p", "cp", payload_bytes=1e10, count=1.0, hides_behind="compute"),
        message("p2p", "cp", payload_bytes=1e10, count=2.0),
    ]
    assert [found.exposed_s for found in in_line(sent, device_s=3.0)] == pytest.approx([0.75, 0.25, 2.0])
    assert [found.exposed_s for found in in_line(sent, device_s=5.0)] == pytest.approx([0.0, 0.0, 2.0])


def test_what_each_rank_receives():
    expected = {"all-reduce": 1.5, "all-gather": 0.75, "reduce-scatter": 0.75, "all-to-all": 0.75, "p2p": 1.0}
    assert {kind: received_bytes(message(kind), 4) / 3e9 for kind in TRAFFIC} == expected
    assert received_bytes(message("all-reduce"), 1) == 0.0


def test_some_neighbours_of_a_group_are_a_smaller_group():
    group = Group(ranks=16, ranks_per_node=8)
    assert members(group, None) == group
    assert members(group, 4) == Group(ranks=4, ranks_per_node=4)
    assert members(group, 12) == Group(ranks=12, ranks_per_node=8)


def test_messages_of_some_ranks_are_priced_among_those():
    found = priced(message("all-gather", ranks=2), GROUPS, MACHINE, E)
    assert found.ranks == 2
    assert found.seconds == 3 * collective_s("all-gather", 1e9, Group(ranks=2, ranks_per_node=2), MACHINE, E)


def test_like_messages_become_one_of_their_mean_size():
    (found,) = merged(
        [message(name="small", payload_bytes=1e6, count=3.0), message(payload_bytes=5e6, count=1.0)], REAL
    ).values()
    assert (found.count, found.payload_bytes) == (4.0, 2e6)
    small, large = (ramp_frac(found.kind, size, REAL) for size in (1e6, 5e6))
    assert found.ramp == pytest.approx((3 * small + large) / 4)
    assert merged([], REAL) == {}


@pytest.mark.parametrize(
    "difference",
    [{"phase": "backward"}, {"kind": "all-gather"}, {"group": "cp"}, {"hides_behind": "compute"}],
    ids=lambda difference: next(iter(difference)),
)
def test_messages_that_differ_in_more_than_size_and_name_stay_apart(difference):
    one = message()
    found = merged([one, replace(one, **difference)], REAL).values()
    assert [replace(each, ramp=None) for each in found] == [one, replace(one, **difference)]


def test_rings_and_messages_of_some_ranks_stay_apart_by_name():
    for rest in ({"hides_behind": "attention"}, {"ranks": 2}):
        apart = [message(name=name, **rest) for name in ("one", "other")]
        assert [replace(each, ramp=None) for each in merged(apart, REAL).values()] == apart


LIKE = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(sorted(TRAFFIC)), "group": st.sampled_from(NAMED), "phase": st.sampled_from(PHASES),
        "hides_behind": st.sampled_from(("", "compute", "attention")), "ranks": st.sampled_from((None, None, 1.0, 2.0)),
    }
)  # fmt: skip
"""What messages that may be merged have in common."""
NUMBERS = st.fixed_dictionaries(
    {
        "payload_bytes": st.floats(0, 1e11),
        "count": st.sampled_from((0.0, 1.0, 2.0, 7.0, 96.0)),
        "host": st.integers(1, 8).map(float),
    }
)


@st.composite
def drawn(draw: st.DrawFn, columns: int) -> list[tuple[Message, ...]]:
    """Messages of one or two kinds with an array over columns, and with the plain numbers of each column."""
    likes = draw(st.lists(LIKE, min_size=1, max_size=2))
    found = []
    for number in range(draw(st.integers(1, 6))):
        common = {**draw(st.sampled_from(likes)), "name": f"message {number}"}
        rows = draw(st.lists(NUMBERS, min_size=columns, max_size=columns))
        together = {name: np.array([row[name] for row in rows]) for name in rows[0]}
        found.append((message(**common, **together), *(message(**common, **row) for row in rows)))
    return found


COLUMNS = 3
REAL = efficiencies("hopper")


def totals(messages: Sequence[Message], groups: Any, e: Efficiencies, attention_s: Any) -> dict[str, Any]:
    """Seconds of messages, and what shows of them, by phase and what they hide behind."""
    priced_ones = priced_in_line(
        messages, groups, MACHINE, e,
        attention_s={"forward": attention_s, "backward": 2 * attention_s},
        device_s={"forward": 2 * attention_s, "backward": 3 * attention_s},
        products_s={"forward": attention_s, "backward": attention_s},
    )  # fmt: skip
    found: dict[str, Any] = {}
    for one in priced_ones:
        key = f"{one.message.phase}, {one.message.hides_behind}"
        for name in ("seconds", "exposed_s"):
            found[f"{key}: {name}"] = found.get(f"{key}: {name}", 0.0) + getattr(one, name)
    return found


@given(
    drawn(COLUMNS),
    st.lists(
        st.tuples(st.sampled_from((1, 2, 8)), st.sampled_from((1, 2, 4)), st.sampled_from((1, 2, 16))),
        min_size=COLUMNS, max_size=COLUMNS,
    ),
    st.floats(0, 10),
    st.booleans(),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_merged_messages_cost_what_they_cost_one_by_one(messages, degrees, attention_s, lower_bound):
    e = replace(REAL, lower_bound=lower_bound)
    tp, cp, dp = (np.array(column, dtype=float) for column in zip(*degrees, strict=True))

    def groups(tp: Any, cp: Any, dp: Any) -> Any:
        return groups_of(Degrees(tp=tp, cp=cp, dp=dp, pp=1, shard=dp * cp, ep=tp), "tp-cp-dp-pp", 8)

    together = [message for message, *_ in messages]
    joined = totals(list(merged(together, e).values()), groups(tp, cp, dp), e, attention_s)
    one_by_one = totals(together, groups(tp, cp, dp), e, attention_s)
    assert joined.keys() == one_by_one.keys()
    for key, value in joined.items():
        assert value == pytest.approx(one_by_one[key], rel=1e-9, abs=1e-12), key
    for column, degree in enumerate(degrees):
        own = [rows[column] for _, *rows in messages]
        apart = totals(own, groups(*degree), e, attention_s)
        alone = totals(list(merged(own, e).values()), groups(*degree), e, attention_s)
        for key, value in apart.items():
            of_array = float(np.broadcast_to(one_by_one[key], COLUMNS)[column])
            assert alone[key] == pytest.approx(value, rel=1e-9, abs=1e-12), key
            assert of_array == pytest.approx(value, rel=1e-9, abs=1e-12), key
