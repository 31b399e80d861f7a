"""Names of categories, phases and kinds of memory have one home; no code elsewhere, nor the page, spells them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from estimator.scenario.breakdown import (
    BETWEEN_PASSES,
    CATEGORIES,
    MEMORY_KINDS,
    PHASES,
    SHOWN_CATEGORIES,
    SHOWN_MEMORY_KINDS,
    SHOWN_PASSES,
    SHOWN_PHASES,
    WAITING,
)
from tests.app.importers.kineto.made import trace
from tests.javascript import call_each
from tests.runners.examples import scenario_json

ROOT = Path(__file__).parent.parent
HOME = Path("estimator/scenario/breakdown.py")
FOLDERS = ("estimator", "app", "runners")
NAMES = {*CATEGORIES, *PHASES, *MEMORY_KINDS}

SHARED = {
    "attention",  # a network, a training's implementation, a kind of op, what messages hide behind, a benchmark
    "communication",  # columns, an interval's efficiencies
    "host",
    "other",
    "optimizer",  # a training's field, what is offloaded, an op's layer
    "framework",
    "parameters",  # how many a model has
    "gradients",  # what has a precision
    "activations",  # what is offloaded
    "logits",  # a layer
    "forward",  # a pass, of ops, messages and columns
    "backward",
}
"""Words of other things too: they are looked for where an entry must be meant. The others stand at home alone."""

LADDERS = {
    "estimator/calibration/points.py", "runners/options.py", "runners/probes/__init__.py", "runners/probes/streams.py",
    "runners/rates.py",
}  # fmt: skip
"""Where ``elementwise`` is a ladder of probes."""

TORCH_OPS = {"estimator/operations/aten/__init__.py", "runners/program/autocast.py"}
"""Where ``matmul`` is torch's op."""

OWN = "|".join(sorted(NAMES - SHARED))
ANY = "|".join(sorted(NAMES))
PYTHON = re.compile(
    rf"""["'](?P<own>{OWN})["']"""
    rf"""|\bcategory(?:_of\(.*?\))?(?:: str)? ?(?:=|==|!=|in) ?\(?["'](?P<category>{ANY})["']"""
    rf"""|\b(?:by_kind|breakdown|breakdown_s|phases_s|CODE|PHASE)(?:\[|\.get\()["'](?P<key>{ANY})["']"""
    rf"""|\bbusy_s\(["'](?P<busy>{ANY})["']"""
)
JAVASCRIPT = re.compile(
    rf"""["'`.](?:{OWN})\b"""
    r"|(?:breakdown_s|phases_s|by_kind)(?:\?\.|\.|\[[\"'])\w"  # the catalogue says which entries there are
    r"|\bcategory\s*[!=]==?\s*[\"']"
)


def _sources(*endings: str) -> Iterator[tuple[str, str]]:
    for folder in (*FOLDERS, "static"):
        for path in sorted((ROOT / folder).rglob("*")):
            where = path.relative_to(ROOT)
            if path.suffix in endings and where != HOME:
                yield str(where), path.read_text()


def test_python_spells_no_name_away_from_its_home():
    found = {(where, one[one.lastgroup]) for where, text in _sources(".py") for one in PYTHON.finditer(text)}
    assert found == {(where, "elementwise") for where in LADDERS} | {(where, "matmul") for where in TORCH_OPS}


@pytest.mark.parametrize(
    "line",
    [
        'kernels(category="attention")',
        'def kernels(*, category: str = "attention"): ...',
        'if op.category == "optimizer": ...',
        'category_of(name) in ("host", "other")',
        'breakdown_s["communication"]',
        'measured.memory.by_kind.get("optimizer", 0.0)',
        'PHASE["forward"]',
        'WORK = ("matmul",)',
    ],
)
def test_a_name_that_is_spelled_in_python_is_found(line: str):
    assert PYTHON.search(line)


def test_the_page_spells_no_name():
    found = [(where, one[0]) for where, text in _sources(".js", ".html") for one in JAVASCRIPT.finditer(text)]
    assert not found


@pytest.mark.parametrize("line", ['["matmul"]', "now.breakdown_s.communication", 'one.category === "host"'])
def test_a_name_that_is_spelled_on_the_page_is_found(line: str):
    assert JAVASCRIPT.search(line)


def test_every_token_that_is_used_stands_in_both_themes():
    themes = [
        set(re.findall(r"^  --([\w-]+):", block, re.MULTILINE))
        for block in (ROOT / "static/css/tokens.css").read_text().split(":root")[1:]
    ]
    light, dark = themes
    for names in (SHOWN_CATEGORIES, SHOWN_PHASES, SHOWN_PASSES, SHOWN_MEMORY_KINDS):
        hues = {f"hue-{one.hue}" for one in names.values()}
        assert hues <= light & dark
        assert len(hues) == len({one.label for one in names.values()}) == len(names)
    used = r"""var\(--([\w-]+)\)|colour\("([\w-]+)"\)|"(hue-[\w-]+)\""""
    found = {"".join(token) for _, text in _sources(".js", ".css") for token in re.findall(used, text)}
    set_in_place = {name for _, text in _sources(".css", ".js") for name in re.findall(r"--([\w-]+)\"?[:,]", text)}
    assert found <= set_in_place
    assert {name for name in found if name.startswith("hue-")} <= light & dark


LEAST_LIGHTNESS = 7.5
"""Of L* in CIELAB: three times what is just seen side by side."""


def _lightness(colour: str) -> float:
    channels = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in channels]
    return 116 * sum(part * one for part, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) ** (1 / 3) - 16


def test_neighbours_of_a_stack_differ_without_colour_too():
    tokens = (ROOT / "static/css/tokens.css").read_text()
    found = re.findall(r"--hue-(\w+): (#[0-9a-f]{6})", tokens)
    themes = [dict(found[: len(found) // 2]), dict(found[len(found) // 2 :])]
    for theme in themes:
        for names in (SHOWN_CATEGORIES, SHOWN_PHASES, SHOWN_PASSES, SHOWN_MEMORY_KINDS):
            hues = [one.hue for one in names.values()]
            without_bubble = [hue for hue in hues if hue != "rose"]  # most steps have none
            for first, second in {*pairwise(hues), *pairwise(without_bubble)}:
                lightness = abs(_lightness(theme[first]) - _lightness(theme[second]))
                assert lightness > LEAST_LIGHTNESS, (first, second)


LEAST_APART = 0.06
"""Of Oklab (Ottosson 2020), three times what is just seen side by side."""


def _oklab(colour: str) -> np.ndarray:
    channels = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    cones = np.array([[0.4122, 0.5363, 0.0514], [0.2119, 0.6807, 0.1074], [0.0883, 0.2817, 0.6300]]) @ linear
    mixed = [[0.2105, 0.7936, -0.0041], [1.9780, -2.4286, 0.4506], [0.0259, 0.7828, -0.8087]]
    return np.array(mixed) @ np.cbrt(cones)


def test_what_one_figure_shows_is_told_apart_by_colour():
    tokens = (ROOT / "static/css/tokens.css").read_text()
    found = re.findall(r"--hue-(\w+): (#[0-9a-f]{6})", tokens)
    # the timeline has categories, phases and passes of a pipeline
    timeline = SHOWN_CATEGORIES | SHOWN_PHASES | SHOWN_PASSES
    works = {one.hue for name, one in SHOWN_CATEGORIES.items() if name not in WAITING}
    passes = {one.hue for name, one in SHOWN_PASSES.items() if name not in BETWEEN_PASSES}
    assert passes & works == set(), "a pass holds many categories"
    for theme in (dict(found[: len(found) // 2]), dict(found[len(found) // 2 :])):
        for names in (timeline, SHOWN_MEMORY_KINDS):
            for first, second in combinations(sorted({one.hue for one in names.values()}), 2):
                apart = np.linalg.norm(_oklab(theme[first]) - _oklab(theme[second]))
                assert apart > LEAST_APART, (first, second)


SCENARIO = scenario_json(
    2, model={"layers": 4}, cluster={"chips_per_node": 4}, plan={"tp": 2}, training={"global_batch": 8}
)
CATALOGUE = """
import sys
from pathlib import Path
from fastapi.testclient import TestClient
from app.main import create_app
from app.settings import Settings
place = Path(sys.argv[1])
settings = Settings(data=place / "data", samples=place, probe_cpu=False)
with TestClient(create_app(settings), base_url="http://127.0.0.1") as client:
    print(client.get("/api/catalog").text)
"""
COMMAND = "import sys; from app.cli import main; sys.exit(main())"


def _run(tree: Path, *command: str) -> Any:
    """Run Python in a copy of the project; its JSON."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        (sys.executable, *command), cwd=tree, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if done.stdout else None


@pytest.fixture(scope="module")
def renamed(tmp_path_factory) -> tuple[Path, dict[str, dict[str, str]]]:
    """A copy of the project with every name changed in the one file, and the new names by class and old name."""
    tree = tmp_path_factory.mktemp("renamed") / "project"
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__", "samples"))
    (tree / "static").symlink_to(ROOT / "static")
    lines: list[str] = []
    names: dict[str, dict[str, str]] = {}
    inside = ""
    for line in (tree / HOME).read_text().splitlines():
        if begun := re.match(r"class (Category|Phase|MemoryKind):", line):
            inside = begun[1]
        elif inside and (one := re.fullmatch(r'    [A-Z_]+ = "(\w+)"', line)):
            new = names.setdefault(inside, {})[one[1]] = f"{inside.lower()}_{one[1]}"
            line = line.replace(f'"{one[1]}"', f'"{new}"')
        lines.append(line)
    (tree / HOME).write_text("\n".join(lines))
    assert [tuple(names[one]) for one in ("Category", "Phase", "MemoryKind")] == [CATEGORIES, PHASES, MEMORY_KINDS]
    return tree, names


def _with(value: Any, names: dict[str, dict[str, str]], key: str = "", listed: bool = False) -> Any:
    """A result as it must be under new names; a profile's ops (``listed``) have phases where others have passes."""
    kinds = {"phases_s": "Phase", "host_wait_by_phase_s": "Phase", "breakdown_s": "Category", "by_kind": "MemoryKind",
             "phases": "Phase", "categories": "Category"}  # fmt: skip
    listed = listed or key == "expected"
    if key in ("category", "binds"):
        return names["Category"][value]
    if key == "phase" and listed:
        return names["Phase"][value]
    if isinstance(value, list) and key in ("kind", "phase"):  # columns of a timeline
        return [names[key.replace("kind", "category").capitalize()].get(one, one) for one in value]
    if isinstance(value, dict):
        new = names[kinds[key]] if key in kinds else {}
        return {new.get(name, name): _with(one, names, name, listed) for name, one in value.items()}
    return [_with(one, names, "", listed) for one in value] if isinstance(value, list) else value


def test_predictions_and_imports_follow_a_name_that_is_changed_at_home(renamed, tmp_path):
    tree, names = renamed
    (tmp_path / "scenario.json").write_text(json.dumps(SCENARIO))
    (tmp_path / "trace.json").write_text(json.dumps(trace()))
    for verb, file in (("estimate", "scenario.json"), ("import", "trace.json")):
        before, after = (_run(place, "-c", COMMAND, verb, str(tmp_path / file), "--json") for place in (ROOT, tree))
        assert after == _with(before, names) != before


def test_a_measured_step_follows(renamed, tmp_path):
    tree, names = renamed
    (tmp_path / "scenario.json").write_text(json.dumps(scenario_json()))
    out = tmp_path / "result.json"
    options = ("--device", "cpu", "--warmup", "1", "--steps", "2")
    _run(tree, "-m", "runners", "step", "--scenario", str(tmp_path / "scenario.json"), "--out", str(out), *options)
    found = json.loads(out.read_text())
    assert list(found["phases_s"]) == list(names["Phase"].values())
    assert list(found["breakdown_s"]) == list(names["Category"].values())
    category = names["Category"]
    worked = {name for name, seconds in found["breakdown_s"].items() if seconds > 0}
    assert worked >= {category[name] for name in ("matmul", "attention", "elementwise", "optimizer")}
    assert {kernel["category"] for kernel in found["kernels"]} <= set(category.values())
    held = {name for name, size in found["memory"]["by_kind"].items() if size > 0}
    assert held >= {names["MemoryKind"][name] for name in ("parameters", "gradients", "optimizer", "activations")}
    assert held <= set(names["MemoryKind"].values())


def test_catalogue_and_figures_follow(renamed, tmp_path):
    tree, names = renamed
    catalogue = _run(tree, "-c", CATALOGUE, str(tmp_path))
    for key, kind, shown in (
        ("categories", "Category", SHOWN_CATEGORIES),
        ("phases", "Phase", SHOWN_PHASES),
        ("memory_kinds", "MemoryKind", SHOWN_MEMORY_KINDS),
    ):
        expected = [{"key": names[kind][name], "label": one.label, "hue": one.hue} for name, one in shown.items()]
        assert [{name: one[name] for name in ("key", "label", "hue")} for one in catalogue[key]] == expected
        tokens = call_each("figures/base", "tokenOfKey", [[catalogue[key], new] for new in names[kind].values()])
        assert tokens == [f"hue-{one.hue}" for one in shown.values()]
    assert call_each("figures/base", "tokenOfKey", [[catalogue["categories"], "matmul"]]) == ["hue-grey"]
    seconds = {names["Category"]["elementwise"]: 0.25}
    rows = call_each(
        "figures/stepTime",
        "errorRows",
        [[{"predicted": seconds, "measured": None, "names": catalogue["categories"]}]],
    )
    assert rows == [[{"label": "elementwise", "token": "hue-teal", "predicted": 0.25, "measured": None}]]
