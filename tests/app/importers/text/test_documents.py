"""Five documents, whole: every table and each of its rows is there, no other, and what is odd in it is said.

Their values: ``test_reports`` and ``test_logs``, figure by figure.
"""

from __future__ import annotations

import pytest

from tests.app.importers.reading import REFERENCE, codes, read

ASSUMED = {"batch-assumed", "precision-assumed", "wide-spread"}
DOCUMENTS = {
    "ulysses_log/log.txt": [("tensors", 35, {"label-differs", "mb-is-decimal", "coarse-size", "flops-of-all-ranks"})],
    "deepflow_log/log.txt": [("deepflow", 60, {"gb-is-gib", "modelled"})],
    "layer_costs/tables.txt": [("layer-costs", 14, {"units-of-tool", "modelled"})],
    "cs336_steps/report.txt": [
        ("step-times", 20, {*ASSUMED, "oom-rows"}),
        ("step-times", 18, ASSUMED),
        ("kernel-shares", 16, {"list-cut-off"}),
        ("timings", 3, set()),
        ("accumulation", 9, set()),
        ("step-times", 21, ASSUMED),
        ("attention", 20, {"mb-is-mib", "wide-spread"}),
        ("attention-memory", 20, {"mb-is-mib"}),
        ("attention", 40, {"mb-is-mib", "wide-spread"}),
        ("attention-memory", 40, {"mb-is-mib"}),
        ("speedups", 20, {"mb-is-mib"}),
        ("step-times", 18, {"batch-assumed", "wide-spread"}),
        ("collectives", 6, {"bandwidth-is-bus-gib", "mb-is-mib", "truncated-block"}),
        ("data-parallel-steps", 4, {"gradient-communication-is-wait", "name-contradicts-mode", "profiled-run"}),
    ],
    "flash_attention/report.txt": [
        ("step-times", 5, {"forward-contains-backward", "oom-mentioned", "unit-assumed"}),
        ("attention", 20, {"backward-contains-forward", "mb-is-decimal", "oom-cells"}),
        ("attention-implementations", 54, {"oom-cells", "unit-inferred"}),
        ("collectives", 16, {"mb-is-mib", "rows-missing", "unit-mislabelled"}),
        ("data-parallel-variants", 48, {"mb-is-mib"}),
    ],
}
"""By document, in its order: the kind of each table, its rows, what is said of it."""
OF_THE_WHOLE = {"cs336_steps/report.txt": {"duplicate-rows"}}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_tables_rows_and_warnings_of_a_document(tmp_path, name):
    imported = read(tmp_path, REFERENCE.joinpath(name).read_bytes())
    found = [(one.origin.format, len(one.rows), codes(one)) for one in imported.measurements]
    assert found == [(f"text/{kind}", rows, said) for kind, rows, said in DOCUMENTS[name]]
    of_tables = set().union(*(said for _, _, said in DOCUMENTS[name]))
    assert codes(imported) == of_tables | OF_THE_WHOLE.get(name, set())
