from __future__ import annotations

import gzip
import os
import time

import pytest

from app.importers.imported import ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario.units import MIB
from tests.app.importers.reading import gz, write

TEXT = b"0123456789" * 1000


def test_plain_and_compressed_content_in_pieces(tmp_path):
    for content in (TEXT, gz(TEXT), gz(TEXT[:5000]) + gz(TEXT[5000:]), gz(TEXT) + b"\x00" * 512):
        source = Source(write(tmp_path, content), Limits())
        for size in (7, 4096, MIB):
            pieces = list(source.chunks(size))
            assert b"".join(pieces) == TEXT
            assert {len(piece) for piece in pieces[:-1]} <= {size} or source.compressed
        assert source.head == TEXT
        assert source.read("text") == TEXT
        assert source.damage == ""


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_given_as_utf_8(tmp_path, encoding):
    text = "5 µs, 𝛼 and so on\n" * 1000
    data = (text if encoding == "utf-16" else "\ufeff" + text).encode(encoding)
    for content in (data, gz(data)):
        source = Source(write(tmp_path, content), Limits())
        assert {b"".join(source.chunks(size)) for size in (7, MIB)} == {text.encode()}
    cut = Source(write(tmp_path, data[:-3]), Limits()).read("text").decode()
    assert cut[:-1] == text[:-2]


def test_cut_and_corrupt_streams_give_what_they_can(tmp_path):
    data = gz(os.urandom(100_000))
    source = Source(write(tmp_path, data[:50_000]), Limits())
    assert 40_000 < len(source.read("text")) < 60_000
    assert source.damage == "truncated"
    broken = bytearray(gz(bytes(range(256)) * 4000))
    broken[len(broken) // 2] ^= 0xFF
    source = Source(write(tmp_path, bytes(broken)), Limits())
    assert len(source.read("text")) > 1000
    assert source.damage == "corrupt"


@pytest.mark.parametrize(
    ("content", "limits", "says"),
    [
        (b"", {}, "empty"),
        (TEXT, {"file_bytes": 100}, "more than the limit of 100"),
        (gz(TEXT), {"content_bytes": 100}, "larger than the limit of 100"),
    ],
    ids=["empty", "file", "content"],
)
def test_limits(tmp_path, content, limits, says):
    with pytest.raises(ImportRefused, match=says):
        Source(write(tmp_path, content), Limits(**limits))


def test_reading_whole_has_its_own_limit(tmp_path):
    with pytest.raises(ImportRefused, match="for this format"):
        Source(write(tmp_path, TEXT), Limits(document_bytes=100)).read("text")


def test_a_bomb_is_stopped_early(tmp_path):
    path = tmp_path / "bomb"
    with gzip.open(path, "wb", compresslevel=9) as file:
        for _ in range(256):
            file.write(bytes(MIB))
    source = Source(path, Limits())
    taken: list[int] = []
    with pytest.raises(ImportRefused, match="200 times its size"):
        taken.extend(len(piece) for piece in source.chunks(MIB))
    assert sum(taken) <= 200 * path.stat().st_size


def test_many_members_with_next_to_nothing_are_refused_at_once(tmp_path):
    empty = gz(b"")
    for first, member in ((b"", empty), (b"", gz(b"x")), (gz(TEXT), empty)):
        path = write(tmp_path, first + member * (8 * MIB // len(member)))
        began_s = time.process_time()
        with pytest.raises(ImportRefused, match="cut into more than 1,000 pieces"):
            Source(path, Limits()).read("text")
        assert time.process_time() - began_s < 1


def test_members_of_ordinary_size_may_be_many(tmp_path):
    content = os.urandom(2048)
    assert Source(write(tmp_path, gz(content) * 1500), Limits()).read("text") == content * 1500


def test_small_files_may_compress_well(tmp_path):
    assert len(Source(write(tmp_path, gz(bytes(8 * MIB))), Limits()).read("text")) == 8 * MIB


def test_only_regular_files(tmp_path):
    with pytest.raises(ImportRefused, match="not a regular file"):
        Source(tmp_path, Limits())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ImportRefused, match="not a regular file"):
        Source(tmp_path / "pipe", Limits())
