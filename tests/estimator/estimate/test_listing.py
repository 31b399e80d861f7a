"""Listing: what people read of a step adds up to what was priced."""

import pytest

from estimator.estimate.report import Collective, collectives_of, phases_and_breakdown, stage_memories
from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, built, flawless, scenario

PLANS = [
    (LLAMA, {}),
    (LLAMA, {"dp": 4, "sharding": "fsdp"}),
    (LLAMA, {"dp": 2, "tp": 2, "pp": 2}),
    (LLAMA, {"cp": 4}),
    (GPT, {"pp": 4, "schedule": "zero-bubble"}),
    (MIXTRAL, {"dp": 4, "tp": 2, "ep": 4, "pp": 2}),
    ({**MIXTRAL, "dense_layers": 1}, {"dp": 2, "ep": 2, "pp": 2}),
]


def listed(model, *, framework="megatron", **plan) -> tuple[Collective, ...]:
    found = built(scenario(model, plan=plan, framework=framework))
    return collectives_of(found.step, found.lines, found.setting)


@pytest.mark.parametrize(("model", "plan"), PLANS)
def test_phases_and_categories_each_add_to_the_step(model, plan):
    e = flawless(host_forward_s=1e-5, host_backward_s=1e-5, host_step_s=1e-4, contention_frac=0.5)
    found = built(scenario(model, plan=plan, global_batch=8), e)
    phases, breakdown = phases_and_breakdown(found.step, found.rank, found.setting)
    assert (tuple(phases), tuple(breakdown)) == (PHASES, CATEGORIES)
    assert sum(phases.values()) == pytest.approx(found.step.seconds)
    assert sum(breakdown.values()) == pytest.approx(found.step.seconds)


@pytest.mark.parametrize(("model", "plan"), PLANS)
def test_rows_add_to_the_exposed_communication(model, plan):
    found = built(scenario(model, plan=plan, global_batch=8))
    rows = collectives_of(found.step, found.lines, found.setting)
    assert sum(row.exposed_s for row in rows) == pytest.approx(found.step.exposed_s)
    assert all(row.count > 0 and row.exposed_s <= row.seconds * (1 + 1e-12) for row in rows)


def test_equal_lines_of_all_blocks_are_one_row():
    rows = listed({**GPT, "layers": 8}, tp=2)
    (forward,) = (row for row in rows if row.name == "tensor parallel all-reduce")
    assert (forward.count, forward.bytes, forward.ranks) == (2 * 8, 128 * 256 * 2, 2)
    assert len({(row.name, row.axis, row.phase) for row in rows}) == len(rows)


def test_axes_are_named():
    rows = listed(MIXTRAL, dp=4, tp=2, ep=4, pp=2)
    assert {row.axis for row in rows} == {"dp", "tp", "ep", "edp", "pp"}


def test_copies_have_a_row_of_their_own():
    rows = [row for row in listed(LLAMA, dp=4, framework="pytorch-eager") if row.kind == "copy"]
    (copies,) = rows
    assert (copies.axis, copies.ranks) == ("dp", 1)
    assert copies.seconds == copies.exposed_s > 0


def test_messages_between_stages_show_what_they_add():
    (row,) = (row for row in listed(LLAMA, pp=2) if row.kind == "p2p")
    assert row.bytes == 128 * 256 * 2
    assert row.seconds == pytest.approx(row.count * (1e-6 + row.bytes / 1e10))


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
def test_every_stage_has_its_memory(stages):
    setting = built(scenario(LLAMA, plan={"pp": stages}, global_batch=8, seq_len=1024)).setting
    found = stage_memories(setting, 0.0)
    assert [one.stage for one in found] == list(range(stages))
    assert [one.in_flight for one in found] == [max(stages - i, 1) for i in range(stages)]
    for one in found:
        assert tuple(one.by_kind) == MEMORY_KINDS
        assert sum(one.by_kind.values()) == pytest.approx(one.peak_bytes)


def test_stages_in_the_middle_differ_by_what_is_in_flight():
    found = stage_memories(built(scenario(LLAMA, plan={"pp": 4}, global_batch=8, seq_len=4096)).setting, 0.0)
    second, third = found[1], found[2]
    assert second.by_kind["activations"] * 2 == pytest.approx(third.by_kind["activations"] * 3)
