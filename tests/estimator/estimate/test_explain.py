"""Explain: the sentence names what is largest, fall-backs are said, and what is advised fits."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from estimator.cost.efficiency import efficiencies
from estimator.cost.host import HEAD_NORM_PRODUCTS, NORM_KERNEL_PRODUCTS, NORM_PRODUCTS
from estimator.estimate.assemble import assembled, effective
from estimator.estimate.estimate import Estimate, estimate
from estimator.estimate.explain import Launching, assumptions, limits, memory_problems, slowed_clock
from estimator.estimate.recomputing import Recomputing, recomputing_words
from estimator.estimate.report import Collective, MemoryOfStage
from estimator.scenario import catalog
from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, SHOWN_CATEGORIES
from estimator.scenario.codec import encode
from estimator.scenario.problems import Problem
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.scenario.units import bytes_text, seconds
from tests.estimator.examples import GPT, LLAMA, MIXTRAL, document, flawless, scenario

E = efficiencies("default")


def said_of(one: Scenario) -> str:
    return " ".join(assumptions(one, E, assembled(one, E).timing.one))


@pytest.mark.parametrize(
    ("precision", "told"),
    [("fp32", ["fp32"]), ("tf32", ["tf32"]), ("bf16-amp", ["bf16"]), ("fp8", ["fp8", "bf16"])],
)
def test_what_products_reach_is_told_of_the_precisions_that_they_are_taken_in(precision, told):
    cluster = {"chip": "h100-sxm", "chips_per_node": 1}
    said = said_of(scenario_from_json(document(LLAMA, precision=precision) | {"cluster": cluster}))
    assert re.findall(r"in (\w+) (?:reach )?\d+% of the dense (\w+) peak", said) == [(one, one) for one in told]


def test_the_sentence_names_the_largest_part_with_its_share():
    found = estimate(scenario(LLAMA, seq_len=4096))
    name = max(found.breakdown_s, key=lambda category: found.breakdown_s[category])
    share = found.breakdown_s[name] / found.step_time_s
    assert found.limits.startswith(name.capitalize())
    assert f"({share:.0%})" in found.limits
    assert found.limits.endswith(SHOWN_CATEGORIES[name].binds)


@pytest.mark.parametrize(
    ("category", "changes"),
    [
        ("host", {"host_forward_s": 1e-2, "host_backward_s": 1e-2}),
        ("communication", {"link_frac": 1e-4}),
        ("matmul", {"gemm_matrix_frac": 1e-4}),
        ("elementwise", {"memory_frac": 1e-4, "link_frac": 1e4}),
    ],
)
def test_what_is_made_slow_is_what_is_blamed(category, changes):
    found = estimate(scenario(LLAMA, plan={"dp": 8, "sharding": "zero1"}, seq_len=2048), flawless(**changes))
    assert found.limits.startswith(category.capitalize())


def test_where_the_host_binds_the_largest_message_is_one_outside_of_micro_batches():
    inside = Collective(name="x", kind="all-reduce", axis="tp", phase="forward", ranks=8, bytes=1.0, count=1.0,
                        seconds=3.0, exposed_s=3.0)  # fmt: skip
    outside = replace(inside, axis="dp", kind="reduce-scatter", exposed_s=2.0)
    launched = Launching(seconds=8.0, communication_s=2.0)
    breakdown = dict.fromkeys(CATEGORIES, 0.0)
    said = limits(10.0, breakdown, (inside, outside), peak=1.0, reserved=1.0, capacity=2.0, launched=launched)
    assert said.startswith("Host takes 8 s of 10 s")
    assert said.endswith("2 s exposed (20%), most of it the dp reduce-scatter.")


def test_exposed_communication_is_named_beside_a_larger_part():
    found = estimate(
        scenario(LLAMA, plan={"dp": 8, "sharding": "zero1", "overlap": False}, seq_len=2048),
        flawless(gemm_matrix_frac=0.05, link_frac=0.03),
    )
    worst = max(found.collectives, key=lambda c: c.exposed_s)
    assert found.limits.startswith("Matmul")
    assert f"most of it the dp {worst.kind}." in found.limits


def grouped(precision: str, **training):
    return scenario(LLAMA, precision=precision, **training)


def test_eager_pytorch_falls_back_for_grouped_fp32_attention_only():
    assert effective(grouped("fp32")).training.attention == "math"
    assert effective(grouped("tf32")).training.attention == "math"
    for same in (
        grouped("bf16"),
        grouped("bf16-amp"),
        grouped("bf16", attention="flash"),
        grouped("fp32", attention="flash", framework="ideal"),
        grouped("fp32", framework="pytorch-compile"),
        scenario({**LLAMA, "kv_heads": 8}, precision="fp32"),
    ):
        assert effective(same) == same


def test_the_fall_back_is_what_is_priced_and_is_said():
    found, eager = estimate(grouped("fp32")), estimate(grouped("fp32", attention="eager"))
    assert 1.0 < found.step_time_s / eager.step_time_s < 1.1
    assert any("score matrix" in text for text in found.assumptions)

    def launches(of, phase):
        return sum(op.launches for op in of.ops if op.phase == phase and op.layer == "layer")

    # Dispatched by torch for a block of Llama and of Qwen3 (tests/reference/h100_blocks.json): 6 and 1 more.
    layers = grouped("fp32").model.layers
    assert launches(found, "forward") - launches(eager, "forward") == 6 * layers
    assert launches(found, "backward") - launches(eager, "backward") == layers


@pytest.mark.parametrize(("attention", "precision"), [("flash", "fp32"), ("flash1", "tf32")])
def test_flash_in_32_bits_is_priced_as_what_runs_and_says_the_field_and_the_remedy(attention, precision):
    whole = {**LLAMA, "kv_heads": 8}
    found = estimate(scenario(whole, precision=precision, attention=attention))
    runs = estimate(scenario(whole, precision=precision))
    assert (found.step_time_s, found.memory) == (runs.step_time_s, runs.memory)
    assert found.assumptions[1:] == runs.assumptions
    assert "training.attention to sdpa, or training.precision to bf16-amp" in found.assumptions[0]
    shared = estimate(grouped(precision, attention=attention))
    assert shared.step_time_s == estimate(grouped(precision)).step_time_s, "shared heads have the math path alone"
    assert "math path" in shared.assumptions[0]


@pytest.mark.parametrize(
    ("words", "plan", "training"),
    [
        ("Dropout 0.1", {}, {"dropout": 0.1}),
        ("No dropout", {}, {}),
        ("separate eager kernels", {}, {}),
        ("FSDP mixed precision", {"dp": 2, "sharding": "fsdp"}, {"precision": "bf16-amp"}),
        ("contention", {"dp": 2}, {}),
        ("do not overlap", {"tp": 2}, {}),
        ("from the inside out", {"dp": 16}, {}),
    ],
)
def test_assumptions_are_said_where_they_are_made(words, plan, training):
    assert words in said_of(scenario(LLAMA, plan=plan, **training))


@pytest.mark.parametrize(("beside", "words"), [(False, "do not overlap"), (True, "another half micro-batch")])
def test_experts_exchanges_overlap_where_the_plan_says_so(beside, words):
    plan = {"dp": 2, "ep": 2, "ep_overlap": beside}
    assert words in said_of(scenario(MIXTRAL, plan=plan, framework="megatron"))


def test_what_whole_nodes_lose_is_said_where_they_work():
    def said(nodes: int, chips: int) -> str:
        cluster = {"chip": "h100-sxm", "nodes": nodes, "chips_per_node": chips}
        given = {**document(GPT, plan={"dp": nodes * chips}), "cluster": cluster}
        return " ".join(estimate(scenario_from_json(given)).assumptions)

    assert "Of the peak, products reach less than on one chip alone: they have lost 19% to power" in said(1, 8)
    assert "lost 19% to power and heat of 8 chips" in said(2, 8)
    assert "power and heat" not in said(1, 1)


def test_a_clock_below_the_full_one_is_said_with_its_limit():
    follows, half = (
        slowed_clock(replace(E, power_limit_w=700.0, clocked_frac=clocked), 0.914)[0] for clocked in (1.0, 0.5)
    )
    assert follows == (
        "Products run at 91% of the full clock and take 9% longer, as at full clock this step would draw more than the"
        " chip's limit of 700 W."
    )
    assert half == follows.replace("9% longer", "5% longer")
    assert slowed_clock(E, 1.0) == ()


def test_assumptions_are_not_said_where_they_are_not_made():
    said = said_of(scenario(GPT, framework="megatron", seq_len=4096))
    for words in ("eager kernels", "FSDP", "contention", "do not overlap", "inside out", "score matrix"):
        assert words not in said


@pytest.mark.parametrize(
    ("late", "chips", "words"),
    [
        ({"host_forward_s": 1.0, "host_backward_s": 1.0}, 1, "The host binds: it takes"),
        ({"host_forward_s": 1.0, "host_backward_s": 1.0}, 8, "of 8 ranks' hosts the slowest takes 1.36 times the mean"),
        ({}, 1, ""),
    ],
)
def test_a_host_that_binds_is_said_with_what_it_takes(late, chips, words):
    spread = {"host_spread": 0.25} if chips > 1 else {}
    one = scenario(LLAMA, plan={"dp": chips}, global_batch=chips)
    said = " ".join(estimate(one, flawless(**late, **spread)).assumptions)
    assert words in said
    assert ("The host binds" in said) == bool(words)


def test_a_host_that_was_probed_is_not_to_be_probed_again():
    one, late = scenario(LLAMA), flawless(host_forward_s=1.0, host_backward_s=1.0)
    probes = replace(late.ranges["host_launch_s"], source="probes: 3 differences of bare launches")
    probed = replace(late, device=one.cluster.chip.name, ranges={**late.ranges, "host_launch_s": probes})
    said = [" ".join(estimate(one, e).assumptions) for e in (late, probed)]
    assert ["The host binds: it takes" in words for words in said] == [True, True]
    assert ["calibrate with probes of yours" in words for words in said] == [True, False]


def test_a_host_that_binds_in_forward_alone_binds_in_part():
    one = scenario(LLAMA)
    part = assembled(one, flawless()).timing.one.part
    late = flawless(host_forward_s=1.5 * part.forward_s / part.launches_forward)
    assert "The host binds in part of a step: it takes" in " ".join(estimate(one, late).assumptions)


SPLIT = {
    "model": "llama3-70b",
    "cluster": {"chip": "h100-sxm", "nodes": 8},
    "plan": {"dp": 8, "tp": 8, "recompute": "full"},
    "training": {"seq_len": 4096, "global_batch": 1024},
}


def split(plan: dict | None = None, **cluster) -> Estimate:
    document = {**SPLIT, "cluster": {**SPLIT["cluster"], **cluster}, "plan": {**SPLIT["plan"], **(plan or {})}}
    return estimate(scenario_from_json(document))


def test_where_the_host_paces_it_is_what_binds_though_the_device_is_busy():
    found = split({"recompute": "none"})
    assert max(found.breakdown_s, key=lambda name: found.breakdown_s[name]) == "elementwise"
    assert found.binds == "host"
    assert "Host takes" in found.limits
    assert (
        f"to launch its micro-batches, and in all the chip waits {seconds(found.breakdown_s['host'])} for it"
        in found.limits
    )
    assert "a faster chip or link gains little" in found.limits
    assert any(text.startswith("The host binds: ") for text in found.assumptions)
    link = catalog.link(catalog.chip("h100-sxm").link)
    faster = split(link=encode(replace(link, bytes_per_s=4 * link.bytes_per_s)))
    assert faster.step_time_s > 0.99 * found.step_time_s


def test_what_is_beside_micro_batches_binds_where_it_takes_longer_than_their_launches():
    late = {"host_forward_s": 1e-4, "host_backward_s": 1e-4}
    one = scenario(LLAMA, plan={"dp": 8, "sharding": "zero1"}, global_batch=8)
    found = estimate(one, flawless(**late, link_frac=1e-4))
    assert any(text.startswith("The host binds: ") for text in found.assumptions)
    assert found.binds == "communication"


def shorter(plan: dict, **training) -> tuple[str, float]:
    """What is assumed of short sequences of Llama 3.2 1B on one chip, and the host's ms for a micro-batch."""
    given = {"seq_len": 256, "global_batch": 4, **training}
    one = {"model": "llama3.2-1b", "cluster": {"chip": "h200-sxm", "chips_per_node": 1}, "training": given}
    said = " ".join(estimate(scenario_from_json({**one, "plan": plan})).assumptions)
    return said, float(re.search(r"it takes ([\d.]+) ms to launch", said)[1])


@pytest.mark.parametrize(("recompute", "regions"), [("selective", 16), ("full", 16)])
@pytest.mark.parametrize("framework", ["pytorch-eager", "transformers"])
def test_recomputation_is_named_as_what_a_host_that_binds_takes_longer_for(recompute, regions, framework):
    none, host_ms = shorter({}, framework=framework)
    assert "recomput" not in none.replace("nothing recomputed", "").replace("execute: recomputation", "")
    said, longer_ms = shorter({"recompute": recompute}, framework=framework)
    told = re.search(r"Of the host's time, ([\d.]+) ms a micro-batch are recomputation: [\d.]+ .s launching", said)
    assert told
    assert float(told[1]) == pytest.approx(longer_ms - host_ms, abs=0.2)
    assert f"entering {regions} checkpointed regions" in said
    longer = re.search(r"this lengthens it by up to ([\d.]+) ms beside what the device computes again", said)
    assert longer
    assert float(longer[1]) == float(told[1]), "as the device waits for all of it"


def test_recomputation_lengthens_a_step_by_no_more_than_its_device_waits():
    found = Recomputing(launches=100.0, launching_s=6e-3, regions=4.0, regions_s=2e-3)
    (said,) = recomputing_words(found, 3e-3)
    assert "8 ms a micro-batch are recomputation" in said
    assert "The device waits 3 ms of a micro-batch, so that this lengthens it by up to 3 ms" in said
    assert recomputing_words(Recomputing(), 3e-3) == ()


def test_dtensors_dispatch_is_named_as_why_the_host_takes_so_long():
    host, again, said = split().assumptions[-3:]
    assert "are recomputation: " in again
    assert "DTensor's dispatch" in said
    product_s = E.host_dtensor_s * 8**E.host_ranks_power
    assert f"{1e6 * product_s:.0f} µs on the mean host for each of a micro-batch's 561 products" in said
    # what it takes is a figure of its own: each product forward and backward, and six of each of 80 layers once more
    slower = re.search(r"the slowest takes ([\d.]+) times", host)
    assert slower
    whole_s = (2 * 561 + 6 * 80) * product_s * float(slower[1])
    told = re.search(r"Of that, ([\d.]+) (m?s) are DTensor's", said)
    assert told
    assert float(told[1]) * {"s": 1, "ms": 1e-3}[told[2]] == pytest.approx(whole_s, rel=0.02)
    assert "a norm with" not in said
    norm, kernel = seconds(product_s * NORM_PRODUCTS), seconds(product_s * NORM_KERNEL_PRODUCTS)
    assert f"{norm} a norm with {kernel} a kernel of it" in split({"sequence_parallel": True}).assumptions[-1]
    assert "queries" not in said
    heads = estimate(scenario_from_json({**SPLIT, "model": {**encode(catalog.model("llama3-70b")), "qk_norm": True}}))
    both = seconds(product_s * sum(HEAD_NORM_PRODUCTS.values()))
    assert f"and {both} for each norm of queries or keys, forward and backward" in heads.assumptions[-1]
    for way in ("larger micro-batch", "Megatron", "compiling"):
        assert way in said
    alone = estimate(scenario(LLAMA), flawless(host_forward_s=1.0, host_backward_s=1.0))
    assert "DTensor" not in " ".join(alone.assumptions)


@pytest.mark.parametrize("kind", MEMORY_KINDS)
def test_what_does_not_fit_names_its_largest_kind_and_a_remedy(kind):
    by_kind = {**dict.fromkeys(MEMORY_KINDS, 1.0), kind: 9e10}
    fullest = MemoryOfStage(
        stage=0,
        layers=1,
        in_flight=1,
        moment="",
        peak_bytes=sum(by_kind.values()),
        reserved_bytes=9.1e10,
        by_kind=by_kind,
    )
    (problem,) = memory_problems(scenario(LLAMA), fullest, 9.1e10, 8e10, E)
    assert f"{kind}, is 90 GB" in problem.message
    assert "91 GB (90 GB at the peak, and what the allocator holds back) do not fit into 80 GB" in problem.message
    assert problem.remedy
    assert memory_problems(scenario(LLAMA), fullest, 8e10, 8e10, E) == ()


def test_a_step_that_does_not_fit_says_so_first():
    data = document(LLAMA, seq_len=8)
    data["cluster"]["chip"] = {**data["cluster"]["chip"], "memory_bytes": 1e6}
    assert estimate(scenario_from_json(data)).limits.startswith("Does not fit: ")


LARGE = {
    "model": "llama3-70b",
    "cluster": {"chip": "h200-sxm", "chips_per_node": 4},
    "plan": {"dp": 2, "tp": 2, "micro_batch": 4},
    "training": {"seq_len": 4096, "global_batch": 16},
}


def reserved(document: dict, **plan) -> float:
    return estimate(scenario_from_json({**document, "plan": {**document["plan"], **plan}})).memory.reserved_bytes


def advice(document: dict) -> str:
    return lacking(document).remedy


def lacking(document: dict) -> Problem:
    (problem,) = estimate(scenario_from_json(document)).problems
    return problem


def test_what_saves_most_comes_first_with_what_it_saves():
    saved = [reserved(LARGE), reserved(LARGE, sharding="fsdp"), reserved(LARGE, sharding="fsdp", recompute="full")]
    said = advice(LARGE)
    assert said.startswith(
        f"Choose sharding fsdp (saves {bytes_text(saved[0] - saved[1])}),"
        f" recompute full (saves {bytes_text(saved[1] - saved[2])})"
    )


def test_what_is_advised_together_fits():
    data = {**LARGE, "cluster": {"chip": "h200-sxm", "nodes": 2}, "plan": {"dp": 8, "tp": 2, "micro_batch": 2}}
    said = advice(data)
    fits = reserved(data, sharding="fsdp", recompute="full")
    assert said.startswith("Choose sharding fsdp (saves ")
    assert " and recompute full (saves " in said
    assert said.endswith(f": {bytes_text(fits)}, which fits.")
    assert lacking(data).remedy_kind == "together"
    (after,) = estimate(scenario_from_json({**data, "plan": {**data["plan"], "sharding": "fsdp"}})).problems
    assert "recompute full" in after.remedy
    both = {**data, "plan": {**data["plan"], "sharding": "fsdp", "recompute": "full"}}
    assert estimate(scenario_from_json(both)).problems == ()


def test_where_one_change_is_enough_each_of_these_fits():
    data = {
        "model": "llama3-8b",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 8},
        "plan": {"dp": 8, "sharding": "fsdp", "micro_batch": 4},
        "training": {"seq_len": 7168, "global_batch": 64},
    }
    said = advice(data)
    assert said.endswith("each alone fits.")
    assert lacking(data).remedy_kind == "each"
    assert reserved(data, recompute="full") < 80e9
    assert f"micro_batch 1 ({bytes_text(reserved(data, micro_batch=1))})" in said


def with_memory(document: dict, memory_bytes: float) -> dict:
    chip = {**encode(catalog.chip("h100-sxm")), "memory_bytes": memory_bytes}
    return {**document, "cluster": {**document["cluster"], "chip": chip}}


def test_experts_may_be_laid_on_more_ranks():
    data = {
        "model": "mixtral-8x7b",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 8},
        "plan": {"dp": 8, "ep": 2, "sharding": "fsdp"},
        "training": {"seq_len": 32768, "global_batch": 8},
    }
    more = reserved(data, ep=4)
    assert more < reserved(data)
    assert f"ep 4 ({bytes_text(more)})" in advice(with_memory(data, 1.001 * more))


def test_what_nothing_helps_needs_another_chip():
    data = {
        "model": "gpt2",
        "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
        "plan": {"recompute": "full", "offload": "optimizer"},
        "training": {"seq_len": 128, "global_batch": 1},
    }
    assert lacking(with_memory(data, 1e6)).remedy_kind == "short"
    assert advice(with_memory(data, 1e6)) == "No change of the plan helps: take more chips, or chips with more memory."
    open_to_change = {**data, "plan": {}}
    assert advice(with_memory(open_to_change, 1e6)).endswith(
        "still too much; take more chips, or chips with more memory."
    )


@pytest.mark.parametrize("tp", [1, 2, 4])
def test_no_change_is_advised_that_is_not_legal(tp):
    data = {**LARGE, "plan": {"dp": 4 // tp, "tp": tp}, "training": {"seq_len": 4096, "global_batch": 4}}
    said = advice(data)
    assert "micro_batch 1" not in said
    assert ("sharding fsdp" in said) == (tp < 4)


def test_fused_attention_that_nothing_runs_in_32_bits_says_what_does_and_what_helps():
    found = estimate(grouped("tf32"))
    assert "math path" in found.assumptions[0]
    assert "training.precision to bf16-amp" in found.assumptions[0]
    assert not any("math path" in text for text in estimate(grouped("bf16")).assumptions)


def test_a_ring_in_32_bits_says_that_its_pieces_keep_no_scores_and_nothing_of_the_math_path():
    def said(precision: str, cp: int) -> str:
        one = {
            "model": "llama3.2-1b",
            "cluster": {"chip": "h200-sxm", "chips_per_node": 2},
            "plan": {"cp": cp, "dp": 2 // cp},
            "training": {"seq_len": 2048, "global_batch": 2, "precision": precision},
        }
        return " ".join(estimate(scenario_from_json(one)).assumptions)

    assert "makes them anew in backward" in said("fp32", 2)
    assert "math path" not in said("fp32", 2)
    assert "Attention keeps the score matrix." not in said("fp32", 2)
    assert "math path" in said("fp32", 1)
    assert "all heads round" in said("bf16", 2)
    assert "makes them anew" not in said("bf16", 2)


def test_advice_names_a_field_that_it_changes_twice_once():
    large = scenario_from_json(
        {
            "model": "qwen3-8b",
            "cluster": {"chip": "h200-sxm", "chips_per_node": 4, "nodes": 1},
            "plan": {"dp": 4, "micro_batch": 4},
            "training": {"seq_len": 16_384, "global_batch": 16, "precision": "tf32"},
        }
    )
    (problem,) = estimate(large).problems
    named = re.findall(r"(\w+) \S+ \(saves", problem.remedy)
    assert "tp" in named
    assert len(named) == len({*named}), problem.remedy
    assert "which fits" in problem.remedy
