"""Lay out: what a list can be laid out by, what it is refused and why, and laws of what comes out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimator.estimate.layout.lay_out import estimate_laid_out, laid_out, laying_of, layouts
from estimator.estimate.layout.linear_split import proposed_split
from estimator.estimate.layout.stages import cut, stage
from estimator.estimate.layout.units import unit_of
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.breakdown import MemoryKind
from estimator.scenario.op_list import NONE, OpList, from_json, to_json
from estimator.scenario.problems import InputProblems
from estimator.scenario.units import MIB

OPS = Path(__file__).parents[3] / "reference" / "ops"


def traced(name: str) -> OpList:
    return from_json(json.loads((OPS / f"{name}.json").read_text(encoding="utf-8")))


LISTS = {name: traced(name) for name in ("llama", "gpt2")}
LLAMA, GPT2 = LISTS.values()


@pytest.mark.parametrize("found", [LLAMA, GPT2], ids=["llama", "gpt2"])
def test_a_plan_of_one_rank_is_the_list_itself(found):
    assert estimate_laid_out(found, laying_of({})) == estimate_op_list(found, cluster_for(found))
    assert from_json(json.loads(json.dumps(to_json(found)))) == found


@settings(max_examples=8, deadline=None)
@given(
    name=st.sampled_from(list(LISTS)),
    plan=st.fixed_dictionaries(
        {
            "dp": st.sampled_from([1, 2, 16]),
            "sharding": st.sampled_from(["ddp", "zero3", "fsdp"]),
            "tp": st.sampled_from([1, 2]),
            "pp": st.sampled_from([1, 2]),
            "schedule": st.sampled_from(["gpipe", "1f1b", "zero-bubble"]),
        }
    ),
    micro_batches=st.sampled_from([1, 4]),
)
def test_parts_add_to_the_whole_and_more_ranks_hold_no_more_states(name, plan, micro_batches):
    found = LISTS[name]
    idle = {"sharding"} if plan["dp"] == 1 else set()
    idle |= {"schedule"} if plan["pp"] == 1 else set()
    said = {field: value for field, value in plan.items() if field not in idle}
    estimate = estimate_laid_out(found, laying_of(said, micro_batches))
    assert sum(estimate.phases_s.values()) == pytest.approx(estimate.step_time_s)
    assert sum(estimate.breakdown_s.values()) == pytest.approx(estimate.step_time_s)
    assert min(estimate.phases_s.values()) >= 0
    assert sum(estimate.memory.by_kind.values()) == pytest.approx(estimate.memory.peak_bytes)
    low, high = estimate.interval_s
    assert 0 < low < estimate.step_time_s < high
    assert estimate.chips == plan["dp"] * plan["tp"] * plan["pp"]
    alone = estimate_op_list(found, cluster_for(found))
    # Adding their parts costs some kilobytes, and a block that serves one has less than a MiB that is not split off.
    kept = sum(one.kind == MemoryKind.OPTIMIZER for one in found.storages)
    assert estimate.memory.by_kind["optimizer"] <= alone.memory.by_kind["optimizer"] + 1e5 + kept * MIB
    tokens = alone.tokens_per_s * alone.step_time_s
    assert estimate.tokens_per_s * estimate.step_time_s == pytest.approx(tokens * plan["dp"] * micro_batches)


def test_shards_add_to_the_whole():
    whole = sum(one.bytes for one in LLAMA.storages if one.kind == MemoryKind.PARAMETERS)
    sharded = laid_out(LLAMA, laying_of({"dp": 8, "sharding": "fsdp"}))
    assert sum(one.bytes for one in sharded.storages if one.kind == MemoryKind.PARAMETERS) * 8 == whole
    for one in sharded.storages:
        assert one.died == NONE or one.born < one.died <= len(sharded.calls)
    places = cut(LLAMA)
    stages = [stage(places, [0], embedding=True, head=False), stage(places, [1], embedding=False, head=True)]
    assert sum(one.parameters for one in stages) == LLAMA.parameters
    calls = [sum(call.kind == "kernel" and call.phase == "forward" for call in one.calls) for one in (*stages, LLAMA)]
    assert calls[0] + calls[1] == calls[2]


def test_a_table_that_both_ends_use_is_held_by_both():
    places = cut(GPT2)
    stages = [stage(places, [0], embedding=True, head=False), stage(places, [1], embedding=False, head=True)]
    assert sum(one.parameters for one in stages) - GPT2.parameters == 50304 * 768
    estimate = estimate_laid_out(GPT2, laying_of({"pp": 2}, 4))
    (sums,) = [one for one in estimate.collectives if one.kind == "all-reduce"]
    assert sums.bytes == 4 * 50304 * 768


def test_names_propose_how_linears_are_split():
    assert proposed_split(GPT2).named == {"h.*.c_attn": "column", "h.*.c_proj": "row"}
    assert set(proposed_split(LLAMA).named.values()) == {"column", "row"}
    split = laying_of({"tp": 2}, split=["c_attn=column", "c_proj=row", "mlp.0=column", "mlp.2=row"])
    every, some = estimate_laid_out(GPT2, split), estimate_laid_out(GPT2, laying_of({"tp": 2}))
    assert every.breakdown_s["matmul"] < some.breakdown_s["matmul"]
    written = json.dumps(to_json(LLAMA)).replace("mlp.gate", "mlp.first").replace("mlp.up", "linear1")
    torchs = from_json(json.loads(written.replace("mlp.down", "linear2")))
    assert {"linear1", "linear2"} < {path.rpartition(".")[2] for path in proposed_split(torchs).of}
    # Heads bind where attention is split, features where the rest is.
    assert estimate_laid_out(GPT2, laying_of({"tp": 32}, split=["mlp.0=column", "mlp.2=row"])).chips == 32
    assert sum(one.count for one in every.collectives) == 2 * sum(one.count for one in some.collectives)


def as_inference_mode(found: OpList) -> OpList:
    """The list with forward's linears as inference_mode leaves them: (…, takes)·Wᵀ + b in one op, W (makes × takes)."""
    signatures, calls = list(found.signatures), list(found.calls)
    names = {one.name for one in found.weights}
    for at, call in enumerate(calls):
        if call.kind != "kernel" or call.phase != "forward" or f"{found.modules[call.module]}.weight" not in names:
            continue
        s = found.of(call)
        if s.op in ("aten::mm", "aten::addmm"):
            *bias, first, second = s.inputs
            weight = replace(second, shape=second.shape[::-1], strides=None)
            x, y = (replace(one, shape=(2, one.shape[0] // 2, one.shape[1])) for one in (first, s.outputs[0]))
            calls[at] = replace(call, signature=len(signatures))
            signatures.append(replace(s, op="aten::linear", inputs=(x, weight, *bias), outputs=(y,)))
    return replace(found, calls=tuple(calls), signatures=tuple(signatures))


@pytest.mark.parametrize("name", list(LISTS))
def test_linears_of_inference_mode_are_split_as_their_products_are(name):
    found = LISTS[name]
    split = ["mlp.0=column", "mlp.2=row", "c_attn=column", "c_proj=row"] if name == "gpt2" else []
    laying = laying_of({"tp": 2}, split=split)
    plain, whole = laid_out(found, laying), laid_out(as_inference_mode(found), laying)
    assert sum(whole.of(call).op == "aten::linear" for call in whole.calls if call.kind == "kernel") > 7
    assert [call.kind for call in plain.calls] == [call.kind for call in whole.calls]
    assert plain.storages == whole.storages
    cluster = cluster_for(plain)
    one, other = (estimate_op_list(each, cluster, interval=False) for each in (plain, whole))
    assert one.model_flops == other.model_flops
    sent = [[(each.bytes, each.phase) for each in made.collectives] for made in (one, other)]
    assert sent[0] == sent[1]


@pytest.mark.parametrize(
    ("path", "unit"),
    [("layers.0.attention.q", "layers.0"), ("model.h.11", "model.h.11"), ("conv1", ""), ("layer1.0.conv2", "layer1.0")],
)
def test_a_unit_is_the_outermost_numbered_module(path, unit):
    assert unit_of(path) == unit


@pytest.mark.parametrize(
    ("plan", "more", "field"),
    [
        ({"tp": 3}, {}, "plan.tp"),
        ({"tp": 32}, {"split": ["q=column", "k=column", "v=column", "o=row"]}, "plan.tp"),
        ({"tp": 2}, {"split": ["gate=column"]}, "split"),
        ({"tp": 2}, {"split": ["nothing=row"]}, "split"),
        ({"tp": 2}, {"split": ["gate=diagonal"]}, "split"),
        ({"pp": 3}, {}, "plan.pp"),
        ({"pp": 2, "schedule": "interleaved", "virtual_stages": 2}, {"micro_batches": 4}, "plan.virtual_stages"),
        ({"dp": 8, "sharding": "zero1"}, {}, "plan.sharding"),
        ({"cp": 2}, {}, "plan.cp"),
        ({"dp": 2}, {"micro_batches": 0}, "micro_batches"),
        ({"dp": 1_000_000, "tp": 2}, {}, "plan.dp"),
        ({"dp": 2}, {"split": ["q=column", "o=row"]}, "split"),
        ({"tp": 2, "sharding": "fsdp"}, {}, "plan.sharding"),
        ({"bucket_bytes": 1}, {}, "plan.bucket_bytes"),
        ({"dp": 2, "sharding": "fsdp", "bucket_bytes": 1}, {}, "plan.bucket_bytes"),
        ({"dp": 2, "schedule": "gpipe"}, {"micro_batches": 4}, "plan.schedule"),
        ({"virtual_stages": 2}, {"micro_batches": 4}, "plan.virtual_stages"),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(plan, more, field):
    with pytest.raises(InputProblems) as refused:
        estimate_laid_out(LLAMA, laying_of(plan, **more))
    assert field in {problem.field for problem in refused.value.problems}
    assert all(problem.remedy for problem in refused.value.problems)


@pytest.mark.parametrize("source", ["profile", "trace"])
def test_a_list_that_does_not_say_whose_parameters_are_is_copied_alone(source):
    bare = replace(
        LLAMA, source=source, weights=(), storages=tuple(replace(one, weight=NONE) for one in LLAMA.storages)
    )
    assert {way.key for way in layouts(bare) if not way.reason} == {"dp"}
    assert estimate_laid_out(bare, laying_of({"dp": 4})).chips == 4
    for plan in ({"dp": 2, "sharding": "fsdp"}, {"tp": 2}, {"pp": 2}):
        with pytest.raises(InputProblems, match="headroom trace"):
            estimate_laid_out(bare, laying_of(plan))


def test_a_list_that_is_spread_already_is_not_spread_again():
    spread = laid_out(LLAMA, laying_of({"dp": 2}))
    for plan in ({"dp": 2}, {"tp": 2}, {"pp": 2}):
        with pytest.raises(InputProblems, match="of 2 already"):
            estimate_laid_out(spread, laying_of(plan))


def test_what_stands_between_backward_and_optimizer_meets_sums_and_runs_once_in_a_step():
    """GPT-2 clips its gradients."""
    laid = laid_out(GPT2, laying_of({"dp": 8}))
    clips = next(at for at, call in enumerate(laid.calls) if "_foreach_norm" in laid.of(call).op)
    sums = [at for at, call in enumerate(laid.calls) if "allreduce" in laid.of(call).op]
    waited = {call.waits_for for call in laid.calls[:clips] if call.kind == "wait" and call.stream == 0}
    assert sums
    assert set(sums) <= waited
    once, often = (estimate_laid_out(GPT2, laying_of({}, count)) for count in (1, 8))
    counts = [[op.count for op in one.ops if "_foreach_mul_" in op.name] for one in (once, often)]
    assert counts[0] == counts[1] != []


def test_one_stage_holds_one_micro_batch():
    peaks = [estimate_laid_out(LLAMA, laying_of({}, count)).memory.peak_bytes for count in (2, 8)]
    assert peaks[0] == peaks[1]


def test_micro_batches_of_a_list_without_layers_are_refused_as_micro_batches():
    bare = replace(LLAMA, modules=tuple(path.replace("layers.", "layer") for path in LLAMA.modules))
    (reason,) = [way.reason for way in layouts(bare) if way.key == "pp"]
    assert reason == "It needs repeated layers to cut between; the list's modules have none."
    for plan, field in (({}, "micro_batches"), ({"pp": 2}, "plan.pp")):
        with pytest.raises(InputProblems, match="needs repeated layers") as refused:
            estimate_laid_out(bare, laying_of(plan, 4))
        assert [(one.field, one.remedy) for one in refused.value.problems] == [(field, "Leave it out.")]


@pytest.mark.parametrize("count", [0, 10**400])
def test_micro_batches_out_of_range_are_refused(count):
    with pytest.raises(InputProblems, match="micro_batches: is out of range"):
        estimate_laid_out(LLAMA, laying_of({}, count))


def test_interleaving_names_what_a_list_has():
    plan = {"pp": 2, "schedule": "interleaved", "virtual_stages": 2}
    with pytest.raises(InputProblems, match=r"micro_batches: .* Give a multiple of 2"):
        estimate_laid_out(LLAMA, laying_of(plan, 3))
