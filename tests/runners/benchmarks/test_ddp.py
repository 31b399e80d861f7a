"""Every way to spread training over ranks, with real processes over gloo: it trains what one process would."""

from __future__ import annotations

import json
from collections import Counter

import pytest
import torch

from estimator.scenario.plan import Plan
from estimator.scenario.problems import InputProblems
from estimator.scenario.training import Training
from runners.model.by_name import model_of
from runners.model.transformer import build
from runners.parallel.gradients import copy_back, flattened, in_buckets
from runners.parallel.pipeline import stages_of
from runners.parallel.variants import MIB, SCHEDULES, VariantSetting, parse
from tests.runners.benchmarks.on_ranks import measure

DATA = ["naive", "flat", "overlapped", "bucketed:1", "bucketed:25", "torch-ddp:25", "zero1", "fsdp", "fsdp:no-reshard"]
TENSOR = ["single", "tp", "tp:sequence"]
PIPELINE = ["pp:gpipe:4", "pp:1f1b:4", "pp:zero-bubble:4"]
TWICE = ["pp:interleaved:4", "pp:zero-bubble:v2:4", "pp:zero-bubble-v:4"]


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    flags = ["--variants", ",".join([*DATA, *TENSOR, *PIPELINE, *TWICE]), "--seq-lens", "32", "--precisions", "fp32"]
    result = measure(tmp_path_factory.mktemp("ddp"), 2, "ddp", *flags)
    assert json.loads(json.dumps(result.rows)) == list(result.rows)
    return {row["variant"]: row for row in result.rows}


@pytest.fixture(scope="module")
def profiled(tmp_path_factory):
    """Rows of one variant of each kind, by variant and length; some the model does not allow."""
    flags = ("--variants", "tp,tp:sequence,pp:interleaved:4,naive,fsdp,pp:1f1b:4", "--models", "tiny", "--layers", "2")
    sizes = ("--seq-lens", "31,32", "--precisions", "fp32", "--profile")
    rows = measure(tmp_path_factory.mktemp("profiled"), 2, "ddp", *flags, *sizes, steps=1).rows
    return {(row["variant"], row["seq_len"]): row for row in rows}


def test_every_variant_is_measured(rows):
    assert Counter(row["status"] for row in rows.values()) == {"ok": len(rows)}, [
        row.get("message") for row in rows.values()
    ]
    for row in rows.values():
        assert 0 < row["minimum_s"] <= row["step_s"] <= row["maximum_s"]
        assert min(row["forward_s"], row["backward_s"], row["optimizer_s"]) > 0
        assert row["tokens_per_s"] == pytest.approx(row["global_batch"] * 32 / row["step_s"])


@pytest.mark.parametrize("variants", [DATA, TENSOR, PIPELINE, TWICE])
def test_variants_of_one_kind_train_alike(rows, variants):
    """The loss after three steps is that of the other ways to do the same arithmetic."""
    losses = [rows[variant]["loss"] for variant in variants]
    assert losses == pytest.approx([losses[0]] * len(losses), abs=2e-5)


def test_phases_say_where_the_exchange_is(rows):
    for variant in ("naive", "flat", "bucketed:25", "zero1"):
        assert rows[variant]["communication_wait_s"] > 0
    assert rows["fsdp"]["communication_wait_s"] is None
    assert rows["naive"]["exposed_communication_s"] >= 0
    assert rows["fsdp"]["exposed_communication_s"] is None
    assert rows["pp:gpipe:4"]["bubble_s"] > 0
    assert rows["tp"]["bubble_s"] is None


def test_what_a_rank_holds(rows):
    whole = rows["single"]["parameters"]
    assert rows["torch-ddp:25"]["parameters"] == whole
    assert rows["fsdp"]["parameters"] == pytest.approx(whole / 2, rel=0.02)
    assert whole / 2 < rows["tp"]["parameters"] < whole
    assert rows["pp:gpipe:4"]["parameters"] < whole
    assert rows["naive"]["global_batch"] == 2
    assert rows["tp"]["global_batch"] == 1
    assert rows["pp:1f1b:4"]["global_batch"] == 4


def test_every_kind_of_variant_is_profiled(profiled):
    for variant in ("naive", "fsdp", "tp", "pp:1f1b:4"):
        assert profiled[variant, 32]["profiled_exposed_s"] > 0, variant


def test_what_a_model_does_not_allow_is_a_row(profiled):
    refused = {key: row["message"] for key, row in profiled.items() if row["status"] == "unsupported"}
    assert set(refused) == {("tp", 31), ("tp:sequence", 31), ("pp:interleaved:4", 31), ("pp:interleaved:4", 32)}
    assert "do not divide" in refused["tp", 31]
    assert "4 stages are more than 2 layers" in refused["pp:interleaved:4", 31]
    assert {row["status"] for key, row in profiled.items() if key not in refused} == {"ok"}


def test_a_head_that_is_the_embedding_trains_split_and_on_another_rank_as_in_one(tmp_path):
    flags = ("--variants", "single,tp,tp:sequence,pp:gpipe:1", "--models", "tiny-tied", "--layers", "2")
    rows = measure(tmp_path, 2, "ddp", *flags, "--seq-lens", "32", "--precisions", "fp32", steps=1).rows
    found = {row["variant"]: row for row in rows}
    losses = [found[variant]["loss"] for variant in ("single", "tp", "tp:sequence", "pp:gpipe:1")]
    assert losses == pytest.approx([losses[0]] * 4, abs=2e-5)
    whole = found["single"]["parameters"]
    assert found["tp"]["parameters"] < 0.6 * whole  # the table is split too
    assert found["pp:gpipe:1"]["parameters"] > 0.5 * whole  # both ends hold it


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("bucketed:100", {"kind": "bucketed", "bucket_bytes": 100 * MIB}),
        ("fsdp:no-reshard:mixed", {"reshard": False, "mixed": True}),
        ("pp:1f1b:16", {"schedule": "1f1b", "micro_batches": 16, "virtual_stages": 1}),
        ("pp:interleaved", {"virtual_stages": 2}),
        ("pp:interleaved:v4:8", {"virtual_stages": 4, "micro_batches": 8}),
    ],
)
def test_a_variant_is_read_as_users_write_it(text, values):
    variant = parse(text)
    assert {name: getattr(variant, name) for name in values} == values


@pytest.mark.parametrize("text", ["dpp", "bucketed:x", "tp:2", "pp:2f2b", "naive:1", "pp:0"])
def test_an_unknown_variant_is_refused_with_a_remedy(text):
    with pytest.raises(InputProblems, match=r"options\.variants: ") as refused:
        parse(text)
    assert refused.value.problems[0].remedy


def test_buckets_fill_from_the_last_tensor_and_each_tensor_is_in_one():
    parameters = [torch.nn.Parameter(torch.zeros(n)) for n in (10, 20, 30, 40)]
    sizes = [[p.numel() for p in bucket] for bucket in in_buckets(parameters, 4 * 70)]
    assert sizes == [[40, 30], [20, 10]]
    assert [len(bucket) for bucket in in_buckets(parameters, 0)] == [1, 1, 1, 1]
    one_each = in_buckets([*parameters, torch.nn.Parameter(torch.zeros(5, dtype=torch.bfloat16))], 10**9)
    assert [len(bucket) for bucket in one_each] == [1, 4]


def test_flattening_and_back():
    tensors = [torch.randn(2, 3), torch.randn(4)]
    flat = flattened(tensors)
    copies = [torch.zeros(2, 3), torch.zeros(4)]
    copy_back(flat, copies)
    assert all(torch.equal(one, other) for one, other in zip(tensors, copies, strict=True))


def test_stages_lie_in_turns_or_in_a_v():
    assert stages_of("interleaved", 1, 4, 2) == [1, 5]
    assert stages_of("zero-bubble-v", 1, 4, 2) == [1, 6]
    for schedule in SCHEDULES:
        held = [stage for rank in range(4) for stage in stages_of(schedule, rank, 4, 2)]
        assert sorted(held) == list(range(8))


def test_the_tiny_model_can_be_cut():
    setting = VariantSetting(
        model=model_of("tiny", 2), training=Training(seq_len=8, global_batch=1), plan=Plan(), seed=0
    )
    module = build(setting.model, setting.training, setting.plan, "meta")
    assert len(module.blocks) == 2
    with pytest.raises(InputProblems):
        model_of("no-such-model")
