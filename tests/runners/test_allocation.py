"""The peak of live tensors, by kind."""

from __future__ import annotations

import pytest

from estimator.scenario.breakdown import MEMORY_KINDS
from estimator.scenario.parameters import parameters
from runners import allocation
from runners.allocation import memory, resident_peak_bytes
from runners.ranks import Ranks
from runners.train_step import one_step, prepare
from tests.runners.examples import scenario


def measured(**changes):
    trainer = prepare(scenario(**changes), Ranks(), seed=0)
    one_step(trainer, lambda phase: None)
    return memory(trainer, {})


def test_states_are_counted_exactly_and_kinds_add_to_the_peak():
    found, warnings = measured()
    states = 4.0 * parameters(scenario().model)
    assert found.by_kind["parameters"] == states
    # Two moments, and a counter of steps for each tensor
    tensors = 2 * (7 + 2) + 3
    assert found.by_kind["optimizer"] == 2 * states + 4 * tensors
    assert sum(found.by_kind.values()) == found.peak_bytes
    assert set(found.by_kind) <= set(MEMORY_KINDS)
    assert (found.reserved_bytes, warnings) == (None, [])


def test_more_sequences_need_more_activations_and_recompute_fewer():
    def activations(recompute: str, micro_batch: int) -> float:
        plan = {"micro_batch": micro_batch, "recompute": recompute}
        found, _ = measured(plan=plan, training={"global_batch": 8, "attention": "eager", "seq_len": 64})
        return found.peak_bytes

    plain, half, selective, full = (
        activations(*choice) for choice in (("none", 8), ("none", 4), ("selective", 8), ("full", 8))
    )
    assert plain > half
    assert plain > selective > full


def test_several_micro_batches_are_one_step():
    one, _ = measured()
    two, _ = measured(training={"global_batch": 4})
    # The second forward runs while the first one's gradients are there
    assert one.peak_bytes < two.peak_bytes < 1.5 * one.peak_bytes


def test_on_a_gpu_the_allocators_peak_counts_and_what_no_tensor_explains_is_framework():
    trainer = prepare(scenario(), Ranks(), seed=0)
    one_step(trainer, lambda phase: None)
    tracked, _ = memory(trainer, {})
    peaks = {
        "forward": {"allocated_bytes": 1.0, "reserved_bytes": 2.0},
        "backward": {"allocated_bytes": tracked.peak_bytes + 1000.0, "reserved_bytes": 9e9},
    }
    found, _ = memory(trainer, peaks)
    assert (found.peak_bytes, found.reserved_bytes) == (tracked.peak_bytes + 1000.0, 9e9)
    assert found.by_kind["framework"] == tracked.by_kind.get("framework", 0.0) + 1000.0
    assert sum(found.by_kind.values()) == pytest.approx(found.peak_bytes)


def test_compiled_code_tells_no_kinds_apart():
    trainer = prepare(scenario(), Ranks(), seed=0)
    trainer.fused = True
    found, warnings = memory(trainer, {})
    assert (found.peak_bytes, found.by_kind) == (None, {})
    assert [warning.code for warning in warnings] == ["memory_kinds_unknown"]


def test_a_tracker_that_fails_costs_the_kinds_only(monkeypatch):
    def broken(trainer):
        raise NotImplementedError("several calls")

    monkeypatch.setattr(allocation, "tracked_peak", broken)
    trainer = prepare(scenario(), Ranks(), seed=0)
    found, warnings = memory(trainer, {"forward": {"allocated_bytes": 5.0, "reserved_bytes": 6.0}})
    assert (found.peak_bytes, found.reserved_bytes, found.by_kind) == (5.0, 6.0, {})
    assert "NotImplementedError: several calls" in warnings[0].message


def test_this_process_holds_at_least_torch():
    assert resident_peak_bytes() > 5e7
