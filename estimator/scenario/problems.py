"""Problems: what is wrong with an input, which field it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One mistake in an input: the field's dotted path, what is wrong with it, and the remedy.

    ``remedy_kind``: of memory that lacks, what the remedy is worth (``REMEDY_KINDS``); of a name that the catalogue has
    not, where it lists what it has, ``LISTED``; "" of all others.
    """

    field: str
    message: str
    remedy: str
    remedy_kind: str = ""

    def __str__(self) -> str:
        return f"{self.field}: {self.message}. {self.remedy}"


REMEDY_KINDS = ("each", "together", "short")
"""Each change that it names is enough by itself; all of them together are; or even they are not."""
LISTED = "listed"
"""One of a list is to be chosen, which the page has where people choose."""
LONGEST_REPEATED = 80
"""Letters of what somebody gave that a message repeats."""
LONGEST_SHOWN = 40
"""Letters of a value, as Python writes it, that a message shows."""


def repeated(text: str) -> str:
    """Return what somebody gave as a message repeats it: whole, or its beginning."""
    return text if len(text) <= LONGEST_REPEATED else f"{text[:LONGEST_REPEATED]}…"


def shown(value: object) -> str:
    """Return a value of an input as a message shows it: as Python writes it, or its beginning."""
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 3]}..."


def either(values: Sequence[object]) -> str:
    """Name values to choose from, as in “1, 2 or 4”."""
    *others, last = map(str, values)
    return f"{', '.join(others)} or {last}" if others else last


def nearest(legal: Sequence[int], value: int) -> list[int]:
    """Return the legal values, ascending, that are next to one which is none: below it and above it."""
    return [*[n for n in legal if n < value][-1:], *[n for n in legal if n > value][:1]]


def divisors_near(value: int, size: int) -> str:
    """Name the divisors of a size that are next to a value which is none.

    >>> divisors_near(5, 12), divisors_near(7, 12)
    ('4 or 6', '6 or 12')
    """
    return either(nearest([n for n in range(1, min(size, 2 * value) + 1) if size % n == 0], value))


class InputProblems(ValueError):  # noqa: N818  (it carries problems; “error” would say less)
    """Raised when an input cannot be used; carries every problem found, not only the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        assert problems, "InputProblems needs at least one problem"
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


def refusal(field: str, message: str, remedy: str) -> InputProblems:
    """What to raise for one problem."""
    return InputProblems([Problem(field=field, message=message, remedy=remedy)])


@contextmanager
def fields_named(name: Callable[[str], str]) -> Iterator[None]:
    """Call fields of problems that are raised within as whoever gave them knows them."""
    try:
        yield
    except InputProblems as error:
        raise InputProblems([replace(one, field=name(one.field)) for one in error.problems]) from None
