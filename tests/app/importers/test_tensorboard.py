"""TensorBoard's event files: scalars by step, by their own times or the clock, and what a run says of itself."""

from __future__ import annotations

import struct

import pytest

from estimator.scenario.units import GIB
from tests.app.importers.reading import REFERENCE, codes, one, read, refusal

FILE = REFERENCE / "tools" / "torch.tfevents"
"""Written by torch.utils.tensorboard (PyTorch 2.13, tensorboard 2.21), with a histogram among the scalars."""


def varint(number: int) -> bytes:
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def part(number: int, content: bytes | int) -> bytes:
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def event(wall_s: float, step: int, **values: float | str) -> bytes:
    """An event as TensorFlow writes one; names of tags have two underscores for a slash."""
    found = b"\x09" + struct.pack("<d", wall_s) + part(2, step)
    for name, value in values.items():
        tag = part(1, name.replace("__", "/").encode())
        if isinstance(value, str):
            shown = part(8, part(1, 7) + part(8, value.encode()))
        else:
            shown = b"\x15" + struct.pack("<f", value)
        found += part(5, part(1, tag + shown))
    return found


def events(*records: bytes) -> bytes:
    first = b"\x09" + bytes(8) + part(3, b"brain.Event:2")
    return b"".join(struct.pack("<QI", len(one), 7) + one + bytes(4) for one in (first, *records))


def test_what_pytorch_writes_is_read_with_the_scenario_of_its_texts(tmp_path):
    found = one(read(tmp_path, FILE.read_bytes()))
    assert found.origin.format == "tensorboard"
    assert found.steps_s == pytest.approx([0.25] * 5)  # of the clock of its events
    assert [row["train_new_style"] for row in found.rows] == [1.5] * 6, "of a tensor, as TensorFlow 2 writes scalars"
    assert found.scenario["plan"] == {"dp": 8, "micro_batch": 4, "sharding": "fsdp"}
    assert found.scenario["training"] == {"seq_len": 1024, "global_batch": 64, "precision": "bf16-amp"}
    assert found.scenario["model"]["hidden"] == 768


def test_times_and_rates_of_torchtitan(tmp_path):
    tags = {"time_metrics__end_to_end(s)": 1.17, "throughput(tps)": 7000.0, "mfu(%)": 40.5,
            "memory__max_reserved(GiB)": 45.0}  # fmt: skip
    found = one(read(tmp_path, events(*(event(1e9 + at, at, **tags) for at in (1, 11, 21)))))
    assert found.steps_s == pytest.approx((1.17, 1.17))
    assert found.rows[0]["tokens_per_s_per_gpu"] == 7000.0
    assert found.rows[0]["mfu_frac"] == pytest.approx(0.405)
    assert found.memory.reserved_bytes == 45 * GIB


def test_arguments_of_megatron_are_texts_and_its_scalars_by_samples_are_passed_over(tmp_path):
    said = {"num-layers": "32", "hidden-size": "4096", "num-attention-heads": "32", "seq-length": "4096",
            "micro-batch-size": "2", "global-batch-size": "64", "tensor-model-parallel-size": "2",
            "world-size": "16", "bf16": "True"}  # fmt: skip
    records = [event(1e9, 0, **said)]
    for at in (10, 20, 30):
        records += [event(1e9 + at, at, **{"iteration-time": 3.21})]
        records += [event(1e9 + at, 64 * at, **{"iteration-time vs samples": 3.21})]
    found = one(read(tmp_path, events(*records)))
    assert (len(found.rows), found.steps_s, found.world_size) == (3, pytest.approx((3.21, 3.21)), 16)
    assert found.scenario["plan"] == {"tp": 2, "dp": 8, "micro_batch": 2}
    assert found.scenario["model"]["layers"] == 32


def test_a_file_that_breaks_off_is_read_up_to_there(tmp_path):
    whole = events(*(event(1e9 + at, at, loss=5.0) for at in range(1, 6)))
    found = one(read(tmp_path, whole[:-9]))
    assert (len(found.rows), found.steps_s) == (4, pytest.approx((1.0, 1.0, 1.0)))
    assert "file-truncated" in codes(found)


@pytest.mark.parametrize("records", [(), (event(1e9, 1, loss=5.0),), (event(1e9, 1, loss=float("nan")),)])
def test_a_file_without_steps_is_refused_with_the_way_out(tmp_path, records):
    assert "upload" in refusal(tmp_path, events(*records)).remedy


@pytest.mark.parametrize(("name", "value", "step_s"), [("loss", 4.0, 0.5), ("step_time", 0.45, 0.45)])
def test_the_csv_of_one_scalar_is_timed_by_itself_or_by_the_clock(tmp_path, name, value, step_s):
    lines = [f"{1_764_000_000 + 5 * at},{10 * at},{value}" for at in range(6)]
    text = "\n".join(["Wall time,Step,Value", *lines])
    found = one(read(tmp_path, text, f"run-train-tag-{name}.csv"))
    assert (found.origin.format, found.steps_s[-1]) == ("tensorboard", pytest.approx(step_s))


def test_a_damaged_csv_of_one_scalar_keeps_what_stands_before(tmp_path):
    lines = [f"{1_764_000_000 + 5 * at},{10 * at},0.45" for at in range(6)]
    text = "\n".join(["Wall time,Step,Value", *lines, "9" * 200_000])  # more than the csv module takes for a cell
    found = read(tmp_path, text, "run-train-tag-step_time.csv")
    assert "file-truncated" in codes(found)
    assert len(one(found).rows) == 6
