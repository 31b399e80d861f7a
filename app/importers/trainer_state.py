"""``trainer_state.json`` of the Trainer of Transformers: losses by step, and times where it counted tokens."""

from __future__ import annotations

import json

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from app.importers.text.trainers.hugging_face import state
from app.importers.text.trainers.log import measurement


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read its history; raise ImportRefused where it is broken or holds none."""
    text = source.read("trainer_state").decode("utf-8", "replace")
    try:
        document = json.loads(text)  # losses may be NaN, which only Python's own reader takes
    except (ValueError, RecursionError) as error:
        raise ImportRefused("trainer_state", "", f"this is not valid JSON ({error})", "Copy the file again.") from None
    log = state(document) if isinstance(document, dict) else None
    if log is None:
        raise ImportRefused("trainer_state", "log_history", "it holds no logged step", "Set logging_steps and train.")
    found = measurement(log, "Transformers", filename)
    return Imported(measurements=(found,), warnings=found.warnings)
