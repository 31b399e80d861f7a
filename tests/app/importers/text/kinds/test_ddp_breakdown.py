from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read

TEXT = """\
{before}Model: big, Sequence length: 256
{implementation}Warmup: 2, Iterations: 10

====
Training Results
====
Total parameters: 1,000,000,000 (3814.70 MB)
World size: {ranks} GPUs
Batch size: 2

Timing breakdown:
  Total time per step:     {total} ± 1.5 ms
    Forward pass:          100.5 ms (25.0%)
    Backward pass:         200.5 ms (50.0%)
    Gradient communication: {wait} ms (5.0%)
    Optimizer step:        50.5 ms (12.0%)
Per-rank average total time:
  Rank 0: 111.0 ms
"""


def text(wait="70.0", ranks=2, before="", implementation="", total="400.5"):
    return TEXT.format(wait=wait, ranks=ranks, before=before, implementation=implementation, total=total)


def test_an_exchange_of_possible_speed_is_taken_as_such(tmp_path):
    imported = read(tmp_path, text())
    (row,) = one(imported, "data-parallel-steps").rows
    assert row["step_s"] == pytest.approx(0.4005)
    assert row["communication_wait_s"] == pytest.approx(0.07)
    assert (row["model"], row["seq_len"], row["batch"], row["world_size"]) == ("big", 256, 2, 2)
    assert "ddp_mode" not in row
    assert codes(imported) == set()


def test_what_no_line_of_it_says_the_sentence_above_does(tmp_path):
    plain = text().replace("Batch size: 2\n", "").replace("World size: 2 GPUs\n", "")
    imported = read(tmp_path, f"We trained gpt2-xl in bf16 on 4 H100, batch size 8.\n\n{plain}")
    (row,) = one(imported, "data-parallel-steps").rows
    said = {"model": "big", "batch": 8, "precision": "bf16", "world_size": 4}
    assert row.items() >= said.items()
    assert "said-in-text" in codes(imported)
    (row,) = one(read(tmp_path, f"We trained gpt2-xl on 4 H100, batch size 8.\n\n{text()}")).rows
    assert (row["model"], row["batch"], row["world_size"]) == ("big", 2, 2), "its own lines say it"


def test_an_impossible_one_is_only_the_wait(tmp_path):
    imported = read(tmp_path, text(wait="3.0"))
    assert one(imported).rows[0]["ddp_mode"] == "overlapped"
    assert "gradient-communication-is-wait" in codes(imported)


@pytest.mark.parametrize(
    ("said", "mode"),
    [
        ("Naive Sync, No Overlap", "naive"),
        ("Flat gradients", "flat"),
        ("Bucketed overlap", "bucketed"),
        ("Overlap", "overlapped"),
    ],
)
def test_modes(tmp_path, said, mode):
    imported = read(tmp_path, text(implementation=f"DDP Implementation: Custom ({said})\n"))
    assert one(imported).rows[0]["ddp_mode"] == mode


def test_commands_before_a_block(tmp_path):
    before = "me@box:~$ nsys profile -o flat_r\nun python bench.py --ddp-mode naive\n\n"
    imported = read(tmp_path, text(before=before, implementation="DDP Implementation: naive\n"))
    assert {"profiled-run", "name-contradicts-mode"} <= codes(imported)
    assert one(imported).rows[0]["profiled"] is True


def test_several_blocks_and_a_preface_without_result(tmp_path):
    imported = read(
        tmp_path, text() + "\n" + text(total="500.5") + "\nModel: other, Sequence length: 1\nWarmup: 1, Iterations: 1\n"
    )
    assert [row["step_s"] for row in one(imported).rows] == [pytest.approx(0.4005), pytest.approx(0.5005)]
