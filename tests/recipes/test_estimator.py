"""Recipes that change what is computed: a precision, a framework, a parameter, an op, a collective, a schedule."""

from __future__ import annotations

import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from estimator.cost.collectives import TRAFFIC, Group, collective_s
from estimator.cost.efficiency import efficiencies
from estimator.scenario.scenario import scenario_from_json
from tests.recipes.following import ROOT, SCENARIO, add, block, copy_folders, run_python, with_loss_chunks

PRECISION = """
import json
from estimator.estimate.cache_roofline_table import hierarchy
from estimator.estimate.estimate import estimate
from estimator.scenario.scenario import scenario_from_json
from estimator.search.axis import axis
from estimator.search.sweep import sweep
from estimator.validation.csv_row import scenario_of_row
from runners.refusals import refusals

def document(precision, chip="b200"):
    training = {"seq_len": 4096, "global_batch": 1, "precision": precision, "framework": "megatron"}
    return {"model": "llama3-8b", "cluster": {"chip": chip, "chips_per_node": 1}, "training": training}

def numbers_of(precision):
    found = estimate(scenario_from_json(document(precision)))
    products = [op for op in found.ops if (op.phase, op.category) == ("forward", "matmul")]
    (down,) = [op for op in products if op.name.startswith("down")]
    # Rows, columns and depth of a block's down projection; its result is 2 bytes wide.
    operand_bytes = (down.bytes / down.count - 2 * 4096 * 4096) / (2 * 4096 * 14_336)
    return found.step_time_s, sum(op.saved_bytes for op in found.ops), operand_bytes, found.roofs.flops_per_s

found = {name: numbers_of(name) for name in ("bf16", "fp8", "fp6")}
offered = {
    chip: {point.value: [str(one) for one in point.problems]
           for point in axis(document("bf16", chip), "training.precision").points}
    for chip in ("b200", "h200-sxm")
}
best = sweep(document("fp6")).best[0]
products = {row.precision for row in hierarchy(scenario_from_json(document("fp6"))).rows}
problems = refusals(scenario_from_json(document("fp6")), world_size=1, cuda=False)
(refused,) = [str(problem) for problem in problems if problem.field == "training.precision"]
cells = {"hardware": "B200", "n_gpus": "1", "model": "Llama-3 8B", "n_layers": "32", "d_model": "4096",
         "n_heads": "32", "seq_len": "4096", "global_batch": "1", "precision": "fp6", "measured_step_time_s": "1"}
row = scenario_of_row(cells)
assert row.scenario, row
print(json.dumps([found, offered, best.step_time_s, sorted(products), refused, row.scenario.training.precision]))
"""


def test_precision(tmp_path: Path):
    copy_folders(tmp_path, "estimator", "runners")
    scenario = tmp_path / "estimator" / "scenario"
    fp8 = '    fp8_flops_per_s: float = spec(0.0, minimum=0, help="fp8 on the matrix units, dense")\n'
    add(scenario / "hardware.py", fp8, textwrap.indent(block("python hardware Chip"), "    "))
    add(scenario / "hardware.py", '    "fp8": "fp8_flops_per_s",\n', block("text PEAK_FIELD").strip() + ",\n")
    add(scenario / "precision.py", "\nQUANTISED = {", block("text QUANTISED").rstrip() + "\n")
    chip = tmp_path / "estimator" / "catalog" / "chips" / "b200.toml"
    add(chip, "fp8_flops_per_s = 4.5e15\n", block("toml peak"))
    add(chip, "[sources]\n", block("toml peak source"))
    found, offered, searched_s, products, refused, row = json.loads(run_python(tmp_path, "-c", PRECISION))
    seconds, saved, operand_bytes, peaks = zip(*(found[name] for name in ("bf16", "fp8", "fp6")), strict=True)
    assert sorted(seconds, reverse=True) == list(seconds)
    assert sorted(saved, reverse=True) == list(saved)
    assert operand_bytes == pytest.approx((2, 1, 0.78125))
    assert peaks[0]["fp6"] == 4.5e15
    assert offered["b200"]["fp6"] == []
    assert "no matrix unit for fp6" in offered["h200-sxm"]["fp6"][0]
    assert searched_s == pytest.approx(seconds[2], rel=1e-9)
    assert products == ["bf16", "fp6"]
    assert "fp6 is not measured" in refused
    assert row == "fp6"


FRAMEWORK = """
import json
from estimator.estimate.estimate import estimate
from estimator.scenario.scenario import scenario_from_json
from estimator.search.axis import axis
from estimator.search.sweep import sweep
from runners.refusals import refusals

def document(framework):
    training = {"seq_len": 128, "global_batch": 1, "precision": "bf16", "framework": framework}
    return {"model": "tinyllama-1.1b", "cluster": {"chip": "h200-sxm", "chips_per_node": 1}, "training": training}

found = {}
for name in ("deepspeed", "pytorch-eager", "megatron", "ideal"):
    one = estimate(scenario_from_json(document(name)))
    kinds = {kind: each / one.parameters for kind, each in one.memory.by_kind.items()}
    found[name] = [one.step_time_s, kinds | {"saved": sum(op.saved_bytes for op in one.ops)}]
points = {point.value: point.estimate.step_time_s for point in axis(document("xla"), "training.framework").points}
best = sweep(document("deepspeed")).best[0].step_time_s
refused = [str(problem) for problem in refusals(scenario_from_json(document("deepspeed")), world_size=1, cuda=False)]
print(json.dumps([found, points, best, refused]))
"""


def test_framework(tmp_path: Path):
    copy_folders(tmp_path, "estimator", "runners", "app")
    add(
        tmp_path / "estimator" / "scenario" / "framework.py",
        "\nFRAMEWORKS = {",
        "\n" + block("text FRAMEWORKS").rstrip() + ",",
    )
    found, points, searched_s, refused = json.loads(run_python(tmp_path, "-c", FRAMEWORK))
    seconds = {name: one for name, (one, _) in found.items()}
    assert points["deepspeed"] == searched_s == pytest.approx(seconds["deepspeed"])
    assert seconds["ideal"] < seconds["deepspeed"]
    # Its traits: states as Megatron keeps them, 2, 4 and 12 bytes a parameter, the rest as plain PyTorch, which has no
    # buffers for them, so that the allocator rounds large ones up.
    kinds = {name: by_kind for name, (_, by_kind) in found.items()}
    for kind, width in (("parameters", 2), ("gradients", 4), ("optimizer", 12)):
        assert kinds["megatron"][kind] == pytest.approx(width, rel=1e-3)
        assert width <= kinds["deepspeed"][kind] == pytest.approx(width, rel=1e-2)
    assert kinds["pytorch-eager"]["optimizer"] == pytest.approx(4, rel=1e-3)
    assert kinds["deepspeed"]["saved"] == kinds["pytorch-eager"]["saved"] > kinds["megatron"]["saved"]
    (problem,) = refused
    assert "plain PyTorch, not deepspeed" in problem
    listed = json.loads(
        run_python(tmp_path, "-c", "import json; from app.api.catalog import fields; print(json.dumps(fields()))")
    )
    assert "deepspeed" in listed["training.framework"]["choices"]
    assert listed["training.framework"]["labels"]["deepspeed"] == "DeepSpeed"
    tests = tmp_path / "tests" / "estimator"
    (tests / "scenario").mkdir(parents=True)
    for name in ("examples.py", "scenario/test_framework.py"):
        shutil.copy(ROOT / "tests" / "estimator" / name, tests / name)
    passed = run_python(
        tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), "-k", "deepspeed or trait"
    )
    assert "passed" in passed
    assert "failed" not in passed


PARAMETER = """
import json
from estimator.estimate.estimate import estimate
from estimator.scenario.scenario import scenario_from_json
from estimator.search.axis import axis
from estimator.search.sweep import sweep
from runners.refusals import refusals

document = json.loads(open("scenario.json").read())
whole = estimate(scenario_from_json(document)).memory.by_kind
document["plan"]["loss_chunks"] = 6
pieces = estimate(scenario_from_json(document)).memory.by_kind
points = [[point.value, point.estimate.memory.by_kind["logits"]] for point in axis(document, "plan.loss_chunks").points]
best = sweep({key: document[key] for key in ("model", "cluster", "training")} | {"locked": document["plan"]}).best[0]
(refused,) = refusals(scenario_from_json(document), world_size=1, cuda=False)
print(json.dumps([whole, pieces, points, best.scenario["plan"]["loss_chunks"], best.peak_bytes, refused.field]))
"""


def test_plan_parameter(tmp_path: Path):
    with_loss_chunks(tmp_path, "estimator", "runners", "app")
    plan = {"micro_batch": 8}
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO | {"plan": plan}))
    whole, pieces, points, locked, searched_bytes, refused = json.loads(run_python(tmp_path, "-c", PARAMETER))
    assert whole["logits"] > 1e9
    assert pieces["logits"] == pytest.approx(whole["logits"] / 6)
    assert {kind: pieces[kind] for kind in ("parameters", "gradients", "optimizer")} == {
        kind: whole[kind] for kind in ("parameters", "gradients", "optimizer")
    }
    assert [value for value, _ in points] == [1, 2, 4, 6, 8, 16, 32, 64]
    assert dict(points)[1] == whole["logits"]
    logits = [found for _, found in points]
    assert logits == sorted(logits, reverse=True)
    assert (locked, refused) == (6, "plan.loss_chunks")
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO | {"plan": {"loss_chunks": 6, **plan}}))
    command = ["-c", "from app.cli import main; main()", "estimate", "scenario.json", "--json"]
    estimated = json.loads(run_python(tmp_path, *command))
    assert estimated["memory"]["by_kind"] == pytest.approx(pieces)
    assert estimated["memory"]["peak_bytes"] == pytest.approx(searched_bytes)


CATEGORY = """
import json
from estimator.estimate.difference import Told, causes, spent_of_prediction
from estimator.estimate.estimate import estimate
from estimator.scenario.breakdown import ARITHMETIC, WORK_CATEGORIES
from estimator.scenario.scenario import scenario_from_json
from runners.trace.kernel_category import category_of

def numbers(dp):
    plan, cluster = {"dp": dp, "ep": 8, "sharding": "fsdp"}, {"chip": "h100-sxm", "chips_per_node": dp}
    training = {"seq_len": 4096, "global_batch": 2 * dp}
    document = {"model": "mixtral-8x7b", "cluster": cluster, "plan": plan, "training": training}
    return estimate(scenario_from_json(document))

found, other = numbers(8), numbers(16)
told = [Told(step_time_s=one.step_time_s, spent=spent_of_prediction(one.breakdown_s, one.ops, one.collectives))
        for one in (found, other)]
units = sorted({one.unit for one in causes(*told) if one.name == "routing"})
ops_s = sum(op.seconds for op in found.ops if op.category == "routing")
print(json.dumps([found.step_time_s, found.interval_s, found.breakdown_s, ops_s, units,
                  category_of("void moe_router_scores"), "routing" in WORK_CATEGORIES, "routing" in ARITHMETIC]))
"""


def test_category(tmp_path: Path):
    copy_folders(tmp_path, "estimator", "runners")
    home = tmp_path / "estimator" / "scenario" / "breakdown.py"
    add(home, '    OTHER = "other"\n', textwrap.indent(block("python breakdown Category"), "    "))
    other = '    Category.OTHER: ShownCategory(label="other", hue="grey", binds="Copies bind."),\n'
    add(home, other, textwrap.indent(block("python breakdown SHOWN_CATEGORIES"), "    "))
    moe = tmp_path / "estimator" / "operations" / "moe.py"
    add(moe, "tokens * model.experts, *_scores(d)", ", " + block("text moe").strip())
    add(moe, "import maximum, where\n", "from estimator.scenario.breakdown import Category\n")
    rules = tmp_path / "runners" / "trace" / "kernel_category.py"
    add(rules, "RULES: tuple[tuple[str, str], ...] = (\n", "    " + block("text RULES").strip() + ",\n")
    step_s, interval_s, breakdown_s, ops_s, units, *rest = json.loads(run_python(tmp_path, "-c", CATEGORY))
    names: dict[str, Any] = {}
    exec(CATEGORY.split("units =")[0], names)  # the same without the category
    before = names["found"]
    assert [step_s, *interval_s] == pytest.approx([before.step_time_s, *before.interval_s])
    assert breakdown_s["routing"] == pytest.approx(ops_s)
    assert 0 < ops_s == pytest.approx(before.breakdown_s["elementwise"] - breakdown_s["elementwise"])
    assert sum(breakdown_s.values()) == pytest.approx(step_s)
    assert (units, rest) == (["bytes"], ["routing", True, False])


DISTANCES = """
import json
from estimator.operations.aten import is_known, kernels_of
from estimator.scenario.op_list import Operand, Signature
points = Operand(shape=(2, 100, 8), dtype="float32")
(kernel,) = kernels_of(Signature(op="aten::_cdist_forward", inputs=(points, points)))
print(json.dumps([is_known("aten::_cdist_forward"), kernel.strided_elements, kernel.bytes]))
"""


def test_aten_op(tmp_path: Path):
    copy_folders(tmp_path, "estimator")
    package = tmp_path / "estimator" / "operations" / "aten"
    reductions = package / "reductions.py"
    function = block("python estimator/operations/aten/reductions.py")
    reductions.write_text(f"{reductions.read_text(encoding='utf-8')}\n\n{function}", encoding="utf-8")
    add(package / "__init__.py", "TABLE: Mapping[str, Kernels] = {\n", f"    {block('text TABLE').strip()},\n")
    known, elements, moved = json.loads(run_python(tmp_path, "-c", DISTANCES))
    assert known
    assert elements == 2 * 100 * 100 * 8
    assert moved == 2 * 1600 * 4


def test_collective(monkeypatch: pytest.MonkeyPatch):
    ((kind, factor),) = json.loads("{" + block("text TRAFFIC") + "}").items()
    assert kind not in TRAFFIC
    monkeypatch.setitem(TRAFFIC, kind, factor)
    cluster = scenario_from_json(SCENARIO | {"plan": {"dp": 8}, "cluster": {"chip": "a100-80gb-sxm"}}).cluster
    payload_bytes, times_s = 1e12, []
    for ranks in (2, 4, 8):
        group = Group(ranks=ranks, ranks_per_node=ranks)
        times_s.append(float(collective_s(kind, payload_bytes, group, cluster, efficiencies("default"))))
    assert times_s == sorted(times_s)
    ideal_s = factor * 7 / 8 * payload_bytes / cluster.link.bytes_per_s
    assert ideal_s < times_s[-1] < 2 * ideal_s


EAGER = """
import json
from estimator.estimate.estimate import estimate
from estimator.scenario.plan import SCHEDULES
from estimator.scenario.scenario import scenario_from_json
from estimator.search.axis import axis
from estimator.search.sweep import sweep
document = {
    "model": "gpt2", "cluster": {"chip": "a100-80gb-sxm", "chips_per_node": 4},
    "plan": {"pp": 4, "schedule": "1f1b"},
    "training": {"seq_len": 1024, "global_batch": 16, "precision": "bf16"},
}
points = {point.value: point.estimate for point in axis(document, "plan.schedule").points}
search = {key: document[key] for key in ("model", "cluster", "training")}
found = sweep(search | {"locked": {"pp": 4, "schedule": "eager-1f1b"}})
seconds = [points[name].step_time_s for name in ("eager-1f1b", "1f1b")]
memory = [points[name].memory.stages[0].peak_bytes for name in ("eager-1f1b", "1f1b")]
print(json.dumps([SCHEDULES, seconds, memory, found.best[0].scenario["plan"]["schedule"]]))
"""


def test_schedule(tmp_path: Path):
    copy_folders(tmp_path, "estimator")
    (tmp_path / "tests" / "properties").mkdir(parents=True)
    properties = tmp_path / "tests" / "properties" / "test_schedules.py"
    shutil.copy(ROOT / "tests" / "properties" / "test_schedules.py", properties)
    add(tmp_path / "estimator" / "scenario" / "plan.py", "\nSCHEDULES = (", block("text plan SCHEDULES").strip() + ", ")
    for path, registry in (("schedule/schedules.py", "FORMULAS"), ("schedule/simulation/orders.py", "SCHEDULES")):
        place = tmp_path / "estimator" / path
        title = f"{registry}: dict[str, {'Formulas' if registry == 'FORMULAS' else 'Schedule'}] = {{"
        line = "FORMULAS" if registry == "FORMULAS" else "orders SCHEDULES"
        add(place, title, block(f"text {line}").strip() + ", ")
        code = place.read_text(encoding="utf-8").replace(title, f"{block(f'python estimator/{path}')}\n\n{title}")
        place.write_text(code, encoding="utf-8")
    add(properties, "\nBOUNDS = {", block("text BOUNDS").strip() + ", ")
    schedules, seconds, memory, searched = json.loads(run_python(tmp_path, "-c", EAGER))
    assert schedules[0] == searched == "eager-1f1b"
    # Messages hide beside the work; what is ahead of its backward is held.
    assert seconds[0] < seconds[1]
    assert memory[0] > memory[1]
    passed = run_python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(properties))
    assert "passed" in passed
    assert "failed" not in passed
