from __future__ import annotations

from tests.app.importers.reading import codes, one, read

RUNS = """\
source_id,hardware,n_gpus,model,n_layers,d_model,seq_len,global_batch,tp,pp,dp,sequence_parallel,measured_step_time_s,notes
a,A100,8,GPT-7B,32,4096,2048,64,8,1,1,true,1.25,"x, y"
b,H100,16,"GPT 13B",40,5120,4096,128,8,2,1,,,none
"""


def test_measured_runs_keep_their_columns(tmp_path):
    imported = read(tmp_path, RUNS)
    first, second = one(imported, "measured-runs").rows
    assert (first["n_gpus"], first["measured_step_time_s"], first["sequence_parallel"], first["notes"]) == (
        8,
        1.25,
        True,
        "x, y",
    )
    assert second == {
        "source_id": "b",
        "hardware": "H100",
        "n_gpus": 16,
        "model": "GPT 13B",
        "n_layers": 40,
        "d_model": 5120,
        "seq_len": 4096,
        "global_batch": 128,
        "tp": 8,
        "pp": 2,
        "dp": 1,
        "notes": "none",
    }
    assert codes(imported) == {"missing-cells"}


def test_what_is_no_count_is_said_with_its_column(tmp_path):
    imported = read(tmp_path, RUNS.replace("A100,8,", "A100,0,").replace("H100,16,", "H100,1.5,"))
    (warning,) = [found for found in imported.warnings if found.code == "no-count"]
    assert "'n_gpus'" in warning.message
    assert "0, 1.5 are no count" in warning.message
