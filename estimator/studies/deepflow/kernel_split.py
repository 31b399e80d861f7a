"""Kernel parallelism: one matrix product over a grid of processors, forward and backward, with what has to travel.

C[a, c] = A[a, b] · B[b, c], A activations, B weights, and both gradients. Two ways (Ardalani 2022, arXiv 2211.03309,
section 5; the June 2019 revision of the public code for the order of the collectives):

``column-row``  b is cut by the first degree: every processor has columns of A and rows of B, and a partial C.
``row-column``  a is cut by the first degree, c by the second: every processor has rows of A and columns of B.

The FLOPs of all processors together are those of the whole product in every direction. Where the revision counts a
volume twice or with the wrong dimension, the volume here is what blocks in a simulation really send.
"""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.problems import Problem, divisors_near
from estimator.scenario.units import Number
from estimator.studies.deepflow.lstm import Product

KINDS = ("none", "row-column", "column-row")


@dataclass(frozen=True, kw_only=True)
class KernelSplit:
    """How one part's products are cut. ``column-row`` has one degree, ``row-column`` two."""

    kind: str = "none"
    first: int = 1
    second: int = 1

    @property
    def degree(self) -> int:
        """Processors that share the product."""
        return self.first * self.second

    @property
    def rows(self) -> int:
        """Pieces of the rows of A."""
        return self.first if self.kind == "row-column" else 1

    @property
    def inner(self) -> int:
        """Pieces of the inner dimension."""
        return self.first if self.kind == "column-row" else 1

    @property
    def columns(self) -> int:
        """Pieces of the columns of B."""
        return self.second if self.kind == "row-column" else 1

    @property
    def label(self) -> str:
        """For tables: ``RC 4 × 8``, ``CR 16``, or a dash."""
        if self.kind == "none":
            return "–"
        return f"RC {self.first} × {self.second}" if self.kind == "row-column" else f"CR {self.first}"


@dataclass(frozen=True, kw_only=True)
class KernelCollective:
    """One exchange among ``ranks``: ``words`` are those of the whole tensor that is gathered, reduced or redistributed.

    Every rank sends (and receives) (ranks − 1)/ranks of them; in an all-to-all that much of its own 1/ranks, in an
    all-reduce twice that much, in a shift its own 1/ranks to one other rank.
    """

    name: str
    kind: str
    ranks: int
    words: Number

    @property
    def sent_words(self) -> Number:
        """Words that one rank sends."""
        share = (self.ranks - 1) / self.ranks * self.words
        if self.kind == "all-reduce":
            return 2 * share
        if self.kind == "shift":
            return self.words / self.ranks
        return share / self.ranks if self.kind == "all-to-all" else share


@dataclass(frozen=True, kw_only=True)
class Cut:
    """What one processor does for one product or gradient."""

    products: tuple[Product, ...]
    collectives: tuple[KernelCollective, ...]


def split_of(kind: str, first: int, second: int) -> KernelSplit:
    """Build a split; without kernel parallelism both degrees are 1."""
    return KernelSplit(kind=kind, first=first, second=second) if kind != "none" else KernelSplit()


def problems(split: KernelSplit, product: Product, field: str) -> list[Problem]:
    """List degrees that do not fit the kind or do not divide the product; ``field`` is the stem of their names."""
    found = []
    if split.kind == "column-row" and split.second != 1:
        found.append(
            Problem(
                field=f"{field}_2",
                message="column-row cuts one dimension only",
                remedy="Set it to 1, or use row-column.",
            )
        )
    for size, degree, name in (
        (product.a, split.rows, "1"),
        (product.b, split.inner, "1"),
        (product.c, split.columns, "2"),
    ):
        if size % degree:
            message = f"{degree} does not divide {size:g}, a dimension of {product.name}"
            remedy = f"Choose {divisors_near(int(degree), int(size))}."
            found.append(Problem(field=f"{field}_{name}", message=message, remedy=remedy))
    return found


def forward(p: Product, split: KernelSplit, *, gather: bool = True) -> Cut:
    """Cut C = A·B. column-row: partial sums are reduced and scattered over the columns of C; row-column: the columns
    of C are gathered inside each row where the next product needs them (``gather``).
    """
    local = Product(name=p.name, a=p.a / split.rows, b=p.b / split.inner, c=p.c / split.columns)
    moves = [KernelCollective(name=f"{p.name} sums", kind="reduce-scatter", ranks=split.inner, words=p.a * p.c)]
    if gather:
        words = p.a / split.rows * p.c
        moves.append(KernelCollective(name=f"{p.name} columns", kind="all-gather", ranks=split.columns, words=words))
    return Cut(products=(local,), collectives=_real(moves))


def backward_weights(p: Product, split: KernelSplit, name: str) -> Cut:
    """Cut dB = Aᵀ·dC for the forward product ``p``.

    column-row: with dC whole (gathered once for both gradients) every processor has its rows of dB. row-column: each
    of the first degree takes 1/first of the rows of dB over the whole batch, so A is redistributed, dC gathered, and
    the rows of dB gathered afterwards.
    """
    d1 = split.rows
    local = Product(name=name, a=p.b / (split.inner * d1), b=p.a, c=p.c / split.columns)
    moves = [
        KernelCollective(name=f"{name} activations", kind="all-to-all", ranks=d1, words=p.a * p.b),
        KernelCollective(name=f"{name} gradient", kind="all-gather", ranks=d1, words=p.a * p.c / split.columns),
        KernelCollective(name=f"{name} weights", kind="all-gather", ranks=d1, words=p.b * p.c / split.columns),
    ]
    return Cut(products=(local,), collectives=_real(moves))


def backward_activations(p: Product, split: KernelSplit, name: str) -> Cut:
    """Cut dA = dC·Bᵀ for the forward product ``p``.

    column-row: dC is gathered, then every processor has its columns of dA. row-column: each of the second degree takes
    1/second of the columns of dA, so dC is gathered, B redistributed, and dA gathered afterwards.
    """
    d2 = split.columns
    local = Product(name=name, a=p.a / split.rows, b=p.c, c=p.b / (split.inner * d2))
    moves = [
        KernelCollective(name=f"{name} gradient", kind="all-gather", ranks=split.inner, words=p.a * p.c),
        KernelCollective(name=f"{name} gradient", kind="all-gather", ranks=d2, words=p.a / split.rows * p.c),
        KernelCollective(name=f"{name} weights", kind="all-to-all", ranks=d2, words=p.b * p.c),
        KernelCollective(name=f"{name} result", kind="all-gather", ranks=d2, words=p.a / split.rows * p.b),
    ]
    return Cut(products=(local,), collectives=_real(moves))


def alone(ranks: Number) -> bool:
    """Whether there is one rank only; an array of several splits has some."""
    return isinstance(ranks, int) and ranks == 1


def _real(moves: list[KernelCollective]) -> tuple[KernelCollective, ...]:
    return tuple(move for move in moves if not alone(move.ranks))
