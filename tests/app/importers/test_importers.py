from __future__ import annotations

import importlib
import inspect

from app.importers import FORMATS, import_file
from app.importers.imported import DEFAULT_LIMITS, Imported
from app.layer_csv import layer_csv
from estimator.estimate.layer_table import layer_table
from estimator.scenario.scenario import scenario_from_json
from tests.app.examples import LLAMA
from tests.app.importers.reading import refusal


def test_every_format_has_a_reader():
    for module in FORMATS.values():
        read = importlib.import_module(module).read
        assert list(inspect.signature(read).parameters) == ["source", "filename", "limits"]


def test_the_signature_that_others_rely_on(tmp_path):
    path = tmp_path / "x"
    path.write_text("model  fwd (ms)\nsmall  1.5\nlarge  2.5\n")
    imported = import_file(path, "x.txt", DEFAULT_LIMITS)
    assert isinstance(imported, Imported)
    assert imported.measurements[0].origin.kind == "upload"


def test_what_headroom_predicted_is_no_measurement(tmp_path):
    error = refusal(tmp_path, layer_csv(layer_table(scenario_from_json(LLAMA))), "layers.csv")
    assert str(error).startswith(
        "table of a layer, line 1: this is Headroom's own prediction, op by op, not a measurement."
    )
