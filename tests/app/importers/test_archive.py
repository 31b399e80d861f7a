"""Archives: ranks of one job become one measurement, whose waiting and transfer are worked out here by hand."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

import pytest

from app.importers import import_file
from app.importers.together import files_in, is_trace, pack
from tests.app.importers.kineto import made
from tests.app.importers.reading import codes, gz, one, read, refusal, write
from tests.javascript import call_each


def rank(number: int, message_us: float) -> str:
    """A rank of two whose all-reduce lasts so long in every step; its end is that of all ranks."""
    document = made.trace()
    document["distributedInfo"] |= {"rank": number, "world_size": 2}
    for event in document["traceEvents"]:
        if "AllReduce" in event["name"]:
            event["ts"] += 1500.0 - message_us
            event["dur"] = message_us
            event["args"] |= {"Group size": 2, "Process Group Ranks": "[0, 1]"}
    return json.dumps(document)


def packed(files: dict[str, bytes | str]) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return content.getvalue()


def packed_twice(name: str, data: str) -> bytes:
    """Files of one name, as two that are dropped together may be."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for _ in range(2):
            archive.writestr(name, data)
    return content.getvalue()


def tarred(files: dict[str, bytes | str]) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            data = data.encode() if isinstance(data, str) else data
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return content.getvalue()


def test_files_of_one_name_are_called_by_the_folders_that_they_differ_in(tmp_path):
    trace = json.dumps(made.trace())
    files = {"runs/one/prof/trace.json": trace, "runs/two/prof/trace.json": trace, "runs/two/prof/other.json": trace}
    imported = read(tmp_path, packed(files), "runs.zip")
    assert [found.label for found in imported.measurements] == ["one/trace", "two/trace", "other"]
    with pytest.warns(UserWarning, match="Duplicate name"):
        twice = packed_twice("trace.json", trace)
    assert [found.label for found in read(tmp_path, twice, "two.zip").measurements] == ["trace", "trace (2)"]


@pytest.mark.parametrize("pack", [packed, tarred])
def test_two_ranks_are_one_measurement_with_what_only_both_can_tell(tmp_path, pack):
    files = {"job/rank0.json": rank(0, 1500.0), "job/rank1.json.gz": gz(rank(1, 900.0))}
    imported = read(tmp_path, pack(files), "job.zip")
    found = one(imported)
    assert (found.world_size, found.origin.format, found.label) == (2, "kineto", "job.zip")
    assert found.steps_s == (pytest.approx(0.01),) * 3
    first, second, message = found.rows
    # rank 1 comes 600 µs later: its 900 µs are the transfer, and the 600 µs more of rank 0 are waiting
    assert (first["rank"], second["rank"]) == (0, 1)
    assert first["waiting_s"] == pytest.approx(600e-6)
    assert second["waiting_s"] == 0.0
    assert first["transfer_s"] == second["transfer_s"] == pytest.approx(900e-6)
    assert (first["came_last"], second["came_last"]) == (0, 3)
    # of rank 0's 1500 µs the matrix product hides 500; of rank 1's 900 none, as they begin behind it
    assert first["communication_s"] == pytest.approx(1500e-6)
    assert first["exposed_communication_s"] == pytest.approx(1000e-6)
    assert second["communication_s"] == pytest.approx(900e-6)
    assert second["exposed_communication_s"] == pytest.approx(900e-6)
    assert message == pytest.approx({
        "kind": "all-reduce", "ranks": 2, "calls_per_step": 1.0, "size_bytes": 2000.0, "transfer_s": 900e-6,
        "mean_waiting_s": 300e-6, "mean_skew_s": 600e-6, "max_skew_s": 600e-6,
    })  # fmt: skip
    (collective,) = found.collectives
    assert collective.seconds == pytest.approx(900e-6)
    assert collective.bus_bytes_per_s == pytest.approx(2000.0 / 900e-6)
    (straggler,) = [warning for warning in imported.warnings if warning.code == "straggler"]
    assert straggler.message.startswith("Rank 1 is the straggler: in each step others wait up to 0.6 ms")
    assert imported.op_lists[0]


def test_a_rank_that_is_missing_is_said_and_one_that_is_there_twice_is_no_job(tmp_path):
    lonely = rank(0, 1500.0).replace('"world_size": 2', '"world_size": 4')
    assert "ranks-missing" in codes(read(tmp_path, packed({"a.json": lonely, "b.json": rank(1, 900.0)})))
    assert len(read(tmp_path, packed({"a.json": rank(0, 1500.0), "b.json": rank(0, 1500.0)})).measurements) == 2


def test_other_files_come_along_and_what_cannot_be_read_is_named(tmp_path):
    table = "model  batch  seq_len  forward (ms)\ngpt2  4  512  30.1\ngpt2  4  1024  70.1\n"
    files = {"notes/steps.txt": table, "trace.json": rank(0, 1500.0), "x.png": b"\x89PNG\r\n", ".DS_Store": b"x"}
    imported = read(tmp_path, packed(files))
    assert [one.origin.format for one in imported.measurements] == ["kineto", "text/step-times"]
    (left,) = [warning for warning in imported.warnings if warning.code == "files-left-out"]
    assert "x.png: pictures are not read" in left.message


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (packed({}), "no file"),
        (packed({"x.png": b"\x89PNG\r\n"}), "pictures are not read"),
        (packed({"a": b"\x00" * 2**26}), "unpacks to"),
        (packed({"inner.zip": packed({"a.json": "{}"})}), "inside another"),
        (packed({str(i): b"1" for i in range(1100)}), "more than 1,024 files"),
        (packed({"a.json": rank(0, 1500.0)})[:-30], "cannot be read"),
        (packed({"word/document.xml": "<x/>", "[Content_Types].xml": "<x/>"}), "office program"),
        (packed({"xl/workbook.xml": "<x/>"}), "workbook"),
    ],
)
def test_archives_that_are_refused(tmp_path, content, word):
    assert word in str(refusal(tmp_path, content))


def test_the_page_and_the_command_pack_what_belongs_together(tmp_path):
    ranks = [write(tmp_path, rank(number, 1500.0 - 600.0 * number), f"rank{number}.json") for number in (0, 1)]
    contents = [path.read_bytes() for path in ranks]
    archive = tmp_path / "page.tar"
    members = [
        [{"path": "job/" + path.name, "body": {"size": len(content)}}]
        for path, content in zip(ranks, contents, strict=True)
    ]
    heads = [bytes(head.values()) for head in call_each("together", "header", members)]
    padded = [content + bytes(-len(content) % 512) for content in contents]
    archive.write_bytes(b"".join(head + content for head, content in zip(heads, padded, strict=True)) + bytes(1024))
    pack(ranks, tmp_path / "command.tar")
    assert [is_trace(path) for path in (*ranks, archive)] == [True, True, False]
    assert files_in(tmp_path) == [tmp_path / "command.tar", archive, *ranks]
    sent, packed_ = (one(import_file(path, "job")) for path in (archive, tmp_path / "command.tar"))
    assert sent == packed_
    assert [row["rank"] for row in sent.rows if "rank" in row] == [0, 1]
