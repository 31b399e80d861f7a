"""Formats: those that are read, those of docs/importing.md, and files that their own tools wrote, are the same."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import tarfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from app.importers import FORMATS, import_file
from app.importers.imported import DEFAULT_LIMITS
from app.importers.sniff import sniff
from app.importers.source import Source
from app.importers.text import KINDS, WHOLE
from app.importers.text.trainers import COLUMNS, LOOP, TRAINERS
from tests.app.importers.reading import REFERENCE

PAGE = Path(__file__).parents[3] / "docs" / "importing.md"
READERS = (
    (FORMATS.keys() - {"text"})
    | {f"text/{kind.KIND}" for kind in (*KINDS, *WHOLE) if hasattr(kind, "KIND")}
    | {f"log/{name}" for name in (*TRAINERS, COLUMNS, LOOP)}
)
STEPS, FLASH = "cs336_steps/report.txt", "flash_attention/report.txt"
FILES = {
    "archive": "kineto/h200_ddp.json.gz",
    "chakra": "tools/execution_trace.json.gz",
    "flop-counter": "tools/flop_counter.txt",
    "kineto": "kineto/h200_ddp.json.gz",
    "log/Lightning": "tools/lightning.txt",
    "log/Transformers": "tools/trainer.log",
    "log/loop": "tools/imagenet.log",
    "log/nanoGPT": "tools/nanogpt.log",
    "ops": "ops/gpt2.json",
    "result": "h200/step-modes.json",
    "snapshot": "h200/trace-short-1.snapshot.json.gz",
    "text/accumulation": STEPS,
    "text/attention": STEPS,
    "text/attention-implementations": FLASH,
    "text/attention-memory": STEPS,
    "text/collectives": FLASH,
    "text/data-parallel-steps": STEPS,
    "text/data-parallel-variants": FLASH,
    "text/deepflow": "deepflow_log/log.txt",
    "text/kernel-shares": STEPS,
    "text/layer-costs": "layer_costs/tables.txt",
    "text/measured-runs": "estimator_measured_runs.csv",
    "text/op-sums": "tools/key_averages.txt",
    "text/speedups": STEPS,
    "text/step-times": FLASH,
    "text/table": "studies/ulysses-16.csv",
    "text/tensors": "ulysses_log/log.txt",
    "text/timings": STEPS,
    "tensorboard": "tools/torch.tfevents",
    "torch-benchmark": "tools/benchmark_compare.txt",
    "trainer-state": "tools/trainer_state.json",
    "workbook": "tools/tracelens.xlsx",
    "xla": "tools/jax.trace.json.gz",
    "xplane": "tools/jax.xplane.pb.gz",
}
"""By reader: a file in tests/reference that the tool itself wrote."""
NOT_RUN = {
    "nsys": "Nsight Systems",
    "ncu": "Compute",
    "nccl-tests": "nccl-tests",
    "nvprof": "nvprof",
    "proton": "Proton",
    "rocprof-counters": "rocprof",
    "rocprof-json": "rocprof",
    "log/Megatron-LM": "Megatron-LM",
    "log/torchtitan": "torchtitan",
    "log/nanotron": "nanotron",
    "log/DeepSpeed": "DeepSpeed",
    "log/MLPerf": "MLPerf",
    "log/fairseq": "fairseq",
    "golden-values": "Megatron-LM",
    "log/JSON lines": "DLLogger",
    "log/columns": "Weights & Biases",
}
"""By reader: the tool that cannot run where the files were made, as the page names it."""


def rows(first: str) -> list[list[str]]:
    """Cells of the page's table whose header begins with a word."""
    lines = PAGE.read_text(encoding="utf-8").partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines]


def test_every_reader_has_a_row_and_every_row_readers():
    named = [set(re.findall(r"`([^`]+)`", cells[-1])) for cells in rows("format")]
    assert all(named)
    assert {len(cells) for cells in rows("format")} == {5}
    assert set().union(*named) == READERS


def test_every_reader_has_a_file_that_its_tool_wrote_where_that_runs():
    assert FILES.keys() | NOT_RUN.keys() == READERS - {"records", "text/step-memory"}  # which people write, no tool
    assert not FILES.keys() & NOT_RUN.keys()
    told = re.search(r"^Written after .*?\n\n", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert told
    assert [tool for tool in NOT_RUN.values() if tool not in told[0]] == []
    shown = re.findall(r"`([^`]+)`", " ".join(cells[-1] for cells in rows("by the tool itself")))
    patterns = [f"{name}*" if name.endswith("/") else name for name in shown if "(" not in name]
    assert [name for name in FILES.values() if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert [name for name in patterns if not list(REFERENCE.glob(name))] == []


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """By path: the format as it is told, and those of what was read."""
    folder, found = tmp_path_factory.mktemp("files"), {}

    def of(reader: str) -> set[str]:
        path = REFERENCE / FILES[reader]
        if reader == "snapshot":  # kept as JSON, as no pickle lies in the repository
            path = folder / "snapshot.pickle"
            path.write_bytes(pickle.dumps(json.loads(gzip.decompress((REFERENCE / FILES[reader]).read_bytes()))))
        if reader == "archive":
            path = folder / "ranks.tar"
            with tarfile.open(path, "w") as archive:
                archive.add(REFERENCE / FILES[reader], "rank0.json.gz")
        if path not in found:
            made = import_file(path, path.name)
            assert made.measurements
            found[path] = {sniff(Source(path, DEFAULT_LIMITS), path.name)} | {
                one.origin.format for one in made.measurements
            }
        return found[path]

    return of


@pytest.mark.parametrize("reader", sorted(FILES))
def test_the_file_is_read_as_what_it_is(imported, reader):
    assert reader in imported(reader)


@pytest.mark.parametrize("reader", ["flop-counter", "ops", "result", "torch-benchmark", "trainer-state"])
def test_what_windows_powershell_redirects_is_read_as_what_it_is(tmp_path, reader):
    """Its > writes UTF-16."""
    file = REFERENCE / FILES[reader]
    (tmp_path / "file").write_bytes(file.read_text(encoding="utf-8").encode("utf-16"))
    assert import_file(tmp_path / "file", file.name) == import_file(file, file.name)
