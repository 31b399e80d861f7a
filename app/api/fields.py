"""Fields of a dataclass as a form needs them: one description wherever the page offers values to choose."""

from __future__ import annotations

import dataclasses
from typing import Any

WORDS = {int: "integer", float: "number", bool: "boolean", str: "text"}
"""What the types of plain fields are called."""


def described(field: dataclasses.Field[Any], kind: type[Any]) -> dict[str, Any]:
    """Say what is legal for a field of a plain ``kind``, its help and its default, null where it has none.

    ``labels``, where there are some: what people call its choices.
    """
    labels = field.metadata.get("labels")
    return {
        "type": WORDS[kind],
        "choices": field.metadata.get("choices"),
        "minimum": field.metadata.get("minimum"),
        "maximum": field.metadata.get("maximum"),
        "help": field.metadata.get("help", ""),
        "default": None if field.default is dataclasses.MISSING else field.default,
    } | ({"labels": dict(labels)} if labels else {})
