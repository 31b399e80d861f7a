"""In line: what each part of the network sends, over which group, and what an axis of one leaves out."""

import pytest

from estimator.communication.in_line import block_messages, edge_messages
from estimator.communication.message import Message
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, scenario

PAYLOAD = 128 * 256 * 2
"""s·b·h of 2 bytes."""


def sent(model=LLAMA, *, block=0, sequence_parallel=False, **rest) -> list[Message]:
    plan = {**rest.pop("plan", {}), **({"sequence_parallel": True} if sequence_parallel else {})}
    d = rank_sizes(scenario(model, plan=plan, **rest))
    return block_messages(d, network(d).blocks[block], sequence_parallel=sequence_parallel)


@pytest.mark.parametrize("model", [LLAMA, GPT, MIXTRAL])
@pytest.mark.parametrize("plan", [{}, {"dp": 8}, {"pp": 2}])
def test_axes_of_one_send_nothing(model, plan):
    assert sent(model, plan=plan) == []
    assert edge_messages(rank_sizes(scenario(model, plan=plan, framework="megatron")), sequence_parallel=False) == (
        [],
        [],
    )


def test_tensor_parallel_sums_meet_all_ranks_of_the_group():
    found = sent(GPT, plan={"tp": 4}, framework="megatron")
    assert [(m.kind, m.axis, m.group, m.phase, m.count) for m in found] == [
        ("all-reduce", "tp", "tp", "forward", 2), ("all-reduce", "tp", "tp", "backward", 2)
    ]  # fmt: skip
    assert {(m.payload_bytes, m.host) for m in found} == {(PAYLOAD, 4)}


@pytest.mark.parametrize(("network_kind", "pairs"), [("ffn", 1), ("attention", 1), ("transformer", 2)])
def test_bare_stacks_have_one_pair_of_products(network_kind, pairs):
    model = {**GPT, "network": network_kind}
    assert {m.count for m in sent(model, plan={"tp": 2}, framework="megatron")} == {pairs}
    assert bool(
        edge_messages(rank_sizes(scenario(model, plan={"tp": 2}, framework="megatron")), sequence_parallel=False)[0]
    ) == (network_kind == "transformer")


@pytest.mark.parametrize(
    ("cp_kind", "kinds"),
    [("ring", {"p2p"}), ("ulysses", {"all-to-all"}), ("all-gather", {"all-gather", "reduce-scatter"})],
)
def test_context_ranks_exchange_what_their_kind_needs(cp_kind, kinds):
    found = sent(plan={"cp": 2, "cp_kind": cp_kind})
    assert {m.kind for m in found} == kinds
    assert {(m.axis, m.group) for m in found} == {("cp", "cp")}
    # A ring's gradients are asked for behind the piece that they come from, and waited for at once.
    assert {m.hides_behind for m in found if "gradient" not in m.name} == {"attention" if cp_kind == "ring" else ""}
    assert sent({**LLAMA, "network": "ffn"}, plan={"cp": 2, "cp_kind": cp_kind}) == []


def test_a_ring_passes_keys_and_values_on():
    # 32 tokens of a rank, 2 heads of 32 for keys and as many for values, 2 bytes; three times round.
    keys_values = 32 * 2 * 2 * 32 * 2
    found = sent(plan={"cp": 4}, framework="megatron")
    assert [(m.phase, m.payload_bytes, m.count, m.open_frac) for m in found] == [
        ("forward", keys_values, 3, 0.0), ("backward", 2 * keys_values, 3, 0.0)
    ]  # fmt: skip
    # Plain kernels know no shared heads: 8 heads travel.
    found = sent(plan={"cp": 4})
    assert [(m.phase, m.payload_bytes, m.count, m.open_frac) for m in found] == [
        ("forward", 4 * keys_values, 3, 1 / 3), ("backward", 4 * keys_values, 3, 0.0),
        ("backward", 4 * keys_values, 3, 0.0),
    ]  # fmt: skip


def test_ulysses_copies_key_and_value_heads_that_are_too_few():
    found = {m.name: m.payload_bytes for m in sent(plan={"cp": 4, "cp_kind": "ulysses"}) if m.phase == "forward"}
    # 2 heads of keys become 4, one for every rank.
    assert found["keys"] == found["values"] == 32 * 4 * 32 * 2
    assert found["queries"] == found["attention output"] == 32 * 8 * 32 * 2


def test_context_and_tensor_parallelism_share_the_heads():
    found = {m.name: m.payload_bytes for m in sent(plan={"tp": 2, "cp": 2, "cp_kind": "ulysses"}) if m.axis == "cp"}
    assert found["queries"] == 64 * 4 * 32 * 2


def test_experts_exchange_tokens_and_the_attention_before_them_sums():
    found = sent(MIXTRAL, plan={"dp": 2, "tp": 2, "ep": 2}, framework="megatron")
    by_axis = {axis: [m for m in found if m.axis == axis] for axis in ("tp", "ep", "expert_tp")}
    # Only attention's output is summed over tp: experts are not divided by it.
    assert [m.count for m in by_axis["tp"]] == [1, 1]
    # Half of the tokens, as both tp ranks route, twice each.
    assert {(m.kind, m.payload_bytes) for m in by_axis["ep"]} == {("all-to-all", 64 * 2 * 256 * 2)}
    assert by_axis["expert_tp"] == []


def test_shared_experts_are_divided_over_tp():
    found = sent({**MIXTRAL, "shared_experts": 1}, plan={"tp": 2}, framework="megatron")
    assert [m.count for m in found if m.axis == "tp"] == [2, 2]


def test_dense_blocks_of_an_expert_model_exchange_no_tokens():
    model = {**MIXTRAL, "dense_layers": 1}
    assert sent(model, block=0, plan={"dp": 4, "ep": 4}) == []
    assert {m.axis for m in sent(model, block=1, plan={"dp": 4, "ep": 4})} == {"ep"}


@pytest.mark.parametrize(
    ("kind", "tp", "depth", "groups"),
    [
        ("2d", 4, 1, {"grid_row", "grid_column"}),
        ("2.5d", 8, 2, {"grid_row", "grid_column", "grid_depth"}),
        ("3d", 8, 1, {"grid_row", "grid_column", "grid_depth"}),
    ],
)
def test_grids_send_along_their_axes(kind, tp, depth, groups):
    found = sent(plan={"tp": tp, "tp_kind": kind, "tp_depth": depth, "micro_batch": 4})
    assert {m.group for m in found if m.count} <= groups | {"tp"}
    assert {m.axis for m in found} == {"tp"}
    assert all(1 < m.ranks <= tp and m.host == m.ranks for m in found if m.count)


def test_the_edges_of_a_replicated_vocabulary_are_silent():
    assert edge_messages(rank_sizes(scenario(GPT, plan={"tp": 2})), sequence_parallel=False) == ([], [])
    embedding, head = edge_messages(
        rank_sizes(scenario(GPT, plan={"tp": 2}, framework="megatron")), sequence_parallel=False
    )
    assert [m.kind for m in (*embedding, *head)] == ["all-reduce"] * 3
