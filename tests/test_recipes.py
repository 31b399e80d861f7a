"""The recipes of CONTRIBUTING.md, followed to the letter: what they say to write is written, and then it works."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Response, expect

from app.pages import BASIC_BUNDLE
from estimator.cost import cache_roofline as caches
from estimator.cost.collectives import TRAFFIC, Group, collective_s
from estimator.cost.efficiency import efficiencies
from estimator.estimate.cache_roofline_table import hierarchy
from estimator.estimate.estimate import estimate
from estimator.scenario import catalog
from estimator.scenario.parameters import parameters
from estimator.scenario.scenario import scenario_from_json
from tests.browser.server import Server
from tests.estimator.cost import test_cache_roofline
from tests.estimator.scenario import test_catalog
from tests.markdown import blocks

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "CONTRIBUTING.md"
SCENARIO = {
    "model": "gpt2",
    "cluster": {"chip": "a100-80gb-sxm", "chips_per_node": 1},
    "plan": {"micro_batch": 8},
    "training": {"seq_len": 1024, "global_batch": 8, "precision": "bf16"},
}


def _block(info: str) -> str:
    (found,) = blocks(RECIPES, info)
    return found.text


def _section(title: str) -> str:
    return RECIPES.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_there_is_a_recipe_for_each_kind_of_addition():
    titles = re.findall(r"^## Add (?:an? )?(.*)$", RECIPES.read_text(encoding="utf-8"), re.MULTILINE)
    assert titles == [
        "GPU", "cache levels to a chip", "efficiencies", "model", "precision", "framework", "parameter of the plan",
        "ATen op", "collective", "schedule", "importer", "benchmark", "backend", "figure", "study",
    ]  # fmt: skip


def test_every_path_in_the_recipes_exists():
    folders = "|".join(path.name for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith("."))
    named = re.findall(rf"`((?:{folders})/[^`]*)`", RECIPES.read_text(encoding="utf-8"))
    assert len(named) > 20
    missing = []
    for name in named:
        # a name in angle brackets is for the reader to choose; the folder that it goes to must be there
        place = ROOT / name if "<" not in name else (ROOT / name.split("<")[0].rsplit("/", 1)[0])
        if not place.exists():
            missing.append(name)
    assert not missing


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the catalogue that may be added to; the real one comes back afterwards."""
    copy = tmp_path / "catalog"
    shutil.copytree(catalog.ROOT, copy)

    def forget() -> None:
        catalog.entries.cache_clear()
        catalog._by_alias.cache_clear()

    monkeypatch.setattr(catalog, "ROOT", copy)
    forget()
    yield copy
    monkeypatch.undo()
    forget()


def test_gpu(catalogue: Path):
    path = catalogue / "chips" / "l40s.toml"
    path.write_text(_block("toml gpu"), encoding="utf-8")
    found = estimate(scenario_from_json(SCENARIO | {"cluster": {"chip": "NVIDIA L40S", "chips_per_node": 1}}))
    reference = estimate(scenario_from_json(SCENARIO))
    assert found.step_time_s > reference.step_time_s > 0
    assert found.memory.capacity_bytes == 46068 * 1024**2
    _passes_the_catalogue_tests(path)
    (entry,) = [entry for entry in catalog.entries("chips") if entry.key == "l40s"]
    test_catalog.test_peaks_rise_as_precision_falls_and_are_never_the_sparse_ones(entry)
    test_catalog.test_every_chip_names_links_that_exist_and_has_plausible_sizes(entry)


def test_cache_levels(catalogue: Path, monkeypatch: pytest.MonkeyPatch):
    (catalogue / "caches" / "v100-32gb.toml").write_text(_block("toml caches"), encoding="utf-8")
    monkeypatch.setattr(caches, "ROOT", catalogue)
    known = (caches._caches, caches.names, caches.levels)
    for function in known:
        function.cache_clear()
    try:
        test_cache_roofline.test_every_level_has_a_source_and_the_chip_is_in_the_catalogue("v100-32gb")
        test_cache_roofline.test_the_last_level_cache_is_the_catalogues("v100-32gb")
        for element_bytes in (2, 4):
            test_cache_roofline.test_outer_levels_are_larger_and_slower("v100-32gb", element_bytes)
        volta = {"cluster": {"chip": "v100-32gb"}, "plan": {"dp": 8}}
        training = SCENARIO["training"] | {"precision": "fp16-amp"}
        found = hierarchy(scenario_from_json(SCENARIO | volta | {"training": training}))
        assert [roof.name for roof in found.roofs] == ["memory", "L2", "shared memory", "registers"]
        assert {row.binds for row in found.rows} <= {"compute", *(roof.name for roof in found.roofs)}
    finally:
        monkeypatch.undo()
        for function in known:
            function.cache_clear()


EFFICIENCIES = """
import json
from dataclasses import replace
from estimator.cost.efficiency import efficiencies
from estimator.estimate.estimate import estimate
from estimator.scenario import catalog
from estimator.scenario.scenario import scenario_from_json

one = scenario_from_json(json.loads(open("scenario.json").read()))

def predicted(family):
    chip = replace(one.cluster.chip, efficiency=family)
    found = estimate(replace(one, cluster=replace(one.cluster, chip=chip)))
    return found.phases_s["optimizer"], found.step_time_s, found.interval_s

server, ada = efficiencies("ada-server"), efficiencies("ada")
print(json.dumps([server.memory_frac, server.optimizer_frac, server.attention_frac == ada.attention_frac,
                  server.gemm_matrix_tiles == ada.gemm_matrix_tiles, predicted("ada-server"), predicted("ada")]))
"""


def test_efficiencies(tmp_path: Path):
    _copy(tmp_path, "estimator")
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO))
    estimator = tmp_path / "estimator"
    families = estimator / "catalog" / "efficiencies"
    (families / "ada-server.toml").write_text(_block("toml efficiencies"), encoding="utf-8")
    _add(families / "default.toml", "\n[ranges]\n", _block("toml default efficiencies"))
    own = textwrap.indent(_block("python efficiency Efficiencies"), "    ")
    _add(estimator / "cost" / "efficiency.py", "    softmax_frac: float\n", own)
    _add(estimator / "estimate" / "interval.py", '"memory": (', _block("text INTERVAL_GROUPS").strip() + ", ")
    above = "    memory = chip.memory_bytes_per_s * efficiencies.memory_frac\n    again"
    price = estimator / "cost" / "price.py"
    code = price.read_text(encoding="utf-8")
    assert code.count(above) == 1
    first, last = above.rsplit("    ", 1)
    formula = first + textwrap.indent(_block("python price"), "    ") + "    " + last
    price.write_text(code.replace(above, formula), encoding="utf-8")
    memory, share, shared, tiled, server, ada = json.loads(_python(tmp_path, "-c", EFFICIENCIES))
    assert (memory, share, shared, tiled) == (0.85, 0.9, True, False)
    assert server[0] < ada[0]  # the optimizer streams, and Ada's memory reaches less
    one = scenario_from_json(SCENARIO)
    before = estimate(replace(one, cluster=replace(one.cluster, chip=replace(one.cluster.chip, efficiency="ada"))))
    assert ada[0] == pytest.approx(before.phases_s["optimizer"] / share, rel=0.02)
    assert server[2][0] < server[1] < server[2][1]
    tests = tmp_path / "tests" / "estimator"
    for name in ("examples.py", "cost/test_efficiency.py", "estimate/test_interval.py"):
        (tests / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "tests" / "estimator" / name, tests / name)
    chosen = "ada-server or default or exactly_one_group"
    passed = _python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), "-k", chosen)
    assert "passed" in passed
    assert "failed" not in passed


def test_model(catalogue: Path):
    path = catalogue / "models" / "mistral-7b.toml"
    path.write_text(_block("toml model"), encoding="utf-8")
    promised = re.search(r"here ([\d ]+),", _section("Add a model"))
    assert promised
    assert parameters(catalog.model("mistralai/Mistral-7B-v0.1")) == int(promised[1].replace(" ", ""))
    assert estimate(scenario_from_json(SCENARIO | {"model": "mistral-7b"})).step_time_s > 0
    _passes_the_catalogue_tests(path)


def _passes_the_catalogue_tests(path: Path) -> None:
    test_catalog.test_every_number_has_a_source(path)
    test_catalog.test_every_file_has_a_label_and_loads_under_its_name(path)
    test_catalog.test_names_and_aliases_are_unique_and_resolve(path.parent.name)


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
    _copy(tmp_path, "estimator", "runners")
    scenario = tmp_path / "estimator" / "scenario"
    fp8 = '    fp8_flops_per_s: float = spec(0.0, minimum=0, help="fp8 on the matrix units, dense")\n'
    _add(scenario / "hardware.py", fp8, textwrap.indent(_block("python hardware Chip"), "    "))
    _add(scenario / "hardware.py", '    "fp8": "fp8_flops_per_s",\n', _block("text PEAK_FIELD").strip() + ",\n")
    _add(scenario / "precision.py", "\nQUANTISED = {", _block("text QUANTISED").rstrip() + "\n")
    chip = tmp_path / "estimator" / "catalog" / "chips" / "b200.toml"
    _add(chip, "fp8_flops_per_s = 4.5e15\n", _block("toml peak"))
    _add(chip, "[sources]\n", _block("toml peak source"))
    found, offered, searched_s, products, refused, row = json.loads(_python(tmp_path, "-c", PRECISION))
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
    return {"model": "llama3.2-1b", "cluster": {"chip": "h200-sxm", "chips_per_node": 1}, "training": training}

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
    _copy(tmp_path, "estimator", "runners", "app")
    _add(
        tmp_path / "estimator" / "scenario" / "framework.py",
        "\nFRAMEWORKS = {",
        "\n" + _block("text FRAMEWORKS").rstrip() + ",",
    )
    found, points, searched_s, refused = json.loads(_python(tmp_path, "-c", FRAMEWORK))
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
        _python(tmp_path, "-c", "import json; from app.api.catalog import fields; print(json.dumps(fields()))")
    )
    assert "deepspeed" in listed["training.framework"]["choices"]
    assert listed["training.framework"]["labels"]["deepspeed"] == "DeepSpeed"
    tests = tmp_path / "tests" / "estimator"
    (tests / "scenario").mkdir(parents=True)
    for name in ("examples.py", "scenario/test_framework.py"):
        shutil.copy(ROOT / "tests" / "estimator" / name, tests / name)
    passed = _python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), "-k", "deepspeed or trait")
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
    _with_loss_chunks(tmp_path, "estimator", "runners", "app")
    plan = {"micro_batch": 8}
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO | {"plan": plan}))
    whole, pieces, points, locked, searched_bytes, refused = json.loads(_python(tmp_path, "-c", PARAMETER))
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
    estimated = json.loads(_python(tmp_path, *command))
    assert estimated["memory"]["by_kind"] == pytest.approx(pieces)
    assert estimated["memory"]["peak_bytes"] == pytest.approx(searched_bytes)


@pytest.mark.browser
def test_plan_parameter_on_the_page(tmp_path: Path, browser: BrowserContext):
    _with_loss_chunks(tmp_path, "estimator", "runners", "app", "static")
    server = Server(tmp_path / "data", root=tmp_path)
    try:
        page = browser.new_page()
        page.goto(server.url)
        with page.expect_response(lambda answer: _field(answer) == "plan.loss_chunks") as fetched:
            page.locator(".more summary").click()
        points = fetched.value.json()["points"]
        page.get_by_role("slider", name="Loss computed in").focus()
        page.keyboard.press("ArrowRight")
        page.wait_for_function("() => new URLSearchParams(location.search).get('loss_chunks') === '2'")
        expect(page.locator(".more .chosen")).to_contain_text("loss chunks 2")
        page.close()
    finally:
        server.stop()
    assert [point["value"] for point in points] == [1, 2, 4, 8, 16, 32, 64]
    logits = [point["estimate"]["memory"]["by_kind"]["logits"] for point in points]
    assert sorted(logits, reverse=True) == logits
    assert logits[0] > logits[-1]


def _field(answer: Response) -> object:
    """The field whose axis a response is of."""
    return (answer.request.post_data_json or {}).get("field") if answer.request.post_data else None


def _with_loss_chunks(place: Path, *folders: str) -> None:
    """Copy folders and follow the recipe for a parameter of the plan in them."""
    _copy(place, *folders)
    estimator = place / "estimator"
    last = (
        '    placement: str = spec("tp-cp-dp-pp", choices=PLACEMENTS, help="axes from neighbouring chips outwards")\n'
    )
    _add(estimator / "scenario" / "plan.py", last, textwrap.indent(_block("python plan"), "    "))
    sizes = estimator / "operations" / "rank_sizes.py"
    _add(sizes, "    recompute: str\n", textwrap.indent(_block("python rank_sizes RankSizes"), "    "))
    _add(
        sizes, "        recompute=plan.recompute,\n", "        " + _block("text rank_sizes rank_sizes").strip() + ",\n"
    )
    formula = textwrap.indent(_block("python activations"), "    ")
    activations = estimator / "memory" / "activations.py"
    _add(activations, "    count = d.tokens * d.vocab\n", formula)
    activations.write_text(activations.read_text().replace("    count = d.tokens * d.vocab\n", ""))
    axis = estimator / "search" / "axis.py"
    _add(axis, "\nAXIS_FIELDS = (", _block("text AXIS_FIELDS").strip() + ", ")
    _add(axis, "        return CHOICES[field]\n", textwrap.indent(_block("python axis values"), "    "))
    if "static" in folders:
        script = place / "static" / "js"
        _add(script / "views" / "explore" / "plan.js", "const folded = [", _block("text plan.js").strip() + ",")
        _add(script / "predict.js", "\nconst MORE = [", _block("text MORE").strip() + ",")


DISTANCES = """
import json
from estimator.operations.aten import is_known, kernels_of
from estimator.scenario.op_list import Operand, Signature
points = Operand(shape=(2, 100, 8), dtype="float32")
(kernel,) = kernels_of(Signature(op="aten::_cdist_forward", inputs=(points, points)))
print(json.dumps([is_known("aten::_cdist_forward"), kernel.strided_elements, kernel.bytes]))
"""


def test_aten_op(tmp_path: Path):
    _copy(tmp_path, "estimator")
    package = tmp_path / "estimator" / "operations" / "aten"
    reductions = package / "reductions.py"
    function = _block("python estimator/operations/aten/reductions.py")
    reductions.write_text(f"{reductions.read_text(encoding='utf-8')}\n\n{function}", encoding="utf-8")
    _add(package / "__init__.py", "TABLE: Mapping[str, Kernels] = {\n", f"    {_block('text TABLE').strip()},\n")
    known, elements, moved = json.loads(_python(tmp_path, "-c", DISTANCES))
    assert known
    assert elements == 2 * 100 * 100 * 8
    assert moved == 2 * 1600 * 4


def test_collective(monkeypatch: pytest.MonkeyPatch):
    ((kind, factor),) = json.loads("{" + _block("text TRAFFIC") + "}").items()
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
    _copy(tmp_path, "estimator")
    (tmp_path / "tests" / "properties").mkdir(parents=True)
    properties = tmp_path / "tests" / "properties" / "test_schedules.py"
    shutil.copy(ROOT / "tests" / "properties" / "test_schedules.py", properties)
    _add(
        tmp_path / "estimator" / "scenario" / "plan.py", "\nSCHEDULES = (", _block("text plan SCHEDULES").strip() + ", "
    )
    for path, registry in (("schedule/schedules.py", "FORMULAS"), ("schedule/simulation/orders.py", "SCHEDULES")):
        place = tmp_path / "estimator" / path
        title = f"{registry}: dict[str, {'Formulas' if registry == 'FORMULAS' else 'Schedule'}] = {{"
        line = "FORMULAS" if registry == "FORMULAS" else "orders SCHEDULES"
        _add(place, title, _block(f"text {line}").strip() + ", ")
        code = place.read_text(encoding="utf-8").replace(title, f"{_block(f'python estimator/{path}')}\n\n{title}")
        place.write_text(code, encoding="utf-8")
    _add(properties, "\nBOUNDS = {", _block("text BOUNDS").strip() + ", ")
    schedules, seconds, memory, searched = json.loads(_python(tmp_path, "-c", EAGER))
    assert schedules[0] == searched == "eager-1f1b"
    # Messages hide beside the work; what is ahead of its backward is held.
    assert seconds[0] < seconds[1]
    assert memory[0] > memory[1]
    passed = _python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(properties))
    assert "passed" in passed
    assert "failed" not in passed


READ_TWO = """
import json, sys
from pathlib import Path
from app.importers.sandbox import ImportRefused, import_sandboxed
whole, cut = map(Path, sys.argv[1:])
found = import_sandboxed(whole, "copies.json")
try:
    import_sandboxed(cut, "copies.json")
    refused = None
except ImportRefused as error:
    refused = [error.format, error.remedy]
(one,) = found.measurements
print(json.dumps([one.origin.format, one.rows, found.skipped, refused]))
"""


def test_importer(tmp_path: Path):
    _copy(tmp_path, "estimator", "app")
    (tmp_path / "app" / "importers" / "nvbandwidth.py").write_text(_block("python app/importers/nvbandwidth.py"))
    _add(
        tmp_path / "app" / "importers" / "__init__.py",
        "FORMATS: dict[str, str] = {",
        _block("text FORMATS").strip() + ", ",
    )
    (names,) = re.findall(r"^    names = list.*\n", (ROOT / "app/importers/sniff.py").read_text(), re.MULTILINE)
    _add(tmp_path / "app" / "importers" / "sniff.py", names, textwrap.indent(_block("python sniff"), "    "))
    cases = [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.63"]], "sum": 55.63},
        {"name": "device_to_device_memcpy_read_ce", "status": "Waived"},
    ]
    document = json.dumps({"nvbandwidth": {"CUDA Runtime Version": 12080, "testcases": cases}})
    (tmp_path / "whole").write_text(document)
    (tmp_path / "cut").write_text(document[:-10])
    format, rows, skipped, refused = json.loads(_python(tmp_path, "-c", READ_TWO, "whole", "cut"))
    assert format == "nvbandwidth"
    assert rows == [{"test": "host_to_device_memcpy_ce", "bytes_per_s": pytest.approx(55.63e9)}]
    assert skipped == 1
    assert refused == ["nvbandwidth", "Run nvbandwidth --json again."]


def test_benchmark(tmp_path: Path):
    _copy(tmp_path, "estimator", "runners")
    (tmp_path / "runners" / "benchmarks" / "sort.py").write_text(_block("python runners/benchmarks/sort.py"))
    registry = tmp_path / "runners" / "benchmarks" / "__init__.py"
    _add(registry, "MODULES = {", _block("text MODULES").strip() + ", ")
    _add(tmp_path / "runners" / "job.py", "BENCHMARKS = (", '"sort", ')
    job = tmp_path / "job"
    job.mkdir()
    (job / "job.json").write_text(json.dumps({"benchmark": "sort", "steps": 2, "label": "sorting"}))
    _python(tmp_path, "-m", "runners", "step", "--job", str(job))
    result = json.loads((job / "result.json").read_text())
    assert result["status"] == "ok"
    assert result["origin"]["format"] == "sort"
    assert [row["numbers"] for row in result["rows"]] == [2**power for power in range(10, 17)]
    assert all(row["seconds_s"] > 0 for row in result["rows"])
    events = [json.loads(line) for line in (job / "events.jsonl").read_text().splitlines()]
    assert [event["state"] for event in events if event["kind"] == "state"] == ["running", "ok"]
    _copy(tmp_path, "app")
    listed = "import app.api.benchmarks as api; print(api._described('sort')['options'])"
    assert _python(tmp_path, "-c", listed).strip() == "[]"


RUN_BOTH = """
import os, sys, time
from pathlib import Path
from runners.backends import backend
from runners.backends.processes import marked
from runners.job import Job, read_events, read_measurement, write_job
chosen = backend("niced")
assert chosen.missing() == []
folders = [Path(name).resolve() for name in sys.argv[1:]]
jobs = [Job(backend="niced", benchmark="precision", device="cpu"),
        Job(backend="niced", options={"models": ["tiny"], "seq_lens": [8]}, device="cpu", steps=100_000)]
for folder, job in zip(folders, jobs):
    folder.mkdir()
    write_job(folder, job)
    assert chosen.problems(job) == []
whole, endless = [chosen.submit(chosen.render(folder, job)) for folder, job in zip(folders, jobs)]
while not read_events(folders[1]) or not any(event.get("phase") == "build" for event in read_events(folders[1])):
    time.sleep(0.05)
print(sorted({os.getpriority(os.PRIO_PROCESS, pid) for pid in marked(str(folders[1]))}))
(folders[1] / "handle.json").unlink()
chosen.cancel(chosen.find(folders[1]))
while chosen.status(whole).alive:
    time.sleep(0.05)
print(chosen.status(whole).state, read_measurement(folders[0] / "result.json").status, chosen.status(endless).state)
print([pid for folder in folders for pid in marked(str(folder))])
"""


def test_backend(tmp_path: Path):
    _copy(tmp_path, "estimator", "runners")
    place = tmp_path / "runners" / "backends"
    (place / "niced.py").write_text(_block("python runners/backends/niced.py"))
    _add(place / "__init__.py", "BACKENDS = {", _block("text BACKENDS").strip() + ", ")
    said = _python(tmp_path, "-c", RUN_BOTH, "whole", "endless").splitlines()
    assert said == ["[19]", "ok ok cancelled", "[]"]
    form = tmp_path / "launchForm.js"
    shutil.copy(ROOT / "static" / "js" / "views" / "runs" / "launchForm.js", form)
    _add(form, "const BACKENDS = [", _block("text launchForm").strip() + ",")
    (pairs,) = re.findall(r"^const BACKENDS = (\[.*?\]),\n\];", form.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in json.loads(pairs + "]")] == ["niced", "local", "slurm"]


def test_study(tmp_path: Path):
    _copy(tmp_path, "estimator", "app")
    place = tmp_path / "estimator"
    (place / "studies" / "ring_all_reduce.py").write_text(_block("python estimator/studies/ring_all_reduce.py"))
    (place / "catalog" / "printed" / "ring-all-reduce.toml").write_text(_block("toml printed"))
    _add(place / "studies" / "__init__.py", "STUDIES: dict[str, str] = {", _block("text STUDIES").strip() + ", ")
    command = ["-c", "from app.cli import main; main()", "study", "ring-all-reduce", "--json"]
    found = json.loads(_python(tmp_path, *command))
    (figure,) = found["figures"]
    assert figure["value"] == pytest.approx(17.5)
    assert (figure["printed"], figure["agrees"]) == (17.5, True)
    (other,) = json.loads(_python(tmp_path, *command, "--set", "ranks=2"))["figures"]
    assert (other["value"], other["printed"]) == (pytest.approx(10), None)


def _copy(place: Path, *folders: str) -> None:
    for folder in folders:
        shutil.copytree(ROOT / folder, place / folder)  # with what is compiled, which holds as times are kept


def _add(path: Path, behind: str, text: str) -> None:
    before = path.read_text(encoding="utf-8")
    assert before.count(behind) == 1
    path.write_text(before.replace(behind, behind + text), encoding="utf-8")


def _python(place: Path, *arguments: str) -> str:
    """Run Python in a folder, where it finds the copies and not this checkout; return what it printed."""
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    environment["PYTHONPATH"] = str(place)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def page_folder(tmp_path: Path) -> Iterator[str]:
    """URL of a copy of the page's files, which may be added to."""
    copy = tmp_path / "static"
    shutil.copytree(ROOT / "static", copy)
    (copy / "blank.html").write_text(
        f"<!doctype html><title>figure</title><script src='{BASIC_BUNDLE.as_posix()}'></script><div id=at>"
    )
    handler = functools.partial(_Quiet, directory=str(copy))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


@pytest.mark.browser
def test_figure(page_folder: str, tmp_path: Path, browser: BrowserContext):
    (tmp_path / "static" / "js" / "figures" / "bandwidth.js").write_text(_block("js static/js/figures/bandwidth.js"))
    collectives = [
        {"kind": "all_reduce", "bytes": 2**power, "bus_bytes_per_s": 2e11 * 2**power / (2**power + 2**20)}
        for power in range(10, 28, 2)
    ]
    draw = textwrap.dedent("""
        async (collectives) => {
            const { bandwidth } = await import("/js/figures/bandwidth.js");
            const figure = bandwidth({ collectives, colour: (token) => ({ font: "sans-serif" })[token] ?? "#336699" });
            await Plotly.newPlot("at", figure.data, figure.layout);
            const points = document.querySelectorAll("#at .scatterlayer .point");
            return [figure.summary, figure.table.rows.length, points.length];
        }
    """)
    page = browser.new_page()
    page.goto(f"{page_folder}/blank.html")
    summary, rows, points = page.evaluate(draw, collectives)
    page.close()
    assert summary == "Bus bandwidth of 9 collectives, at best 197 GB/s."
    assert rows == points == len(collectives)
