"""Document: a text cut into the blocks that may hold figures, each with its headings and the lines around it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Surroundings:
    """Where a block stands: headings from the outermost, lone short lines since the heading, text before and after."""

    heading: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows of equally many cells under named columns.

    ``form`` is markdown, grid, aligned, delimited, latex or statistics.
    ``separator`` is what stands between the cells of a delimited one; ``sums`` the lines of its rows that only sum up
    the others, and are none of ``rows``.
    """

    form: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int
    lines: tuple[int, ...]
    around: Surroundings = field(default=Surroundings())
    separator: str = ""
    sums: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class KeyValue:
    """One ``key: value`` line; ``group`` is the line ending in a colon that it stands under."""

    key: str
    value: str
    line: int
    group: str = ""


@dataclass(frozen=True, kw_only=True)
class Fields:
    """A run of ``key: value`` lines between rules; ``title`` is the line that stands over it."""

    title: str
    entries: tuple[KeyValue, ...]
    line: int
    around: Surroundings = field(default=Surroundings())

    def get(self, *words: str) -> KeyValue | None:
        """Return the first entry whose key has all the words, whatever their case."""
        for entry in self.entries:
            key = entry.key.lower()
            if all(word in key for word in words):
                return entry
        return None


Block = Table | Fields


@dataclass(frozen=True, kw_only=True)
class Document:
    """All blocks of a text in order, and what its reading had to say."""

    blocks: tuple[Block, ...]
    lines: tuple[str, ...] = ()
    long_lines: int = 0


def label(block: Block) -> str:
    """Name a block by its headings."""
    return " ".join(block.around.heading) or (block.title if isinstance(block, Fields) else "")


def place(block: Block, line: int = 0) -> str:
    """Say where a block, or a ``line`` of it, is, for a warning."""
    name = label(block)
    return f"line {line or block.line}" + (f" ({name[:80]})" if name else "")
