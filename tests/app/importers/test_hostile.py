"""Whatever bytes come in: a clear refusal or an import with warnings, soon, and never an exception of ours."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.importers import text
from app.importers.imported import ImportRefused
from app.importers.text.layout.scan import scan
from tests.app.importers.reading import REFERENCE, codes, gz, read, refusal


def outcome(folder, content, name="file"):
    """Import, or the refusal; both within a second or so."""
    start = time.process_time()
    try:
        found = read(folder, content, name)
    except ImportRefused as refused:
        found = refused
    assert time.process_time() - start < 20
    assert not isinstance(found, ImportRefused) or (found.message and found.remedy)
    return found


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=400))
def test_any_bytes(tmp_path, content):
    outcome(tmp_path, content)
    outcome(tmp_path, gz(content))


WORDS = st.sampled_from(
    [
        *(
            "model",
            "seq_len",
            "Forward (ms)",
            "bwd",
            "OOM",
            "1.5",
            "2±1",
            "|",
            "-",
            "---",
            ":",
            ",",
            "\t",
            "  ",
            "\n",
            "\n\n",
        ),
        *(
            "# h",
            "GLOO",
            "2 proc",
            "1 MB",
            "min 1 mean 2 max 3 MB/s",
            "====",
            "(a)",
            "```",
            "xl_seq128",
            "0",
            "1e9",
            "nan",
        ),
        *("World size: 2", "Effective bandwidth: 5 GB/s", "Rank 0: 1 ms", "Total time per step: 5 ms", "50%", "x", "±"),
        *(
            "Forward pass: 1 ms",
            "Result: 1",
            "speedup",
            "ft_torch",
            "ft_triton",
            "d_model",
            "Memory (MB)",
            "Seq Length",
        ),
        *("Tensor size: 0 MB", "label", "−"),
    ]
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS, max_size=60))
def test_any_words_of_tables(tmp_path, words):
    outcome(tmp_path, " ".join(words))
    outcome(tmp_path, "".join(words))


@pytest.mark.parametrize("name", ["cs336_steps", "flash_attention"])
@pytest.mark.parametrize("seed", range(12))
def test_damaged_reports(tmp_path, name, seed):
    rng = random.Random(seed)
    lines = (REFERENCE / name / "report.txt").read_text(encoding="utf-8").splitlines()
    for _ in range(rng.choice((3, 30, 200))):
        index = rng.randrange(len(lines))
        change = rng.randrange(4)
        if change == 0:
            del lines[index]
        elif change == 1:
            lines[index] = lines[index][: rng.randrange(len(lines[index]) + 1)]
        elif change == 2:
            lines[index] = lines[index].replace("0", rng.choice(["-", "1e30", "inf", "OOM", "0", ""]))
        else:
            lines.insert(index, lines[rng.randrange(len(lines))])
    found = outcome(tmp_path, "\n".join(lines))
    assert found.measurements


@pytest.mark.parametrize(
    "content",
    [
        "A" * 1_000_000,
        "9" * 1_000_000,
        "name  ms\n" + "x" * 1_000_000 + "  5",
        "| a | b |\n|---|---|\n| " + "1" * 1_000_000 + " | 2 |",
        "a,b\n1," + "2" * 100_000,
        "\n" * 1_000_000,
        "|" * 100_000,
        "# " * 100_000,
        "Seq  ms\n1  2\n" * 20_000,
        "# h\nSeq  ms\n1  2\n" * 20_000,
        "World size: 9\nRank 0: 1 ms\nRank 1: 1 ms\nbandwidth: 1 GB/s\n====\n" * 5_000,
        "model  ms\n" + "x  1e308\n" * 100,
        "step  forward (s)  model\n1  999999999999999999999999999999  x\n2  0  y\n",
    ],
)
def test_large_and_odd_texts(tmp_path, content):
    outcome(tmp_path, content)


def test_a_gzip_bomb(tmp_path):
    assert "200 times" in refusal(tmp_path, gz(b"model 1.5 \n" * 8_000_000)).message


def test_texts_of_windows(tmp_path):
    text = "model  fwd (ms)\nsmall  1.5\nlarge  2.5\n"
    for data in (text.encode("utf-16"), text.replace("\n", "\r\n").encode(), b"\xef\xbb\xbf" + text.encode()):
        assert len(read(tmp_path, data).measurements[0].rows) == 2


def test_colours_of_a_terminal(tmp_path):
    assert (
        read(tmp_path, "model  fwd (ms)\n\x1b[32msmall  1.5\x1b[0m\nlarge  2.5\n").measurements[0].rows[0]["model"]
        == "small"
    )


def test_text_without_tables(tmp_path):
    refused = refusal(tmp_path, "Dear all,\n\nthe run was fast, about 5 ms I think.\n")
    assert refused.format == "text"
    assert "CSV" in refused.remedy


def test_long_lines_are_said(tmp_path):
    found = read(tmp_path, "x" * 30_000 + "\nmodel  fwd (ms)\nsmall  1.5\nlarge  2.5\n")
    assert "long-lines" in codes(found)
    assert "1 line of more than 20 000 characters passed over" in [one.message for one in found.warnings]


def test_a_cut_compressed_text(tmp_path):
    data = gz("model  fwd (ms)\n" + "\n".join(f"m{random.Random(i).random()}  {i}.5" for i in range(3000)))
    imported = read(tmp_path, data[: len(data) // 2])
    assert "file-truncated" in codes(imported)
    assert 500 < len(imported.measurements[0].rows) < 3000


def test_too_many_rows(tmp_path):
    assert "limit of 100" in refusal(tmp_path, "a  b (ms)\n" + "x  1\n" * 200, rows=100).message


def test_what_is_beyond_the_limit_of_rows_is_not_read(tmp_path, monkeypatch):
    found = []
    monkeypatch.setattr(text, "scan", lambda *given: found.append(scan(*given)) or found[-1])
    assert "limit of 100" in refusal(tmp_path, "a  b (ms)\n" + "x  1\n" * 20_000, rows=100).message
    assert 100 < len(found[0].blocks[0].rows) < 2_000
