"""The importing process: the same answers, within its limits, whatever happens to it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time

import httpx2
import pytest

from app.importers import import_file, sandbox
from app.importers.imported import ImportRefused, Limits
from app.importers.sandbox import import_sandboxed
from estimator.scenario.units import MIB
from runners.backends.processes import start_time
from tests.app.examples import ROOT
from tests.app.importers.kineto import made
from tests.app.importers.reading import REFERENCE, write
from tests.app.serving import serving
from tests.app.waiting import processes_of, until


@pytest.mark.parametrize("name", ["cs336_steps/report.txt", "kineto/h200_ddp_amp.json.gz"])
def test_the_same_as_in_process(name):
    path = REFERENCE / name
    assert import_sandboxed(path, path.name) == import_file(path, path.name)


def test_refusals_come_back_whole(tmp_path):
    path = write(tmp_path, b"\x80\x04\x95 a pickle")
    with pytest.raises(ImportRefused) as refused:
        import_sandboxed(path, "x")
    assert (refused.value.format, refused.value.place) == ("snapshot", "")


def test_the_process_starts_without_what_only_some_formats_need():
    """Of every import it is most of the time that a person waits for."""
    code = "import sys, app.importers.__main__; print(*{'numpy', 'pandas', 'torch', 'sqlalchemy'} & set(sys.modules))"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_names_are_only_labels(tmp_path):
    path = write(tmp_path, json.dumps(made.trace()))
    for name, label in (
        ("../../etc/passwd", "passwd"),
        ("..\\..\\boot.ini", "boot.ini"),
        ("--result=/tmp/x", "x"),
        ("a\x00b\n.json", "ab"),
        ("$(touch x);`id`|&.json", "$(touch x);`id`|&"),
        ("", "upload"),
        ("n" * 5000, "n" * 200),
    ):
        assert import_sandboxed(path, name).measurements[0].label == label
    assert list(tmp_path.iterdir()) == [path]


def test_memory_is_bounded(tmp_path):
    op = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 1}
    call = {"ph": "X", "cat": "cuda_runtime", "ts": 1, "dur": 1}
    names = ",".join(json.dumps({**call, "name": f"{i}" + "call" * 70}) for i in range(500_000))
    path = write(tmp_path, '{"traceEvents": [' + json.dumps(op) + "," + names + "]}")
    with pytest.raises(ImportRefused, match="memory"):
        import_sandboxed(path, "x.json", Limits(memory_bytes=250 * MIB))
    assert [kernel.name for kernel in import_sandboxed(path, "x.json").measurements[0].kernels] == ["aten::mm"]


def test_time_is_bounded(tmp_path):
    path = write(tmp_path, json.dumps(made.trace()))
    start = time.perf_counter()
    with pytest.raises(ImportRefused, match="too long"):
        import_sandboxed(path, "x.json", Limits(wall_s=0.05))
    assert time.perf_counter() - start < 60


def test_processor_time_is_bounded(tmp_path):
    rows = "\n".join(f"row{i}  {i}.5  {i}.25" for i in range(400_000))
    path = write(tmp_path, "name  a (ms)  b (ms)\n" + rows)
    with pytest.raises(ImportRefused, match="time or memory"):
        import_sandboxed(path, "x.txt", Limits(cpu_s=1, rows=10**9, output_bytes=10**9))


def test_output_is_bounded(tmp_path):
    path = write(tmp_path, "name  a (ms)\n" + "\n".join(f"row{i}  {i}.5" for i in range(5000)))
    with pytest.raises(ImportRefused):
        import_sandboxed(path, "x.txt", Limits(output_bytes=10_000))
    assert len(import_sandboxed(path, "x.txt").measurements[0].rows) == 5000


def test_impossible_numbers_are_refused(tmp_path):
    document = made.trace(steps=1)
    for kernel in made.kernels(document):
        kernel["args"]["kernel_flop"] = 9e17
        kernel["name"] = "gemm"
    path = write(tmp_path, json.dumps(document))
    with pytest.raises(ImportRefused, match="impossible numbers"):
        import_sandboxed(path, "x.json")


def test_a_file_that_vanished(tmp_path):
    with pytest.raises(ImportRefused, match="not a regular file"):
        import_sandboxed(tmp_path / "gone", "x")


def test_the_child_sees_no_settings_and_loads_nothing_heavy(tmp_path):
    code = (
        "import os, sys, app.importers.__main__, app.importers.kineto, app.importers.text, app.importers.result_json\n"
        "heavy = {'torch', 'pandas', 'fastapi', 'sqlalchemy', 'plotly'} & set(sys.modules)\n"
        "print(sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REFERENCE.parents[1]
    )
    assert done.stdout.strip() == "[]"


def test_secrets_of_the_server_do_not_reach_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADROOM_DATABASE_URL", "postgresql://user:secret@host/db")
    assert "secret" not in str(sandbox._environment())
    assert set(sandbox._environment()) & set(os.environ) <= {
        "OMP_NUM_THREADS",
        "PATH",
        "PYTHONPATH",
        "PYTHONUTF8",
        "PYTHONDONTWRITEBYTECODE",
        "MALLOC_ARENA_MAX",
    }


def test_no_files_are_left_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", None)
    path = write(tmp_path, json.dumps(made.trace()))
    import_sandboxed(path, "x.json")
    with pytest.raises(ImportRefused):
        import_sandboxed(write(tmp_path, b"", "empty"), "x.json")
    assert list((tmp_path / "temporary").iterdir()) == []


def long_to_read(folder):
    """A text that takes many seconds."""
    return write(folder, "\n".join(f"words that say {i} nothing at all" for i in range(400_000)), "long.txt")


def test_an_import_ends_when_its_input_does_wherever_there_are_pipes(tmp_path):
    command = [sys.executable, "-m", "app.importers", f"--path={long_to_read(tmp_path)}", "--filename=x"]
    child = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=sandbox._environment(), cwd="/"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        child.wait(1)
    child.stdin.close()
    assert child.wait(60) == 1


def test_a_killed_server_leaves_no_import_and_no_folder_behind(tmp_path):
    data, temporary = tmp_path / "data", tmp_path / "temporary"
    temporary.mkdir()
    body = long_to_read(tmp_path).read_bytes()

    def upload(address):
        with contextlib.suppress(httpx2.HTTPError):
            httpx2.put(f"{address}/api/uploads", content=body, timeout=60)

    with serving(data, TMPDIR=str(temporary)) as (process, client):
        sender = threading.Thread(target=upload, args=(client.base_url,))
        sender.start()
        importing = until(lambda: processes_of(data / "uploads"))
        process.kill()
        process.wait(60)
        sender.join(60)
    until(lambda: not [pid for pid in importing if alive(pid)])
    assert list(temporary.iterdir()) == []
    with serving(data, TMPDIR=str(temporary)) as (_, client):
        assert client.get("/api/measurements").json()["measurements"]
        assert list((data / "uploads").iterdir()) == []


def alive(pid: int) -> bool:
    """Whether it runs; one that waits to be reaped by nobody does not."""
    return start_time(pid) is not None
