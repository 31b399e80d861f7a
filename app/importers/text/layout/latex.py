r"""LaTeX tables: the rows of a ``tabular``, ``a & b & c \\``, without the commands that only set them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.importers.text.layout.document import Table
from app.importers.text.values.cells import is_data

_BEGIN = re.compile(r"\\begin\{(tabular[xy*]?|longtable|tblr|array)\}")
_NESTED = re.compile(
    r"\\begin\{tabular\}(?:\[[a-z]\])?\{(?:[^{}]|\{[^{}]{0,20}\}){0,40}\}((?:(?!\\begin).){0,300}?)\\end\{tabular\}"
    r"|\\(?:makecell|thead|shortstack)(?:\[[a-z]{1,2}\])?\{([^{}]{0,300})\}"
)
"""A cell of several lines, which are no rows."""
_SPECIFICATION = re.compile(r"\s*(?:\[[^\]]{0,20}\])?(?:\{(?:[^{}]|\{[^{}]{0,40}\}){0,200}\}){0,2}")
"""Of a table's place, width and columns, behind its beginning."""
_ROW_END = re.compile(r"\\\\(?:\[[^\]]{0,20}\])?")
_COMMENT = re.compile(r"(?<!\\)%.*$")
_RULES = re.compile(
    r"\\(?:top|mid|bottom|h|c|cmid)(?:rule|line)(?:\([lr]{1,4}\))?(?:\[[^\]]{0,20}\])?(?:\{[^{}]{0,20}\})?"
    r"|\\(?:addlinespace|endhead|endfirsthead|endfoot|endlastfoot|centering|small|footnotesize)\b(?:\[[^\]]{0,20}\])?"
    r"|\\(?:rowcolor|cellcolor|label|caption)\{[^{}]{0,200}\}"
)
_SPAN = re.compile(r"\\multicolumn\s*\{(\d{1,2})\}\s*\{[^{}]{0,40}\}\s*\{(.{0,200})\}\s*$")
_FALL = re.compile(r"\\multirow\s*(?:\[[^\]]{0,20}\])?\{(\d{1,3})\}\s*\{[^{}]{0,40}\}\s*\{(.{0,200})\}\s*$")
_SET = re.compile(r"\\(?:textbf|textit|texttt|textsc|text|emph|mathbf|mathrm|underline|makecell|num)\{([^{}]{0,200})\}")
_SPACES = re.compile(r"\\[,;:! ]|\{,\}|~")
_SIGNS = {r"\pm": "±", r"\times": "×", r"\%": "%", r"\#": "#", r"\_": "_", r"\&": "&", r"\mu": "µ", r"\checkmark": "✓",
          r"\approx": "~", r"\sim": "~"}  # fmt: skip
_MOST_LINES, _MOST_CELLS = 5_000, 60


def read(lines: Sequence[str], start: int) -> tuple[Table, int] | None:
    """Read the ``tabular`` that begins at ``lines[start]``; return it and the index after it, or None."""
    opening = _COMMENT.sub("", _NESTED.sub(_in_one_line, lines[start]))
    begin = _BEGIN.search(opening)
    if begin is None:
        return None
    body: list[str] = []
    plain = _SPECIFICATION.sub("", opening[begin.end() :], count=1)
    for at in range(start, min(start + _MOST_LINES, len(lines))):
        if at > start:
            plain = _COMMENT.sub("", _NESTED.sub(_in_one_line, lines[at]))
        if _BEGIN.search(plain):
            return None
        inside, end, _ = plain.partition(f"\\end{{{begin[1]}}}")
        body.append(_RULES.sub("", inside))
        if end:
            break
    else:
        return None
    found, numbers = _rows(body, start + 1)
    rows = _fallen(found)
    width = max((len(row) for row in rows), default=0)
    if len(rows) < 2 or width < 2:
        return None
    rows = [[_plain(cell) for cell in row] + [""] * (width - len(row)) for row in rows]
    heads = _heads(rows)
    if heads == len(rows):
        return None
    columns = tuple(" ".join(dict.fromkeys(filter(None, names))) for names in zip(*rows[:heads], strict=True))
    table = Table(
        form="latex",
        columns=columns,
        rows=tuple(map(tuple, rows[heads:])),
        line=start + 1,
        lines=tuple(numbers[heads:]),
    )
    return table, start + len(body)


def _in_one_line(nested: re.Match[str]) -> str:
    return _ROW_END.sub(" ", nested[1] or nested[2] or "")


def _rows(body: Sequence[str], line: int) -> tuple[list[list[str]], list[int]]:
    """Cells of each row, and the number of the line on which it begins; the first line's is ``line``."""
    rows: list[list[str]] = []
    numbers: list[int] = []
    pending: list[str] = []
    first = line
    for number, text in enumerate(body, line):
        *whole, rest = _ROW_END.split(text)
        for part in whole:
            pending.append(part)
            first = first if len(pending) > 1 else number
            if "&" in (row := " ".join(pending)):
                rows.append(_cells(row))
                numbers.append(first)
            pending = []
        if rest.strip():
            first = first if pending else number
            pending.append(rest)
    if "&" in (row := " ".join(pending)):
        rows.append(_cells(row))
        numbers.append(first)
    return rows, numbers


def _heads(rows: Sequence[Sequence[str]]) -> int:
    """How many rows are the header: one, and a second one beneath names that span columns."""
    spanned = len(set(filter(None, rows[0]))) < len([name for name in rows[0] if name]) or "" in rows[0]
    return 2 if len(rows) > 2 and spanned and not any(is_data(cell) for cell in rows[1] if cell) else 1


def _cells(row: str) -> list[str]:
    cells: list[str] = []
    for cell in re.split(r"(?<!\\)&", row)[:_MOST_CELLS]:
        span = _SPAN.search(cell.strip())
        cells += [span[2]] * min(int(span[1]), _MOST_CELLS) if span else [cell]
    return cells[:_MOST_CELLS]


def _fallen(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The rows with what ``multirow`` says of several of them in each."""
    found = [list(row) for row in rows]
    for i, row in enumerate(found):
        for j, cell in enumerate(row):
            if not (fall := _FALL.search(cell.strip())):
                continue
            row[j] = fall[2]
            for below in found[i + 1 : i + int(fall[1])]:
                if j < len(below) and not below[j].strip():
                    below[j] = fall[2]
    return found


def _plain(cell: str) -> str:
    text = cell
    for _ in range(3):
        text = _SET.sub(r"\1", text)
    text = _SPACES.sub(lambda space: " " if space[0] in ("~", "\\ ") else "", text.replace("$", ""))
    for command, sign in _SIGNS.items():
        text = text.replace(command, sign)
    return re.sub(r"\s+", " ", re.sub(r"\\[a-zA-Z]{1,20}\b|[{}]", "", text)).strip()
