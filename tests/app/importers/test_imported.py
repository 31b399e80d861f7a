from __future__ import annotations

from app.importers.imported import DEFAULT_LIMITS, ImportRefused


def test_refusals_say_four_things():
    refused = ImportRefused("kineto", "byte 5", "it is broken", "Export it again.")
    assert str(refused) == "kineto, byte 5: it is broken. Export it again."
    assert str(ImportRefused("text", "", "it is broken", "Try.")) == "text: it is broken. Try."


def test_limits_are_in_proportion():
    assert DEFAULT_LIMITS.document_bytes < DEFAULT_LIMITS.file_bytes < DEFAULT_LIMITS.content_bytes
    assert DEFAULT_LIMITS.cpu_s < DEFAULT_LIMITS.wall_s
