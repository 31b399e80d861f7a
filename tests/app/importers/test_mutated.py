"""Damaged files: an answer or a refusal, never an accident. HEADROOM_EXAMPLES asks for more of them."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openpyxl import Workbook

from app.importers import import_file
from app.importers.imported import Imported, ImportRefused, Limits
from tests.app.importers.kineto import made
from tests.app.importers.reading import REFERENCE
from tests.app.importers.test_archive import packed, rank, tarred
from tests.app.importers.test_loops import DLLOGGER, LOOPS
from tests.app.importers.test_nccl_tests import NCCL
from tests.app.importers.test_nvidia_profilers import (
    KERNELS,
    NCU_LONG,
    NCU_WIDE,
    NSYS_STATS,
    NVPROF,
    NVPROF_CSV,
    database,
)
from tests.app.importers.test_result_json import DOCUMENT
from tests.app.importers.test_rocprof import LAUNCHES, ROCPROF, counters_long, counters_wide
from tests.app.importers.test_snapshot import FRAMES, entry, snapshot
from tests.app.importers.test_tools import KEY_AVERAGES, MEGATRON, PROTON
from tests.app.importers.test_trainers import CONFIG, GOLDEN, MLPERF, NANOTRON, PROFILER, mlperf
from tests.app.importers.text.layout.test_latex import TWO_HEADERS

EXAMPLES = int(os.environ.get("HEADROOM_EXAMPLES", "8"))
TOOLS = sorted(path.name for path in (REFERENCE / "tools").iterdir())
"""What tools printed or wrote: every reader that has no text here."""
REPORTS = ["cs336_steps/report.txt", "flash_attention/report.txt", "deepflow_log/log.txt", "layer_costs/tables.txt",
           "ulysses_log/log.txt"]  # fmt: skip
TEXTS = {
    "nccl": NCCL, "key averages": KEY_AVERAGES, "nsys stats": NSYS_STATS, "megatron": MEGATRON, "ncu": NCU_LONG,
    "ncu raw": NCU_WIDE, "rocprof": ROCPROF, "nanotron": NANOTRON, "deepspeed": CONFIG, "deepspeed flops": PROFILER,
    "mlperf": mlperf(*MLPERF, (2, "tracked_stats", {"throughput": 64.0}, {"step": 64})),
    "golden values": json.dumps(GOLDEN), "json lines": DLLOGGER, "maxtext": LOOPS["MaxText"], "latex": TWO_HEADERS,
    "result": json.dumps(DOCUMENT), "proton": json.dumps(PROTON),
    "nvprof": NVPROF, "nvprof csv": NVPROF_CSV,
    "rocprof counters": counters_wide(*LAUNCHES), "rocprofv3 counters": counters_long(*LAUNCHES),
}  # fmt: skip
FORMATS = ["trace", "snapshot", "zip", "tar", "sqlite", "workbook", "ops", *TEXTS, *TOOLS, *REPORTS]

PUT = st.binary(max_size=8) | st.sampled_from([b"\xff" * 8, b"-1", b"1e999", b"[[", b'"'])
CHANGES = st.lists(st.tuples(st.integers(0, 10**9), st.sampled_from([0, 1, 8, 300]), PUT), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    ranks = {"a.json": rank(0, 1500.0), "b.json": rank(1, 900.0)}
    entries = [entry("alloc", 0x200, 300, 10, FRAMES), entry("free_completed", 0x200, 300, 40)]
    ops = json.loads((REFERENCE / "ops" / "gpt2.json").read_text())
    cells, book = Workbook(), io.BytesIO()
    for row in (["model", "seq", "forward ms"], ["small", 128, 1.5], ["large", 256, "OOM"]):
        cells.active.append(row)
    cells.save(book)
    read = {name: (REFERENCE / "tools" / name).read_bytes() for name in TOOLS}
    return {
        "trace": json.dumps(made.trace(steps=2)).encode(),
        "snapshot": pickle.dumps(snapshot(entries), protocol=4),
        "zip": packed(ranks),
        "tar": tarred(ranks),
        "sqlite": database(tmp_path_factory.mktemp("database") / "a.sqlite", KERNELS),
        "workbook": book.getvalue(),
        "ops": json.dumps({key: some[:9] if isinstance(some, list) else some for key, some in ops.items()}).encode(),
        **{name: text.encode() for name, text in TEXTS.items()},
        **{name: gzip.decompress(content) if name.endswith(".gz") else content for name, content in read.items()},
        **{name: b"".join((REFERENCE / name).read_bytes().splitlines(keepends=True)[:60]) for name in REPORTS},
    }


@pytest.mark.parametrize("format", FORMATS)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(changes=CHANGES)
def test_a_damaged_file_is_read_or_refused(whole, tmp_path, format, changes):
    content = bytearray(whole[format])
    for place, length, put in changes:
        at = place % (len(content) + 1)
        content[at : at + length] = put
    path = tmp_path / "upload"
    path.write_bytes(bytes(content))
    try:
        found: object = import_file(path, "upload", Limits(memory_bytes=2**31))
    except ImportRefused as error:
        found = error
    assert isinstance(found, (Imported, ImportRefused))
