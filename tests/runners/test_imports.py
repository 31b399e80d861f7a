"""What the runners import: the standard library, torch and the estimator's nouns, and torch only when they run."""

from __future__ import annotations

import ast
import subprocess
import sys

from tests.runners.examples import ROOT

LIGHT = [
    "__main__",
    "backends",
    "backends.local",
    "backends.slurm",
    "benchmarks",
    "job",
    "trace.kernel_category",
    "trace.reduced",
    "worker",
]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            module = node.module or ""
            yield from (f"estimator.{name.name}" for name in node.names) if module == "estimator" else (module,)


def test_runners_import_nothing_that_a_bare_gpu_host_lacks():
    files = sorted((ROOT / "runners").rglob("*.py"))
    assert len(files) > 10
    for path in files:
        for name in imported(path):
            top = name.partition(".")[0]
            allowed = (
                top in sys.stdlib_module_names or top in ("torch", "runners") or name.startswith("estimator.scenario")
            )
            # torch for GPUs brings Triton; only this package needs it, and only where there is a GPU
            allowed |= top == "triton" and path.parent.name == "flash"
            assert allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_what_the_server_uses_of_the_runners_does_not_load_torch_or_numpy():
    code = "; ".join(f"import runners.{name}" for name in LIGHT) + "; import sys; print(sorted(sys.modules))"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    modules = set(ast.literal_eval(done.stdout))
    assert not {"torch", "numpy"} & modules
