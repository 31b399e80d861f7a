"""Fenced blocks of a Markdown file, so that tests can do what the documents say."""

from __future__ import annotations

import json
import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^\n`]+)\n(?P<text>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: the words after the fence, and its text without the indent of a list."""

    info: str
    text: str

    def json(self) -> Any:
        """Decode the text as JSON."""
        return json.loads(self.text)


def blocks(path: Path, info: str) -> list[Block]:
    """Return the blocks whose fence line says ``info``, in order."""
    found = _FENCE.finditer(path.read_text(encoding="utf-8"))
    every = [Block(info=match["info"].strip(), text=textwrap.dedent(match["text"])) for match in found]
    return [block for block in every if block.info == info]
