from __future__ import annotations

import importlib
import inspect

from app.importers import FORMATS, import_file
from app.importers.imported import DEFAULT_LIMITS, Imported


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
