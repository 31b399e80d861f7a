"""Set-up: what README, Makefile, requirements.txt, Dockerfile and .ci/run promise, checked against one another."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from estimator.scenario.codec import decode
from estimator.scenario.scenario import scenario_from_json
from estimator.search.sweep import sweep
from runners.job import Job
from tests import chromium
from tests.markdown import blocks

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _make(*arguments: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("TORCH", "EXTRAS", "PYTHON", "ARGS")}
    clean = {key: value for key, value in clean.items() if not key.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *arguments], cwd=folder, env=clean | environment, capture_output=True, text=True, check=False
    )


def test_pages_with_commands_say_where_the_command_is():
    pages = [
        page
        for page in (ROOT / "docs").glob("*.md")
        if re.search(r"^headroom |`headroom [a-z]", page.read_text(), re.M)
    ]
    assert len(pages) > 5
    silent = [page.name for page in pages if "`.venv/bin/headroom`" not in page.read_text().split("\n\n", 2)[1]]
    assert silent == []
    assert "`headroom` is `.venv/bin/headroom`" in (ROOT / "README.md").read_text()


def _pins() -> dict[str, str]:
    """Every pin, those of the CUDA build included, by canonical name."""
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    lines = [line.removeprefix("#+ ") for line in lines]
    found = [line.split("==") for line in lines if line and not line.startswith("#")]
    assert all(len(pin) == 2 for pin in found), "only exact pins"
    names = [canonicalize_name(name) for name, _ in found]
    assert len(names) == len(set(names)), "a name is pinned twice"
    return {canonicalize_name(name): version for name, version in found}


def _needed() -> dict[str, str]:
    """Every installed distribution that the project needs here, tests included, with its version."""
    found: dict[tuple[str, frozenset[str]], str] = {}

    def visit(requirement: Requirement) -> None:
        name = canonicalize_name(requirement.name)
        key = (name, frozenset(requirement.extras))
        if key in found:
            return
        distribution = metadata.distribution(name)
        found[key] = distribution.version
        for text in distribution.requires or []:
            inner = Requirement(text)
            extras = ("", *requirement.extras)
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                visit(inner)

    for text in (
        *PROJECT["dependencies"],
        *(one for extra in PROJECT["optional-dependencies"].values() for one in extra),
    ):
        visit(Requirement(text))
    return {name: version for (name, _), version in found.items()}


def test_readme_opens_with_the_two_commands():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert lines[:3] == ["# Headroom", "", "```sh"]
    assert [line.split("#")[0].strip() for line in lines[3:5]] == ["make run", "make test"]


def test_scenario_search_and_job_in_the_readme_are_what_they_say():
    scenario, search, job = (block.json() for block in blocks(ROOT / "README.md", "json"))
    assert scenario_from_json(scenario).model.name == "llama3-8b"
    assert set(search) == {"model", "cluster", "training", "limits", "objective", "locked"}
    found = sweep(search)
    assert found.plans_fitting > 0
    assert {one.scenario["plan"]["pp"] for one in found.best} == {1}
    assert decode(Job, job).scenario["cluster"] == {"chip": "cpu"}


def test_every_installed_dependency_is_pinned_to_its_version():
    pins = _pins()
    differing = {
        name: (version, pins.get(name))
        for name, version in _needed().items()
        if pins.get(name) != version.split("+")[0] and name != "torch"
    }
    assert not differing, "installed and pinned versions; set up again, or correct requirements.txt"


def test_every_pin_is_needed():
    cuda = {"triton"} | {name for name in _pins() if name.startswith(("cuda-", "nvidia-"))}
    assert set(_pins()) - cuda <= set(_needed())


def test_torch_is_pinned_to_the_makefiles_default():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (default,) = re.findall(r"^TORCH_PIN := torch==(\S+)$", makefile, re.MULTILINE)
    assert _pins()["torch"] == default


def test_help_lists_every_target_that_people_call():
    phony = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert phony
    shown = re.findall(r"^  make ([a-z-]+) {2,}\S", _make("help").stdout, re.MULTILINE)
    assert set(phony[1].split()) == set(shown)


def test_make_test_runs_every_check_and_ci_calls_it():
    steps = _make("--dry-run", "--always-make", "test").stdout
    python = ("ruff format --check .", "ruff check .", "bin/mypy", "bin/lint-imports", "bin/deptry", "-m pytest")
    for step in (*python, "prettier.cjs --log-level warn --check", "eslint.js static/js", "tsc -p jsconfig.json"):
        assert step in steps
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "set -euo pipefail" in script
    assert script.rstrip().endswith("make test")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout whose set-up was done a while ago."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml", "package.json", "package-lock.json"):
        shutil.copy(ROOT / name, tmp_path)
        os.utime(tmp_path / name, (1e9, 1e9))
    stamps = re.findall(r"touch (\S*ready-\S+)", _make("--dry-run", "--always-make", "setup-test").stdout)
    assert len(stamps) == 3
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "node_modules").mkdir()
    for done in (".venv/bin/python", *stamps):
        (tmp_path / done).touch()
        os.utime(tmp_path / done, (1.1e9, 1.1e9))
    return tmp_path


def test_a_second_start_sets_nothing_up(checkout: Path):
    assert _make("--question", "setup-test", folder=checkout).returncode == 0
    steps = _make("--dry-run", "run", "ARGS=--port 8001", folder=checkout).stdout
    assert steps.split() == ["exec", ".venv/bin/headroom", "serve", "--port", "8001"]
    where = _make("--dry-run", "run", "PORT=8123", "HOST=0.0.0.0", "ARGS=--data DIR", folder=checkout).stdout
    assert where.split()[3:] == ["--host", "0.0.0.0", "--port", "8123", "--data", "DIR"]
    of_a_shell = _make("--dry-run", "run", folder=checkout, HOST="node7", PORT="5432").stdout
    assert of_a_shell.split() == ["exec", ".venv/bin/headroom", "serve"]


@pytest.mark.parametrize("changed", ["requirements.txt", "pyproject.toml"])
def test_a_change_of_the_dependencies_sets_up_again(checkout: Path, changed: str):
    (checkout / changed).touch()
    assert "pip" in _make("--dry-run", "run", folder=checkout).stdout


def test_the_set_up_to_run_needs_no_node():
    assert "npm" in _make("--dry-run", "--always-make", "setup-test").stdout
    steps = _make("--dry-run", "--always-make", "setup").stdout
    assert "pip" in steps
    assert "npm" not in steps
    assert "node" not in steps


def test_a_change_of_the_tools_for_javascript_installs_only_these_again(checkout: Path):
    (checkout / "package.json").touch()
    steps = _make("--dry-run", "setup-test", folder=checkout).stdout.splitlines()
    assert [step for step in steps if "install" in step or "npm" in step] == [".venv/bin/npm ci"]


def test_the_tools_for_javascript_are_pinned_and_locked_to_no_host_but_the_registry():
    package, lock = (json.loads((ROOT / name).read_text("utf-8")) for name in ("package.json", "package-lock.json"))
    pins = package["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pins.values())
    assert "dependencies" not in package
    for path, entry in lock["packages"].items():
        if path:
            assert entry["integrity"].startswith("sha512-")
            assert entry.get("resolved", "https://registry.npmjs.org/").startswith("https://registry.npmjs.org/")
    assert {name: lock["packages"][f"node_modules/{name}"]["version"] for name in pins} == pins


def test_another_torch_sets_up_again_without_the_pins_of_the_default_one(checkout: Path):
    torch = "torch>=2.9,<3"
    steps = _make("--dry-run", "run", f"TORCH={torch}", folder=checkout).stdout.splitlines()
    (constraints,) = [line for line in steps if line.startswith("sed ")]
    (install,) = [line for line in steps if "pip" in line and torch in line]
    assert torch in shlex.split(install)
    left = subprocess.run(
        shlex.split(constraints.split(">")[0]), cwd=checkout, capture_output=True, text=True, check=True
    )
    assert "numpy==" in left.stdout
    assert "torch==" not in left.stdout
    assert "sympy==" not in left.stdout
    assert "pytest==" in left.stdout


def test_extras_are_installed_on_request_and_set_up_again(checkout: Path):
    steps = _make("--dry-run", "run", "EXTRAS=postgres,tables", folder=checkout).stdout
    assert "-e '.[postgres,tables]'" in steps
    assert "-e '.'" in _make("--dry-run", "--always-make", "setup", folder=checkout).stdout
    every = _make("--dry-run", "--always-make", "setup-test", folder=checkout).stdout
    assert f"-e '.[{','.join(sorted(PROJECT['optional-dependencies']))}]'" in every


def test_a_python_that_does_not_do_is_an_error_that_says_what_to_do(tmp_path: Path):
    for name in ("Makefile", "requirements.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    done = _make("setup", "PYTHON=/nowhere/python3", folder=tmp_path)
    assert done.returncode != 0
    assert "No Python 3.11 or newer was found" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_browser_that_does_not_run_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CHROMIUM", "/nowhere/chromium")
    with pytest.raises(FileNotFoundError, match="Correct it or unset it"):
        chromium.find()


def test_the_browser_that_is_found_runs(chromium_path: str):
    version = subprocess.run([chromium_path, "--version"], capture_output=True, text=True, check=True).stdout
    assert re.search(r"Chrom\w+ \d+", version)


def _dockerfile() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(word, rest.strip()) for word, _, rest in (line.strip().partition(" ") for line in lines)]


def test_every_run_line_of_the_image_is_one_that_make_run_also_runs():
    runs = [rest for word, rest in _dockerfile() if word == "RUN"]
    assert runs
    for run in runs:
        command, *targets = shlex.split(run)
        assert command == "make"
        assert targets
        for target in targets:
            assert _make("--dry-run", "--always-make", target).returncode == 0
            assert target in {"run", *_prerequisites("run")}


def _prerequisites(target: str) -> list[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (line,) = re.findall(rf"^{target}:([^#\n]*)", makefile, re.MULTILINE)
    return line.split()


def test_the_image_is_built_in_stages_and_runs_as_nobody_in_particular():
    lines = _dockerfile()
    words = [word for word, _ in lines]
    final = lines[max(index for index, word in enumerate(words) if word == "FROM") :]
    assert words.count("FROM") == 2
    assert [rest.split(":")[0] for word, rest in final if word == "USER"] == ["10001"]
    settings = dict(final)
    assert "/api/health" in settings["HEALTHCHECK"]
    assert settings["EXPOSE"] == "8000"
    assert settings["VOLUME"] == "/data"
    assert "HEADROOM_DATA=/data" in settings["ENV"]
    assert settings["CMD"] == '["headroom", "serve"]'
    arguments = [rest.split("=")[0] for word, rest in lines if word == "ARG"]
    assert {"BASE", "RUNTIME", "TORCH", "EXTRAS"} <= set(arguments)


def test_everything_that_the_image_copies_is_there_and_not_ignored():
    allowed = {
        line[1:] for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] == "!"
    }
    for word, rest in _dockerfile():
        if word == "COPY" and not rest.startswith("--from"):
            *sources, _ = rest.split()
            for source in sources:
                assert (ROOT / source).exists()
                assert source in allowed


def test_make_docker_builds_with_a_cuda_base_on_request():
    assert shlex.split(_make("--dry-run", "docker").stdout) == ["docker", "build", "-t", "headroom", "."]
    command = shlex.split(_make("--dry-run", "docker", "CUDA_BASE=example/cuda:13").stdout)
    assert {"BASE=example/cuda:13", "RUNTIME=example/cuda:13"} <= set(command)


def test_the_licence_is_whole_and_named():
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.split()[:4] == ["Apache", "License", "Version", "2.0,"]
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["license"] == "Apache-2.0"


def test_the_changelog_knows_the_version():
    assert f"## [{PROJECT['version']}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
