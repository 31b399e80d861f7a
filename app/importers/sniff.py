"""Which format a file has, by its first bytes; what cannot or must not be read is refused with the way out."""

from __future__ import annotations

import itertools
import re

from app.importers import (
    flop_counter,
    json_scan,
    nccl_tests,
    ncu,
    nvprof,
    records_json,
    rocprof_counters,
    rocprof_json,
    tensorboard,
    torch_benchmark,
    xla,
    xplane,
)
from app.importers.imported import ImportRefused
from app.importers.source import GZIP_MAGIC, Source
from estimator.scenario.own_file import own_file

_TORCH_REMEDY = "Upload a trace (export_chrome_trace) or a text table; checkpoints hold no timings."
_NSYS_REMEDY = (
    "Export its tables as text: nsys stats --report cuda_gpu_kern_sum REPORT.nsys-rep, and upload what it prints."
)
_OF_HOST = (
    "this is a profile of the host's Python alone",
    "Record what the device did as well: torch.profiler, and upload its trace (export_chrome_trace).",
)
_REFUSED: tuple[tuple[bytes, str, str, str], ...] = (
    (
        b"version https://git-lfs",
        "git-lfs",
        "this is a pointer of Git LFS: the file itself was not downloaded",
        "Run git lfs pull, and upload the file that it brings.",
    ),
    (b"QDSTRM", "nsys-rep", "this is a raw Nsight Systems stream", _NSYS_REMEDY),
    (b"NVR\x00", "ncu-rep", "this is an Nsight Compute report", "Export it: ncu --import FILE --csv > kernels.csv."),
    (b"BZh", "bzip2", "bzip2 compression is not read", "Unpack it, or compress with gzip."),
    (b"\xfd7zXZ\x00", "xz", "xz compression is not read", "Unpack it, or compress with gzip."),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd compression is not read", "Unpack it, or compress with gzip."),
    (b"7z\xbc\xaf\x27\x1c", "7z", "7z archives are not read", "Unpack it and upload the files one by one."),
    (b"{\xa9\x03", "cProfile", *_OF_HOST),
    (b"{)\x03", "cProfile", *_OF_HOST),
    (b"\xfb\xa9\x03", "cProfile", *_OF_HOST),
    (b"\xfb)\x03", "cProfile", *_OF_HOST),
    (b"%PDF", "pdf", "PDF files are not read", "Copy the tables out as text, or upload the original data."),
    (b"\x89PNG", "image", "pictures are not read", "Upload the numbers behind it."),
    (b"\xff\xd8\xff", "image", "pictures are not read", "Upload the numbers behind it."),
)
_PICKLE_MAGIC = re.compile(rb"\x80[\x02-\x05]|\(?[ldp0-9\n(]{0,16}c[A-Za-z_][\w.]*\n[A-Za-z_]\w*\n")
"""Protocols 2 to 5, and the text protocols where they name a global."""
_HTML = re.compile(rb"\s{0,100}<(?:!doctype html|html|head|body)\b", re.IGNORECASE)
_WORKBOOK = re.compile(rb"xl/(?:workbook\.xml|worksheets/|sharedStrings|styles\.xml)")
_TAR_AT, _SHOWN_BYTES = 257, 1 << 17
_HEAD_BYTES = 1 << 20
"""A head of this length may have more behind it; a shorter one is the whole content."""
_TEXTS = {
    "nccl-tests": nccl_tests,
    "ncu": ncu,
    "nvprof": nvprof,
    "rocprof-counters": rocprof_counters,
    "torch-benchmark": torch_benchmark,
    "flop-counter": flop_counter,
}
"""Outputs of tools that are told by their words; all other text is searched for tables."""
_TO_COLUMNS = "Export its scalars as CSV, with a column step and one of the time of a step (step_time_s) or tokens/s."
_RESULT_KEYS = {"origin", "schema_version", "steps_s", "kernels", "phases_s", "breakdown_s", "rows", "measurements"}

_BY_STEP = re.compile(rb'"start_step"\s{0,8}:.{0,200}?"step_interval"\s{0,8}:', re.DOTALL)
_OBJECT_A_LINE = re.compile(rb"\s{0,100}\{[^\n]{0,100000}\}[ \t\r]{0,20}\n\s{0,100}[^\s,}\]]")
"""More than one document: a log."""
_SCENARIO_KEYS = {"model", "cluster", "training"}
_SEARCH_KEYS = {"limits", "objective", "locked", "search", "grid"}
_OPS_KEYS = {"format", "signatures", "calls"}


def sniff(source: Source, filename: str) -> str:
    """Name the format of ``source``, one of ``FORMATS``; raise ImportRefused for what none of them reads.

    The file's name never decides what is opened; it only makes the refusal of an unknown binary more helpful.
    """
    head = source.head
    if not head:
        raise ImportRefused("gzip", "byte 0", "nothing could be unpacked", "Compress it again, or upload it unpacked.")
    if head.startswith(GZIP_MAGIC):
        raise ImportRefused("gzip", "byte 0 of the content", "it is compressed twice", "Unpack it once.")
    _refuse_known(head)
    if head.startswith(b"SQLite format 3\x00"):
        return "nsys"
    if _PICKLE_MAGIC.match(head):
        return "snapshot"
    if head.startswith(b"PK") and _WORKBOOK.search(head):
        return "workbook"
    if head.startswith(b"PK") or head[_TAR_AT : _TAR_AT + 5] == b"ustar":
        return "archive"
    if tensorboard.is_events(head):
        return tensorboard.FORMAT
    if xplane.is_xplane(head):
        return "xplane"
    if json_scan.opening(head):
        return _json(head)
    _refuse_of_loggers(head)
    _refuse_binary(head, filename)
    text = head.decode("utf-8", "replace")  # whatever a library logged may stand before the table
    return next((format for format, module in _TEXTS.items() if module.is_text(text)), "text")


def _refuse_known(head: bytes) -> None:
    for magic, format, message, remedy in _REFUSED:
        if head.startswith(magic):
            raise ImportRefused(format, "byte 0", message, remedy)
    if _HTML.match(head):
        message = "this is a web page, perhaps the one that offers the file, or that asks to log in"
        raise ImportRefused("html", "byte 0", message, "Download the file itself; on GitHub that is the Raw button.")
    if head.startswith(b"PK"):
        if b"[Content_Types].xml" in head and not _WORKBOOK.search(head):
            message = "this is a document of an office program"
            raise ImportRefused("office", "byte 0", message, "Copy the tables out as text.")
        if b"/data.pkl" in head or b"/version" in head:
            raise ImportRefused(
                "torch archive", "byte 0", "this is a file of torch.save, a pickle inside", _TORCH_REMEDY
            )


def _refuse_of_loggers(head: bytes) -> None:
    if head.startswith(b"wandb_version:"):
        message = "these are the settings of a run as Weights & Biases keeps them, without times"
        raise ImportRefused("wandb", "byte 0", message, _TO_COLUMNS)
    if head.startswith(b":W&B"):
        raise ImportRefused("wandb", "byte 0", "this is what Weights & Biases keeps of a run offline", _TO_COLUMNS)


def _refuse_binary(head: bytes, filename: str) -> None:
    if b"\x00" in head[:4096]:
        if filename.lower().endswith((".nsys-rep", ".qdrep", ".qdstrm")):
            raise ImportRefused("nsys-rep", "byte 0", "Nsight Systems reports are a closed format", _NSYS_REMEDY)
        if filename.lower().endswith((".pftrace", ".perfetto-trace", ".proto")):
            message = "this is a binary trace of Perfetto"
            remedy = "Export tables (rocprofv3 ... --output-format csv), or upload a trace of torch.profiler."
            raise ImportRefused("perfetto", "byte 0", message, remedy)
        raise ImportRefused(
            "binary",
            "byte 0",
            "this is a binary file of an unknown kind",
            "Upload a PyTorch trace (.json, .json.gz), a Headroom result, or text with tables.",
        )


def _refuse_scenario(names: set[str]) -> None:
    """Raise ImportRefused where a document has a scenario's keys and no others; such a thing holds nothing measured."""
    others = names - _SCENARIO_KEYS - {"plan"}
    if not others:
        remedy = "Predict it: headroom estimate FILE, or drop it on the page, which opens it as A."
        raise ImportRefused("scenario", "byte 0", "this is a scenario, in which nothing was measured", remedy)
    if others <= _SEARCH_KEYS:
        remedy = "Search: headroom sweep FILE, or drop it on the page; headroom estimate takes it without these keys."
        message = f"this is a scenario to search plans for ({', '.join(sorted(others))}), in which nothing was measured"
        raise ImportRefused("scenario", "byte 0", message, remedy)


def _json(head: bytes) -> str:
    is_list = json_scan.opening(head) == "["
    found: dict[str, None] = {}
    for key, _ in itertools.islice(json_scan.keys(head, 2 if is_list else 1), 1000):
        found[key] = None
        if key == "traceEvents":  # which tells it; what follows may be long
            break
    names = list(found)
    if "traceEvents" in names and xla.is_trace(head[:_SHOWN_BYTES]):
        return "xla"
    if "traceEvents" in names or "deviceProperties" in names or (is_list and "ph" in names):
        return "kineto"
    if not is_list and _OPS_KEYS.issubset(names):
        return "ops"
    if not is_list and {"results", "nccl_version"}.issubset(names):
        return "nccl-tests"
    if not is_list and _BY_STEP.search(head[:4000]):
        return "golden-values"
    if not is_list and {"schema", "nodes"}.issubset(names):
        return "chakra"
    if not is_list and ("log_history" in names or {"train_runtime", "train_steps_per_second"}.issubset(names)):
        return "trainer-state"
    if not is_list and {"segments", "device_traces"}.intersection(names):
        return "snapshot"
    if not is_list and rocprof_json.KEY in names:
        return "rocprof-json"
    if not is_list and {"shared", "profiles"}.issubset(names):
        raise ImportRefused("speedscope", "byte 0", *_OF_HOST)
    if is_list and {"frame", "metrics"}.issubset(names):
        return "proton"
    if not is_list and _OBJECT_A_LINE.match(head):
        return "text"
    if not is_list and (own := own_file(names)) and own.kind == "calibration":
        raise ImportRefused(
            "calibration", "byte 0", "this is a calibration, in which nothing was measured", own.belongs
        )
    if _RESULT_KEYS.intersection(names):
        return "result"
    if not is_list and names and _SCENARIO_KEYS.issubset(names):
        _refuse_scenario(set(names))
    if not is_list and {"cells", "nbformat"}.issubset(names):
        remedy = "Save its code as a script, and trace that: headroom trace SCRIPT.py --out ops.json; import ops.json."
        raise ImportRefused("notebook", "byte 0", "this is a notebook", remedy)
    if not is_list and {"model_type", "architectures"}.issubset(names):
        message = "this is the config.json of a model, in which nothing was measured"
        remedy = "Predict it: headroom estimate --hf FILE, or drop it on the page, which takes its model."
        raise ImportRefused("config", "byte 0", message, remedy)
    if len(head) >= _HEAD_BYTES:
        if not is_list and names:
            return "kineto"  # long metadata may stand before the events; its reader says so if none come
        if names:
            return "records"
    elif json_scan.cut_off(head):
        message = f"this JSON ends in the middle, after {len(head):,} bytes, before anything that tells what it is"
        raise ImportRefused("json", f"byte {len(head)}", message, "Copy the file again, whole.")
    elif records_json.records(head):
        return "records"
    raise records_json.unknown(names)
