"""The checks of JavaScript: they pass on the page as it is, and fail on what they are there to find."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.javascript import NODE
from tests.recipes.following import with_bandwidth

ROOT = Path(__file__).parent.parent
CHECKS = {"prettier": "lint", "eslint": "lint", "tsc": "types"}
"""The target of make to which each check belongs."""


@pytest.fixture(scope="module")
def commands() -> dict[str, list[str]]:
    """Each check as make calls it, by its tool."""
    command = ["make", "--dry-run", "lint", "types"]
    steps = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    found = {}
    for tool in CHECKS:
        ((_, *arguments),) = [shlex.split(step) for step in steps if re.search(rf"node node_modules/\S*/{tool}", step)]
        found[tool] = [str(NODE), *arguments]
    return found


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A copy of what is checked and the recipe's figure in it, in which nothing is wrong, with the tools beside it."""
    shutil.copytree(ROOT / "static", tmp_path / "static")
    with_bandwidth(tmp_path)
    (tmp_path / "tests/browser").mkdir(parents=True)
    for name in ("tests/browser/firefox.mjs", "package.json", "jsconfig.json", "eslint.config.js"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    return tmp_path


def _run(command: list[str], folder: Path) -> tuple[int, str]:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


TYPE_ERRORS = {
    "argument": ('import { seconds } from "../format.js";\nexport const text = seconds("1");\n', "TS2345"),
    "absent-field": (
        '/** @param {import("../types.js").Estimate} estimate */\nexport const text = (estimate) => estimate.step_s;\n',
        "TS2339",
    ),
    "maybe-null": (
        '/** @param {import("../types.js").Estimate | null} one */\nexport const time = (one) => one.step_time_s;\n',
        "TS18047",
    ),
    "untyped": ("export const twice = (value) => 2 * value;\n", "TS7006"),
    "absent-import": ('import { minutes } from "../format.js";\nexport { minutes };\n', "TS2305"),
}


def test_errors_of_types_are_found_and_no_others(page: Path, commands: dict[str, list[str]]):
    for name, (text, _) in TYPE_ERRORS.items():
        (page / f"static/js/figures/{name}.js").write_text(text)
    returned, said = _run(commands["tsc"], page)
    assert returned != 0
    found = re.findall(r"^(\S+)\.js\(\d+,\d+\): error (TS\d+)", said, re.MULTILINE)
    assert sorted(found) == sorted((f"static/js/figures/{name}", code) for name, (_, code) in TYPE_ERRORS.items())


LINT_ERRORS = {
    "views/common/unused.js": ("const unused = 1;\n", "no-unused-vars"),
    "views/common/undefined.js": ("export const text = nowhere;\n", "no-undef"),
    "views/common/markup.js": (
        '/** @param {HTMLElement} at */\nexport const wrong = (at) => (at.innerHTML = "<b>");\n',
        "no-restricted-properties",
    ),
    "figures/document.js": ("export const width = () => document.body.offsetWidth;\n", "no-undef"),
    "figures/state.js": (
        'import { state } from "../state.js";\n\nexport const view = () => state.view;\n',
        "no-restricted-imports",
    ),
}


def test_errors_of_lint_are_found_and_no_others_and_figures_know_neither_page_nor_state(
    page: Path, commands: dict[str, list[str]]
):
    for name, (text, _) in LINT_ERRORS.items():
        (page / "static/js" / name).write_text(text)
    returned, said = _run(commands["eslint"], page)
    assert returned != 0
    found = re.findall(rf"^{page}/static/js/(\S+)\n.* error .* {{2,}}(\S+)$", said, re.MULTILINE)
    assert sorted(found) == sorted((name, rule) for name, (_, rule) in LINT_ERRORS.items())
    assert len(re.findall(r"^  +\d+:\d+ ", said, re.MULTILINE)) == len(LINT_ERRORS)


def test_other_forms_are_found_and_no_others(page: Path, commands: dict[str, list[str]]):
    wrong = {"static/js/wrong.js": "export const a = 'b'\n", "static/css/wrong.css": "a {b:c}\n"}
    for name, text in wrong.items():
        (page / name).write_text(text)
    returned, said = _run(commands["prettier"], page)
    assert returned != 0
    assert re.findall(r"static/\S+", said) == list(wrong)
