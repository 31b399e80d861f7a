"""Fuzzing of the importers: inputs changed under coverage guidance, until one fails, hangs or takes too much memory.

Run ``python benchmarks/fuzz.py FOLDER [--seconds 60] [--rounds 1] [--blind] [FORMAT...]`` where atheris (libFuzzer for
Python) is installed; ``--blind`` changes what a guided run kept, and needs it no more. FOLDER keeps the inputs that
reached new code, those that failed (``failed-*``, told apart by where they did) and how many were tried; another run
goes on from them.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import importlib
import io
import json
import pickle
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random

ROOT = Path(__file__).parent.parent
TOOLS, REPORTS = ROOT / "tests" / "reference" / "tools", ROOT / "tests" / "reference"
LONGEST_BYTES = 12_000
SLOW_S, HANG_S, MEMORY_BYTES = 5.0, 30, 3 * 2**29
SHEET = "xl/worksheets/sheet1.xml"


def trace_seeds() -> list[bytes]:
    """One step as Kineto writes it, and its list of events alone."""
    from tests.app.importers.kineto import made

    whole = made.trace(steps=1)
    return [
        json.dumps(whole).encode(),
        json.dumps(whole["traceEvents"][:9]).encode(),
        b'{"traceEvents": [{"ph": "X"}]}',
    ]


def snapshot_seeds() -> list[bytes]:
    """Snapshots in binary protocols, with and without frames."""
    from tests.app.importers.test_snapshot import FRAMES, entry, snapshot

    entries = [entry("alloc", 0x200, 300, 10, FRAMES), entry("free_completed", 0x200, 300, 40)]
    return [pickle.dumps(snapshot(entries), protocol=protocol) for protocol in (2, 4)]


def database_seeds() -> list[bytes]:
    """A database of Nsight Systems in pages of 512 bytes, which leaves no empty ones to change."""
    from tests.app.importers.test_nvidia_profilers import KERNELS, database

    with tempfile.TemporaryDirectory() as folder:
        return [database(Path(folder) / "a.sqlite", [("PRAGMA page_size = 512", []), *KERNELS])]


def table_seeds() -> list[bytes]:
    """The tables of the reports, a few lines at a time, and what tools print."""
    from tests.app.importers import test_nvidia_profilers as nvidia
    from tests.app.importers import test_rocprof as rocprof
    from tests.app.importers.test_columns import CHART
    from tests.app.importers.test_tools import KEY_AVERAGES, MEGATRON
    from tests.app.importers.text.layout.test_latex import TWO_HEADERS

    texts = (
        KEY_AVERAGES, MEGATRON, nvidia.NCU_LONG, nvidia.NCU_WIDE, nvidia.NSYS_STATS, nvidia.NSYS_TEXT, nvidia.NVPROF,
        nvidia.NVPROF_CSV, rocprof.ROCPROF, rocprof.counters_wide(*rocprof.LAUNCHES),
        rocprof.counters_long(*rocprof.LAUNCHES), TWO_HEADERS, CHART + '"1","2.4","2.3","2.5"\n' * 3,
    )  # fmt: skip
    found = [text.encode() for text in texts]
    for report in (
        "cs336_steps/report.txt",
        "flash_attention/report.txt",
        "deepflow_log/log.txt",
        "ulysses_log/log.txt",
    ):
        lines = (REPORTS / report).read_bytes().splitlines(keepends=True)
        found += [b"".join(lines[at : at + 20]) for at in range(0, len(lines), 20)]
    return found


def log_seeds() -> list[bytes]:
    """Logs of trainers and results of small tools."""
    from tests.app.importers import test_trainers as trainers
    from tests.app.importers.test_loops import DLLOGGER, LOOPS
    from tests.app.importers.test_nccl_tests import NCCL, OLD_NCCL
    from tests.app.importers.test_trainers_scenarios import NANOGPT

    printed = [path.read_bytes()[:6000] for path in TOOLS.iterdir() if path.suffix in (".txt", ".log")]
    texts = (
        NCCL, OLD_NCCL, trainers.NANOTRON, trainers.CONFIG, trainers.PROFILER, NANOGPT, DLLOGGER,
        trainers.mlperf(*trainers.MLPERF, (2, "tracked_stats", {"throughput": 64.0}, {"step": 64})),
        trainers.FAIRSEQ, trainers.FAIRSEQ_OLD, *LOOPS.values(),
    )  # fmt: skip
    return [*printed, *(text.encode() for text in texts)]


def json_seeds() -> list[bytes]:
    """Other JSON: results, op lists, execution traces, recordings of XLA, trainers' states, Proton, rocprofv3."""
    from tests.app.importers.test_result_json import DOCUMENT
    from tests.app.importers.test_rocprof import ROCPROF_JSON
    from tests.app.importers.test_tools import PROTON
    from tests.app.importers.test_trainers import GOLDEN

    execution = json.loads(gzip.decompress((TOOLS / "execution_trace.json.gz").read_bytes()))
    execution["nodes"] = execution["nodes"][:12]
    xla = json.loads(gzip.decompress((TOOLS / "jax.trace.json.gz").read_bytes()))
    xla["traceEvents"] = xla["traceEvents"][:30]
    ops = json.loads((REPORTS / "ops" / "gpt2.json").read_text())
    ops = {key: value[:6] if isinstance(value, list) else value for key, value in ops.items()}
    state = json.loads((TOOLS / "trainer_state.json").read_text())
    return [json.dumps(one).encode() for one in (DOCUMENT, execution, xla, ops, state, PROTON, GOLDEN, ROCPROF_JSON)]


def record_seeds() -> list[bytes]:
    """Results of one's own in JSON: an object, lists of them, values of every kind."""
    row = {"strategy": "ddp", "model": "gpt2", "gpu": "H100", "world_size": 4, "mean_step_time_sec": 0.25, "oom": False}
    odd = {**row, "note": "a,\nb", "config": {"lr": 1e-4}, "peak_memory_gb": None, "step (ms)": "132.1 ± 2", "tags": []}
    step = {"_step": 100, "_runtime": 71.3, "train/loss": 6.12, "tokens/s": 1092003}
    found = [row, [row, odd], [step, {**step, "_step": 200}], {"step_ms": 132.1, "seq_len": 1024}]
    return [json.dumps(one).encode() for one in found]


def recording_seeds() -> list[bytes]:
    """A recording of JAX as XLA keeps it."""
    return [gzip.decompress((TOOLS / "jax.xplane.pb.gz").read_bytes())]


def event_seeds() -> list[bytes]:
    """Event files of TensorBoard: as PyTorch writes them, and of a few scalars."""
    from tests.app.importers.test_tensorboard import FILE, event, events

    return [FILE.read_bytes(), events(*(event(1e9 + at, at, step_time=0.4, arg="2") for at in range(1, 5)))]


def sheet_seeds() -> list[bytes]:
    """The only sheet of a workbook; what is changed is packed into one again."""
    from openpyxl import Workbook

    book, file = Workbook(), io.BytesIO()
    for row in (["model", "seq", "forward ms"], ["small", 128, 1.5], ["large", 256, "OOM"]):
        book.active.append(row)
    book.save(file)
    with zipfile.ZipFile(file) as archive:
        return [archive.read(SHEET)]


def workbook_of(sheet: bytes) -> bytes:
    """A workbook whose only sheet is these bytes."""
    from openpyxl import Workbook

    whole, made = io.BytesIO(), io.BytesIO()
    Workbook().save(whole)
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            new.writestr(name, sheet if name == SHEET else old.read(name))
    return made.getvalue()


def archive_seeds() -> list[bytes]:
    """Traces of two ranks, packed without compression, so that changes reach what is inside."""
    from tests.app.importers.test_archive import rank, tarred

    ranks = {"a.json": rank(0, 1500.0), "b.json": rank(1, 900.0)}
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        for name, content in ranks.items():
            archive.writestr(name, content)
    tar = tarred(ranks)
    return [stored.getvalue(), gzip.decompress(tar) if tar[:2] == b"\x1f\x8b" else tar]


SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "trace": trace_seeds,
    "snapshot": snapshot_seeds,
    "sqlite": database_seeds,
    "table": table_seeds,
    "log": log_seeds,
    "json": json_seeds,
    "records": record_seeds,
    "recording": recording_seeds,
    "events": event_seeds,
    "workbook": sheet_seeds,
    "archive": archive_seeds,
}
ODD = (b"", b"\0", b"\xff" * 8, b"-1", b"0", b"1e999", b"nan", b"9" * 25, b"[[", b'"', b"{", b"\n", b",", b"|", b"\xc3")
SHARE = {"trace": 1.5, "sqlite": 1.5, "table": 1.5, "archive": 0.6, "workbook": 0.2}
"""Of a round's seconds, where it is not one: by what an input costs and what people bring."""


def reader(format: str, folder: Path) -> Callable[[bytes], None]:
    """Reads one input in this process, and keeps it where it fails, hangs or is slow.

    It fails where the importer raises anything but its refusal, or what it read cannot be written.
    """
    import msgspec

    import app.importers
    from app.importers.imported import ImportRefused

    for module in sorted(set(app.importers.FORMATS.values())):
        importlib.import_module(module)
    upload = Path(tempfile.mkdtemp(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)) / "upload"
    wrap = workbook_of if format == "workbook" else bytes
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))  # as the importing process limits itself

    def read(data: bytes) -> None:
        upload.write_bytes(wrap(data))
        begin_s = time.process_time()
        try:
            msgspec.json.encode(app.importers.import_file(upload, "upload"))
        except ImportRefused:
            pass
        except Exception as error:
            places = traceback.extract_tb(error.__traceback__)[-2:]
            keep(data, "-".join(f"{place.lineno}{place.name}" for place in places))
        if time.process_time() - begin_s > SLOW_S:
            keep(data, "slow")

    def keep(data: bytes, why: str) -> None:
        failed = folder / f"failed-{format}-{re.sub('[^A-Za-z0-9_-]', '', why)[:80]}"
        if not failed.exists():
            failed.write_bytes(data)

    return read


def guided(format: str, folder: Path, seconds: float) -> None:
    """Change inputs where that reaches new code; never returns, as libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["app.importers"]):
        read = reader(format, folder)
    options = [
        f"-max_total_time={seconds:.0f}", f"-max_len={LONGEST_BYTES}", f"-timeout={HANG_S}", "-rss_limit_mb=0",
        "-print_final_stats=1", "-verbosity=0", f"-artifact_prefix={folder}/failed-{format}-",
    ]  # fmt: skip
    atheris.Setup([sys.argv[0], *options, str(folder / format)], read)
    atheris.Fuzz()


def blind(format: str, folder: Path, seconds: float) -> None:
    """Change what guidance found, several times faster as nothing is observed, and say how many were tried."""
    read = reader(format, folder)
    corpus = [path.read_bytes() for path in sorted((folder / format).iterdir())]
    seed = time.time_ns()
    random, tried, until_s = Random(seed), 0, time.monotonic() + seconds

    def hung(*_: object) -> None:
        (folder / f"failed-{format}-hung").write_bytes(data)
        raise TimeoutError

    signal.signal(signal.SIGALRM, hung)
    while time.monotonic() < until_s:
        data = changed(random.choice(corpus), corpus, random)
        signal.alarm(HANG_S)
        read(data)
        signal.alarm(0)
        tried += 1
    print(f"number_of_executed_units: {tried}", file=sys.stderr)


def changed(data: bytes, corpus: list[bytes], random: Random) -> bytes:
    """One to four changes: bytes flipped, cut out, doubled, replaced by what breaks readers or by another input's."""
    content = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at, length = random.randrange(len(content) + 1), random.choice((0, 1, 1, 2, 4, 8, 30, 300))
        kind = random.randrange(5)
        if kind == 0 and at < len(content):
            content[at] ^= 1 << random.randrange(8)
        elif kind == 1:
            del content[at : at + length]
        elif kind == 2:
            content[at:at] = content[at : at + length]
        elif kind == 3:
            content[at : at + length] = random.choice(ODD)
        else:
            other = random.choice(corpus)
            begin = random.randrange(len(other) + 1)
            content[at : at + length] = other[begin : begin + length]
    return bytes(content[:LONGEST_BYTES])


def main() -> None:
    """Take the formats in turn, each in a process of its own, and print how many inputs each has had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("formats", nargs="*", metavar="FORMAT", help=", ".join(SEEDS))
    parser.add_argument("--seconds", type=float, default=60.0, help="for each format, in each round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--blind", action="store_true", help="change what was kept, without guidance")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_intermixed_args()
    sys.path.insert(0, str(ROOT))
    if asked.inside:
        (blind if asked.blind else guided)(asked.formats[0], asked.folder, asked.seconds)
        return
    folder = asked.folder.resolve()
    tally = folder / "tried.json"
    for _ in range(asked.rounds):
        for format in asked.formats or SEEDS:
            kept = folder / format
            if not kept.is_dir():
                kept.mkdir(parents=True)
                for seed in SEEDS[format]():
                    (kept / hashlib.sha1(seed).hexdigest()).write_bytes(seed)
            seconds = asked.seconds * SHARE.get(format, 1.0)
            command = [sys.executable, __file__, str(folder), format, "--inside", f"--seconds={seconds}"]
            command += ["--blind"] * asked.blind
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
            found = re.search(r"number_of_executed_units:\s*(\d+)", ended.stderr)
            tried = json.loads(tally.read_text()) if tally.exists() else {}
            tried[format] = tried.get(format, 0) + (int(found.group(1)) if found else 0)
            tally.write_text(json.dumps(tried))
            failed = len(list(folder.glob(f"failed-{format}-*")))
            said = "" if ended.returncode == 0 else f"   ended with {ended.returncode}: {ended.stderr[-500:]}"
            print(f"{format:9} {tried[format]:>9,} inputs, {failed} failed{said}", flush=True)
    print(f"{'all':9} {sum(json.loads(tally.read_text()).values()):>9,} inputs", flush=True)


if __name__ == "__main__":
    main()
