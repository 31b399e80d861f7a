"""Expert parallelism: tokens to their experts and back, as arXiv 2006.16668 and 2303.06318 count them."""

from dataclasses import replace

import pytest

from estimator.communication.expert import expert_messages
from estimator.communication.message import Message
from estimator.operations.rank_sizes import rank_sizes
from tests.estimator.examples import MIXTRAL, scenario

ROW = 256 * 2
"""One token of the stream, 2 bytes an element."""


def sent(model=MIXTRAL, framework="megatron", **plan) -> dict[tuple[str, str], Message]:
    found = expert_messages(rank_sizes(scenario(model, plan=plan, framework=framework)))
    assert len({(x.name, x.phase) for x in found}) == len(found)
    return {(x.name, x.phase): x for x in found}


def by_group(group: str, **rest) -> list[tuple[str, str, float, float]]:
    return [(x.kind, x.phase, x.payload_bytes, x.count) for x in sent(**rest).values() if x.group == group]


def test_every_token_goes_to_its_experts_and_back_both_ways():
    payload = 128 * 2 * ROW
    assert by_group("ep", dp=8, ep=8) == [
        ("all-to-all", "forward", payload, 2), ("all-to-all", "backward", payload, 2)
    ]  # fmt: skip


def test_rows_leave_in_the_norms_type_and_come_back_in_the_products():
    found = expert_messages(
        rank_sizes(scenario(MIXTRAL, plan={"dp": 8, "ep": 8}, framework="pytorch-eager", precision="bf16-amp"))
    )
    dispatched = [x.payload_bytes * x.count for x in found if x.group == "ep"]
    assert dispatched == [128 * 2 * 256 * (4 + 2)] * 2


def test_ranks_of_tp_and_cp_route_their_share():
    for plan in ({"dp": 2, "tp": 4, "ep": 8}, {"dp": 2, "cp": 4, "ep": 8}):
        assert {payload for _, _, payload, _ in by_group("ep", **plan)} == {128 * 2 * ROW / 4}


@pytest.mark.parametrize(("capacity", "rows"), [(0.0, 2.0), (1.25, 2.5), (0.5, 1.0)])
def test_a_capacity_pads_or_drops_what_is_sent(capacity, rows):
    model = {**MIXTRAL, "capacity_factor": capacity}
    assert {payload for _, _, payload, _ in by_group("ep", model=model, dp=8, ep=8)} == {128 * rows * ROW}


@pytest.mark.parametrize(("framework", "again"), [("megatron", 2), ("pytorch-eager", 2), ("xla", 2), ("ideal", 1)])
def test_full_recomputation_dispatches_again(framework, again):
    # Only who weighs rows inside the experts and stops early does not need them back.
    counts = [count for _, _, _, count in by_group("ep", dp=8, ep=8, recompute="full", framework=framework)]
    assert counts == [2, 2, again]


@pytest.mark.parametrize(("framework", "scatters"), [("megatron", 1), ("pytorch-eager", 1), ("ideal", 0)])
def test_full_recomputation_gathers_a_split_experts_tokens_again(framework, scatters):
    plan = {"dp": 4, "tp": 2, "ep": 4, "expert_tp": 2}
    none = by_group("expert_tp", framework=framework, **plan)
    full = by_group("expert_tp", framework=framework, recompute="full", **plan)
    assert [kind for kind, *_ in full[len(none) :]] == ["all-gather"] + ["reduce-scatter"] * scatters


def test_a_split_expert_gathers_its_tokens_and_scatters_its_sums():
    whole = 2 * 64 * 2 * ROW
    found = by_group("expert_tp", dp=4, tp=2, ep=4, expert_tp=2)
    assert found == [
        ("all-gather", "forward", whole, 1),
        ("reduce-scatter", "forward", whole, 1),
        ("all-gather", "backward", whole, 1),
        ("reduce-scatter", "backward", whole, 1),
    ]


def test_the_fullest_rank_and_the_way_to_a_node_are_the_messages_too():
    def of(plan: dict, **training: float) -> list:
        return expert_messages(rank_sizes(scenario(MIXTRAL, plan={"dp": 4, "ep": 4, **plan}, **training)))

    plain = of({})
    fuller = of({}, expert_imbalance=1.5)
    assert [one.payload_bytes for one in fuller] == [1.5 * one.payload_bytes for one in plain]
    assert {one.copies for one in plain} == {0}
    assert {one.copies for one in of({"ep_dispatch": "to-nodes"})} == {2}


def test_tokens_pass_beside_compute_where_the_plan_says_so():
    plain = expert_messages(rank_sizes(scenario(MIXTRAL, plan={"dp": 4, "ep": 4})))
    beside = expert_messages(rank_sizes(scenario(MIXTRAL, plan={"dp": 4, "ep": 4, "ep_overlap": True})))
    assert {one.hides_behind for one in plain} == {""}
    assert [replace(one, hides_behind="compute") for one in plain] == beside
