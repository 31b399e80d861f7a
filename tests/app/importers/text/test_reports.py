"""Two whole reports, figure by figure, and the same reports with other numbers."""

from __future__ import annotations

import re
import statistics

import pytest

from estimator.validation.predicted_rows import predicted_table, toy_parallel
from tests.app.importers.reading import REFERENCE, codes, figures, number, one, read

MIB = 1024**2
STAGES = {
    "forward": "forward",
    "backward": "backward",
    "fwd_bwd": "forward_backward",
    "train_step": "step",
    "fwd_bwd_labelled_forward": "forward_backward",
}
PRECISIONS = {"FP32": "fp32", "BF16": "bf16-amp", "": None}


def report(name: str) -> str:
    return (REFERENCE / name / "report.txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def steps_report(tmp_path_factory):
    return read(tmp_path_factory.mktemp("steps"), report("cs336_steps"))


@pytest.fixture(scope="module")
def flash_report(tmp_path_factory):
    return read(tmp_path_factory.mktemp("flash"), report("flash_attention"))


def rows(imported, kind):
    return [(m.label, row) for m in imported.measurements if m.origin.format == f"text/{kind}" for row in m.rows]


def close(found, printed, scale=1.0):
    expected = number(printed, scale)
    return found is None if expected is None else found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["cs336_steps", "flash_attention"])
def test_every_step_time_is_there_and_no_other(name, steps_report, flash_report):
    imported = steps_report if name == "cs336_steps" else flash_report
    wanted = figures(name, "step_times.csv")
    found = []
    for label, row in rows(imported, "step-times"):
        for stage in set(STAGES.values()):
            mean = row.get(f"{stage}_s")
            if mean is not None and not (name == "flash_attention" and stage == "forward" and "backward_s" in row):
                found.append((label, row, stage, mean, row.get(f"{stage}_std_s")))
    assert len(found) == len(wanted)
    for line in wanted:
        section = f"{line['section']} {line.get('part') or ''}".strip()
        fitting = [
            entry
            for entry in found
            if entry[0].startswith(line["section"])
            and entry[1]["model"] == line["model"]
            and entry[1].get("seq_len") == (int(line["seq_len"]) if line.get("seq_len") else None)
            and entry[1].get("precision") == PRECISIONS[line.get("precision", "")]
            and entry[1].get("compile", False) == (line["compiled"] == "1")
            and entry[2] == STAGES[line["stage"]]
            and close(entry[3], line["mean_s"])
            and close(entry[4], line.get("std_s", ""))
        ]
        assert fitting, (section, line)
        row = fitting[0][1]
        assert row.get("batch") == (int(line["batch"]) if line.get("batch") else None)
        assert row.get("parameters") == (int(line["parameters"]) if line.get("parameters") else None)
        found.remove(fitting[0])


def test_out_of_memory_rows_come_from_the_sentence_below_the_table(steps_report):
    missing = [(row["model"], row["seq_len"]) for _, row in rows(steps_report, "step-times") if row["status"] == "oom"]
    assert sorted(missing) == [("2.7B", 1024), ("xl", 1024)]
    assert "oom-rows" in codes(steps_report)


def test_repeated_rows_are_marked_not_lost(steps_report):
    repeated = [row for _, row in rows(steps_report, "step-times") if "duplicate_of" in row]
    assert sorted((row["model"], row["seq_len"]) for row in repeated) == sorted(
        [("large", length) for length in (128, 256, 512, 1024)] + [("2.7B", length) for length in (128, 256, 512)]
    )
    assert {row["duplicate_of"] for row in repeated} == {"nsys_profile (a)"}
    (said,) = [warning for warning in steps_report.warnings if warning.code == "duplicate-rows"]
    assert "7 rows (14 timings)" in said.message


def test_models_are_those_of_the_catalogue(steps_report):
    keys = {(row["model"], row["catalogue_model"]) for _, row in rows(steps_report, "step-times")}
    assert keys == {(name, f"cs336-{name.lower()}") for name in ("small", "medium", "large", "xl", "2.7B")}


def test_attention_in_mib(steps_report):
    found = [row for _, row in rows(steps_report, "attention")]
    wanted = figures("cs336_steps", "attention.csv")
    assert len(found) == len(wanted) == 60
    for row, line in zip(found, wanted, strict=True):
        assert (row["d_model"], row["seq_len"]) == (int(line["d_head"]), int(line["seq_len"]))
        assert row.get("compile", False) == (line["version"] == "compiled")
        for key, column, scale in (
            ("forward_s", "fwd_ms", 1e-3),
            ("forward_std_s", "fwd_std_ms", 1e-3),
            ("backward_s", "bwd_ms", 1e-3),
            ("backward_std_s", "bwd_std_ms", 1e-3),
            ("memory_before_backward_bytes", "mem_before_bwd_mib", MIB),
            ("peak_memory_bytes", "peak_mem_mib", MIB),
        ):
            assert close(row[key], line[column], scale), (row, line, key)
    assert {"mb-is-mib", "wide-spread"} <= codes(steps_report)


def test_attention_in_decimal_megabytes_with_a_forward_in_the_backward(flash_report):
    found = [row for _, row in rows(flash_report, "attention")]
    wanted = figures("flash_attention", "attention.csv")
    assert len(found) == len(wanted) == 20
    for row, line in zip(found, wanted, strict=True):
        assert (row["d_model"], row["seq_len"]) == (int(line["d_head"]), int(line["seq_len"]))
        assert row["status"] == ("oom" if line["oom"] == "1" else "ok")
        assert close(row["forward_s"], line["fwd_ms"], 1e-3)
        assert close(row["forward_backward_s"], line["bwd_ms"], 1e-3)
        assert "backward_s" not in row
        assert close(row["memory_before_backward_bytes"], line["mem_before_bwd_mb_decimal"], 1e6)
    assert {"mb-is-decimal", "backward-contains-forward", "oom-cells"} <= codes(flash_report)


def test_attention_memory_by_sequence(steps_report):
    tables = [m for m in steps_report.measurements if m.origin.format == "text/attention-memory"]
    lines = figures("cs336_steps", "attention.csv")
    for measurement, name in zip(tables, ("pytorch_attention", "torch_compile"), strict=True):
        printed = {
            (int(line["d_head"]), int(line["seq_len"]), line["version"]): float(line["mem_before_bwd_mib"]) * MIB
            for line in lines
            if line["table"] == name
        }
        assert len(measurement.rows) == len(printed)
        for row in measurement.rows:
            kept = printed.pop((row["d_model"], row["seq_len"], row.get("version", "uncompiled")))
            assert row["memory_before_backward_bytes"] == kept
            # to its six decimal places in MB
            per_square = row["memory_per_seq_squared_bytes"]
            assert per_square == pytest.approx(kept / row["seq_len"] ** 2, rel=0, abs=0.6e-6 * MIB)


def test_speedups(steps_report):
    measurement = one(steps_report, "speedups")
    wanted = figures("cs336_steps", "speedups.csv")
    assert len(measurement.rows) == len(wanted) == 20
    for row, line in zip(measurement.rows, wanted, strict=True):
        assert (row["d_model"], row["seq_len"]) == (int(line["d_head"]), int(line["seq_len"]))
        assert row["forward_speedup"] == float(line["fwd_speedup_x"])
        assert row["backward_speedup"] == float(line["bwd_speedup_x"])
        assert close(row["peak_memory_difference_bytes"], line["peak_mem_diff_mib"], MIB)
    assert measurement.samples["average_forward_speedup"] == 0.93
    assert measurement.samples["average_backward_speedup_std"] == 0.14
    assert measurement.samples["max_backward_speedup"] == 1.39


def predictions(imported, kind, chip):
    found = []
    for measurement in imported.measurements:
        if measurement.origin.format == f"text/{kind}":
            table = predicted_table(measurement, chip)
            assert not table.unpredicted
            found += zip(measurement.rows, table.rows, strict=True)
    return found


def agreeing(pairs, column, digits, megabyte):
    both = [(row[column], should[column]) for row, should in pairs if column in should]
    return sum(abs(found - should) <= 0.51 * megabyte * 10.0**-digits for found, should in both), len(both)


def test_attention_memory_follows_from_its_formula_to_the_printed_digit(steps_report, flash_report):
    eager = predictions(steps_report, "attention", "a100-80gb-sxm")
    kept = eager + predictions(steps_report, "attention-memory", "a100-80gb-sxm")
    assert agreeing(kept, "memory_before_backward_bytes", 2, MIB) == (120, 120)
    # of the compiled ones three held a buffer of the autotuner's as well
    assert agreeing(eager, "peak_memory_bytes", 2, MIB) == (57, 60)
    written_out = predictions(flash_report, "attention", "rtx-4090")
    assert agreeing(written_out, "memory_before_backward_bytes", 0, 1e6) == (16, 16)


def test_every_attention_table_has_a_formula(steps_report, flash_report):
    tables = [
        (steps_report, "attention", "a100-80gb-sxm", 60),
        (steps_report, "speedups", "a100-80gb-sxm", 20),
        (flash_report, "attention-implementations", "rtx-4090", 54),
    ]
    for imported, kind, chip, count in tables:
        assert sum(bool(should) for _, should in predictions(imported, kind, chip)) == count, kind


def test_two_parts_of_one_file_may_be_two_machines(steps_report, flash_report):
    def likely(imported):
        return {m.origin.format: [one["chip"] for one in m.device.get("candidates", [])] for m in imported.measurements}

    steps, flash = likely(steps_report), likely(flash_report)
    # kernels are Ampere's, and one step of 2.7B needs more than 48 GB
    assert {one.partition("-")[0] for one in steps["text/step-times"]} == {"a100"}
    assert steps["text/step-times"][0].startswith("a100-80gb")
    # data parallel steps do twice the fp32 FLOP/s that an A100 has; their part's all-reduce is faster than PCIe
    for kind in ("text/data-parallel-steps", "text/collectives"):
        assert "h100-sxm" in steps[kind][:4]
        assert "h800-sxm" in steps[kind]
        assert not {"a100-80gb-sxm", "rtx-a6000"} & set(steps[kind])
    # what ran out of memory at a length would not have on a larger card
    assert set(flash["text/attention"][:3]) == {"a30", "rtx-3090", "rtx-4090"}
    assert "text/accumulation" not in {kind for kind, found in steps.items() if found}


def test_implementations_side_by_side(flash_report):
    measurement = one(flash_report, "attention-implementations")
    wanted = figures("flash_attention", "implementations.csv")
    assert len(measurement.rows) == len(wanted) == 54
    for row, line in zip(measurement.rows, wanted, strict=True):
        assert (row["seq_len"], row["d_model"], row["precision"]) == (
            int(line["seq_len"]),
            int(line["d_head"]),
            line["dtype"],
        )
        for implementation in ("torch", "triton"):
            for key, column in (("forward", "fwd"), ("backward", "bwd"), ("forward_backward", "fwd_bwd")):
                assert close(row[f"{implementation}_{key}_s"], line[f"{implementation}_{column}_ms"], 1e-3)
        for key, column in (("forward", "fwd"), ("backward", "bwd"), ("forward_backward", "fwd_bwd")):
            assert row[f"{key}_speedup"] == number(line[f"speedup_{column}_x"])
        assert row["status"] == "ok"  # where torch ran out of memory, triton did not
    assert {"unit-inferred", "oom-cells"} <= codes(measurement)


@pytest.mark.parametrize(("name", "count"), [("cs336_steps", 6), ("flash_attention", 16)])
def test_all_reduce(name, count, steps_report, flash_report):
    measurement = one(steps_report if name == "cs336_steps" else flash_report, "collectives")
    wanted = figures(name, "all_reduce.csv")
    assert len(measurement.rows) == len(measurement.collectives) == len(wanted) == count
    for row, collective, line in zip(measurement.rows, measurement.collectives, wanted, strict=True):
        assert (row["backend"], row["device"], row["world_size"]) == (
            line["backend"],
            line["device"],
            int(line["world_size"]),
        )
        assert row["size_bytes"] == float(line["size_bytes"])
        for key in ("min", "max", "std"):
            assert close(row.get(f"{key}_s"), line.get(f"{key}_ms", ""), 1e-3)
        # the mean of the block without a head is that of its ranks, which the figures round to a microsecond
        rounding_s = 5e-7 if "reconstructed" in row else 1e-15
        assert row["mean_s"] == pytest.approx(float(line["mean_ms"]) * 1e-3, rel=0, abs=rounding_s)
        if "printed_busbw_gib_s" in line:
            assert row["bus_bytes_per_s"] == pytest.approx(float(line["printed_busbw_gib_s"]) * 1024**3)
            assert collective.bus_bytes_per_s == pytest.approx(row["bus_bytes_per_s"], rel=0.02)
        ranks = int(line["world_size"])
        assert collective.algorithm_bytes_per_s == pytest.approx(row["size_bytes"] / row["mean_s"])
        assert collective.bus_bytes_per_s == pytest.approx(collective.algorithm_bytes_per_s * 2 * (ranks - 1) / ranks)


def test_the_block_without_a_head_says_what_was_filled_in(steps_report):
    measurement = one(steps_report, "collectives")
    assert [bool(row.get("reconstructed")) for row in measurement.rows] == [False] * 5 + [True]
    (said,) = [warning for warning in measurement.warnings if warning.code == "truncated-block"]
    for part in ("6 ranks", "1024 MiB", "mean", "backend"):
        assert part in said.message
    assert "min_s" not in measurement.rows[-1]
    assert {"bandwidth-is-bus-gib", "mb-is-mib"} <= codes(measurement)


def test_milliseconds_labelled_as_a_rate(flash_report):
    measurement = one(flash_report, "collectives")
    assert {"unit-mislabelled", "mb-is-mib", "rows-missing"} <= codes(measurement)
    assert flash_report.skipped == 8


def test_data_parallel_breakdown(steps_report):
    measurement = one(steps_report, "data-parallel-steps")
    wanted = figures("cs336_steps", "ddp.csv")
    assert len(measurement.rows) == len(wanted) == 4
    for row, line in zip(measurement.rows, wanted, strict=True):
        assert (row["model"], row["catalogue_model"]) == ("xl", "cs336-xl")
        for key, column in (
            ("world_size", "world_size"),
            ("batch", "batch_per_gpu"),
            ("seq_len", "seq_len"),
            ("parameters", "parameters"),
            ("iterations", "iterations"),
        ):
            assert row[key] == int(line[column])
        for key, column in (
            ("step_s", "total_ms"),
            ("step_std_s", "total_std_ms"),
            ("forward_s", "fwd_ms"),
            ("backward_s", "bwd_ms"),
            ("communication_wait_s", "comm_ms"),
            ("optimizer_s", "opt_ms"),
        ):
            assert close(row[key], line[column], 1e-3), key
        assert close(row["communication_wait_frac"], line["comm_percent"], 0.01)
        assert row["ddp_mode"] == ("naive" if line["mode"] == "naive" else "overlapped")
        assert row.get("ddp_mode_inferred", False) == (line["mode"] != "naive")
        assert row.get("profiled", False) == ("profiled" in line["note"])
    assert {"gradient-communication-is-wait", "name-contradicts-mode", "profiled-run"} <= codes(measurement)


def test_data_parallel_variants(flash_report):
    measurement = one(flash_report, "data-parallel-variants")
    wanted = figures("flash_attention", "ddp.csv")
    modes = {"naive": "naive", "flat": "flat", "overlap_individual": "overlapped", "overlap_bucketed": "bucketed"}
    assert len(measurement.rows) == len(wanted) == 48
    for row, line in zip(measurement.rows, wanted, strict=True):
        assert (row["variant"], row["ddp_mode"]) == (line["label"], modes[line["mode"]])
        assert row["model_size"] == int(line["toy_inner_size"])
        assert row.get("bucket_bytes") == number(line["bucket_mib"], MIB)
        for key, column in (("_min", "min"), ("", "mean"), ("_max", "max")):
            assert close(row[f"backward_communication{key}_s"], line[f"bwd_plus_comm_{column}_ms"], 1e-3)
    assert max(row["repeat"] for row in measurement.rows) == 4


def test_kernel_shares(steps_report):
    measurement = one(steps_report, "kernel-shares")
    wanted = figures("cs336_steps", "kernel_shares.csv")
    scopes = {"forward": "Forward", "forward+backward": "Forward and Backward"}
    kinds = {"gemm": "matmul", "elementwise": "elementwise"}
    assert len(measurement.rows) == len(wanted) == 16
    for row, line in zip(measurement.rows, wanted, strict=True):
        assert (row["kernel"], row["scope"]) == (line["kernel"], scopes[line["scope"]])
        assert row["category"] == kinds[line["kind"]]
        assert close(row["time_frac"], line["time_percent"], 0.01)
        assert row.get("calls") == (int(line["calls"]) if line["calls"] else None)
    assert "list-cut-off" in codes(measurement)


def test_timings_and_accumulation(steps_report):
    timings = one(steps_report, "timings").rows
    assert [row["mean_s"] for row in timings] == [
        pytest.approx(float(line["time_us"]) * 1e-6) for line in figures("cs336_steps", "timings.csv")
    ]
    found = one(steps_report, "accumulation").rows
    wanted = figures("cs336_steps", "accumulation.csv")
    assert [(row["result"], row["expected"]) for row in found] == [
        (float(line["result"]), float(line["expected"])) for line in wanted
    ]


def scaled(text: str, factor: float) -> str:
    """The same report with every decimal number multiplied."""
    return re.sub(
        r"(?<![\w.])(\d+\.\d+)(?![\w.])", lambda found: f"{float(found[1]) * factor:.{digits(found[1])}f}", text
    )


def digits(text: str) -> int:
    return len(text.split(".")[1])


@pytest.mark.parametrize("name", ["cs336_steps", "flash_attention"])
def test_other_numbers_in_the_same_layout(tmp_path, name, steps_report, flash_report):
    first = steps_report if name == "cs336_steps" else flash_report
    second = read(tmp_path, scaled(report(name), 1.5))
    assert [(m.label, m.origin.format, len(m.rows)) for m in first.measurements] == [
        (m.label, m.origin.format, len(m.rows)) for m in second.measurements
    ]
    compared = 0
    for before, after in zip(first.measurements, second.measurements, strict=True):
        for one_row, other_row in zip(before.rows, after.rows, strict=True):
            for key, value in one_row.items():
                if key in ("forward_s", "backward_s", "step_s", "torch_forward_s", "mean_s") and value and value > 1e-3:
                    assert other_row[key] == pytest.approx(1.5 * value, rel=0.05), (before.label, key)
                    compared += 1
    assert compared > (150 if name == "cs336_steps" else 40)


def test_the_same_tables_in_another_unit_and_other_words(tmp_path):
    text = report("flash_attention")
    text = text.replace("avg_forward_time", "forward_mean_ms").replace("fwd(ms) bwd(ms)", "forward_us backward_us")
    imported = read(tmp_path, text)
    steps = one(imported, "step-times").rows
    assert steps[0]["forward_s"] == pytest.approx(0.0227895e-3)
    assert one(imported, "attention").rows[2]["forward_s"] == pytest.approx(7.2e-6)


def test_moved_and_cut_reports_keep_their_tables(tmp_path, steps_report):
    lines = report("cs336_steps").splitlines()
    whole = read(tmp_path, "\n".join(["Notes of mine, at length."] * 37 + lines))
    assert sum(len(m.rows) for m in whole.measurements) == sum(len(m.rows) for m in steps_report.measurements)
    half = read(tmp_path, "\n".join(lines[: len(lines) // 3]))
    assert {m.label for m in half.measurements} >= {"benchmarking_script", "nsys_profile (a)"}


def test_attention_and_variants_are_predicted_as_they_were_run(steps_report, flash_report):
    def off(imported, kind, chip, column, least=0):
        pairs = predictions(imported, kind, chip)
        ratios = [
            should[column] / row[column]
            for row, should in pairs
            if column in should and row.get("model_size", 0) >= least
        ]
        return statistics.median(abs(ratio - 1) for ratio in ratios), ratios

    assert off(steps_report, "attention", "a100-80gb", "forward_s")[0] < 0.15
    assert off(steps_report, "attention", "a100-80gb", "backward_s")[0] < 0.2
    assert off(flash_report, "attention", "rtx-4090", "forward_backward_s")[0] < 0.25
    assert len(off(flash_report, "data-parallel-variants", "rtx-4090", "backward_communication_s")[1]) == 48
    large = off(flash_report, "data-parallel-variants", "rtx-4090", "backward_communication_s", 5000)[1]
    # a machine without peer-to-peer: PCIe, twice; nothing to hide, as one weight has 99.8 % of the bytes
    assert all(0.7 < ratio < 1.1 for ratio in large)
    assert toy_parallel.buckets([4.0, 4.0, 4.0], [1.0, 2.0, 3.0], 8.0) == [(8.0, 2.0), (4.0, 3.0)]
