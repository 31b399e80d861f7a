"""Recipes, followed to the letter: all are there; those of data: a GPU, cache levels, efficiencies, a model."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from estimator.cost import cache_roofline as caches
from estimator.estimate.cache_roofline_table import hierarchy
from estimator.estimate.estimate import estimate
from estimator.scenario import catalog
from estimator.scenario.parameters import parameters
from estimator.scenario.scenario import scenario_from_json
from tests.estimator.cost import test_cache_roofline
from tests.estimator.scenario import test_catalog
from tests.recipes.following import RECIPES, ROOT, SCENARIO, add, block, copy_folders, run_python, section


def test_there_is_a_recipe_for_each_kind_of_addition():
    titles = re.findall(r"^## Add (?:an? )?(.*)$", RECIPES.read_text(encoding="utf-8"), re.MULTILINE)
    assert titles == [
        "GPU", "cache levels to a chip", "efficiencies", "model", "precision", "framework", "parameter of the plan",
        "category", "ATen op", "collective", "schedule", "importer", "benchmark", "backend", "figure", "study",
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
    path.write_text(block("toml gpu"), encoding="utf-8")
    found = estimate(scenario_from_json(SCENARIO | {"cluster": {"chip": "NVIDIA L40S", "chips_per_node": 1}}))
    reference = estimate(scenario_from_json(SCENARIO))
    assert found.step_time_s > reference.step_time_s > 0
    assert found.memory.capacity_bytes == 46068 * 1024**2
    _passes_the_catalogue_tests(path)
    (entry,) = [entry for entry in catalog.entries("chips") if entry.key == "l40s"]
    test_catalog.test_peaks_rise_as_precision_falls_and_are_never_the_sparse_ones(entry)
    test_catalog.test_every_chip_names_links_that_exist_and_has_plausible_sizes(entry)


def test_cache_levels(catalogue: Path, monkeypatch: pytest.MonkeyPatch):
    (catalogue / "caches" / "v100-32gb.toml").write_text(block("toml caches"), encoding="utf-8")
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
    copy_folders(tmp_path, "estimator")
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO))
    estimator = tmp_path / "estimator"
    families = estimator / "catalog" / "efficiencies"
    (families / "ada-server.toml").write_text(block("toml efficiencies"), encoding="utf-8")
    add(families / "default.toml", "\n[ranges]\n", block("toml default efficiencies"))
    own = textwrap.indent(block("python efficiency Efficiencies"), "    ")
    add(estimator / "cost" / "efficiency.py", "    softmax_frac: float\n", own)
    add(estimator / "estimate" / "interval.py", '"memory": (', block("text INTERVAL_GROUPS").strip() + ", ")
    above = "    memory = chip.memory_bytes_per_s * efficiencies.memory_frac\n    again"
    price = estimator / "cost" / "price.py"
    code = price.read_text(encoding="utf-8")
    assert code.count(above) == 1
    first, last = above.rsplit("    ", 1)
    formula = first + textwrap.indent(block("python price"), "    ") + "    " + last
    price.write_text(code.replace(above, formula), encoding="utf-8")
    memory, share, shared, tiled, server, ada = json.loads(run_python(tmp_path, "-c", EFFICIENCIES))
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
    passed = run_python(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests), "-k", chosen)
    assert "passed" in passed
    assert "failed" not in passed


def test_model(catalogue: Path):
    path = catalogue / "models" / "mistral-7b.toml"
    path.write_text(block("toml model"), encoding="utf-8")
    promised = re.search(r"here ([\d ]+),", section("Add a model"))
    assert promised
    assert parameters(catalog.model("mistralai/Mistral-7B-v0.1")) == int(promised[1].replace(" ", ""))
    assert estimate(scenario_from_json(SCENARIO | {"model": "mistral-7b"})).step_time_s > 0
    _passes_the_catalogue_tests(path)


def _passes_the_catalogue_tests(path: Path) -> None:
    test_catalog.test_every_number_has_a_source(path)
    test_catalog.test_every_file_has_a_label_and_loads_under_its_name(path)
    test_catalog.test_names_and_aliases_are_unique_and_resolve(path.parent.name)
