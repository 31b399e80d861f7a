from __future__ import annotations

from tests.app.importers.reading import codes, one, read

TEXT = """\
Config               Forward Speedup    Memory Diff (MB)
--------------------------------------------------------
d=16, seq=256        0.75               -3.88
d=16, seq=1024       1.76x              128.50
--------------------------------------------------------
Average forward speedup: 1.25x (std: 0.19)
Max forward speedup: 1.76x
"""


def test_rows_and_averages(tmp_path):
    imported = read(tmp_path, TEXT)
    measurement = one(imported, "speedups")
    assert measurement.rows == (
        {"d_model": 16, "seq_len": 256, "forward_speedup": 0.75, "peak_memory_difference_bytes": -3.88e6},
        {"d_model": 16, "seq_len": 1024, "forward_speedup": 1.76, "peak_memory_difference_bytes": 128.5e6},
    )
    assert measurement.samples == {
        "average_forward_speedup": 1.25,
        "average_forward_speedup_std": 0.19,
        "max_forward_speedup": 1.76,
    }
    assert codes(imported) == {"mb-ambiguous"}


def test_every_column_beside_several_speedups_is_kept(tmp_path):
    text = "suite,m,k,eager_ms,own_speedup_vs_eager,own_speedup_vs_compiled\nmm,16,8192,0.0118,1.27,1.06\n"
    row = one(read(tmp_path, text), "speedups").rows[0]
    assert row == {
        "suite": "mm", "m": 16, "k": 8192, "eager_s": 1.18e-05, "own_speedup_vs_eager": 1.27,
        "own_speedup_vs_compiled": 1.06,
    }  # fmt: skip


def test_what_is_no_number_is_left_out(tmp_path):
    measurement = one(read(tmp_path, TEXT.replace("1.25x (std: 0.19)", "1.25x (std: 0.1.19)")), "speedups")
    assert measurement.samples == {"average_forward_speedup": 1.25, "max_forward_speedup": 1.76}
