from __future__ import annotations

from estimator.scenario.units import MIB
from tests.app.importers.reading import codes, one, read


def test_variants(tmp_path):
    text = """\
Benchmarking on GLOO
Enter the size of the model (default 10): 77
MyFSDP            | bkw pass and communication time (us) | min 5 | mean 7 | max 9
BucketDDP(25 MB)  | bkw pass and communication time (us) | min 4 | mean 6 | max 8
-----
MyFSDP            | bkw pass and communication time (us) | min 6 | mean 8 | max 10
"""
    imported = read(tmp_path, text)
    rows = one(imported, "data-parallel-variants").rows
    assert rows[0] == {
        "model_size": 77,
        "backend": "gloo",
        "variant": "MyFSDP",
        "repeat": 1,
        "backward_communication_min_s": 5e-06,
        "backward_communication_s": 7e-06,
        "backward_communication_max_s": 9e-06,
    }
    assert (rows[1]["ddp_mode"], rows[1]["bucket_bytes"]) == ("bucketed", 25 * MIB)
    assert rows[2]["repeat"] == 2
    assert "mb-is-mib" in codes(imported)
