"""Stage layout: how many blocks of each kind the first, a middle and the last pipeline stage run."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.arrays import ceil_div, maximum, minimum, where
from estimator.scenario.units import Number


@dataclass(frozen=True, kw_only=True, slots=True)
class StageKind:
    """One kind of stage: blocks of every kind that its rank runs, and whether embedding and head are there too.

    ``lacking``: blocks that all stages of this kind together run less than if each were the fullest of them.
    ``first_short``, ``last_short``: blocks that a rank's first and last chunk run less than its others.
    """

    name: str
    blocks: tuple[Number, ...]
    embedding: bool
    head: bool
    lacking: Number = 0.0
    first_short: Number = 0.0
    last_short: Number = 0.0

    @property
    def layers(self) -> Number:
        """Blocks of all kinds."""
        return sum(self.blocks[1:], self.blocks[0])


def stage_kinds(
    layers: tuple[int, ...], leading: tuple[bool, ...], *, stages: Number, virtual_stages: Number, folded: bool
) -> tuple[StageKind, ...]:
    """Return the only stage, or the first, a middle and the last one.

    Blocks are dealt out evenly, ceil(L / (p·v)) to a chunk; where that leaves chunks short, the last goes short first,
    because it has the head, then the first, which has the embedding, then those before the last. ``folded``: the last
    chunk runs on the first rank (zero-bubble V). Leading kinds fill the first stage; the others mix evenly.
    """
    total = sum(layers)
    if isinstance(stages, (int, float)) and stages == 1:
        return (StageKind(name="only", blocks=tuple(float(n) for n in layers), embedding=True, head=True),)
    full = ceil_div(total, stages * virtual_stages)
    short = full * stages * virtual_stages - total
    rank = full * virtual_stages
    taken_first = where(short >= 2, 1.0, 0.0) + (where(short >= 1, 1.0, 0.0) if folded else 0.0)
    taken_last = 0.0 if folded else where(short >= 1, 1.0, 0.0)
    counts = {
        "first": rank - taken_first,
        # Two stages have none in the middle; what stands for it is then no more than the lighter of the two.
        "middle": where(stages > 2, rank - where(short >= stages, 1.0, 0.0), rank - maximum(taken_first, taken_last)),
        "last": rank - taken_last,
    }
    lead = sum(n for n, early in zip(layers, leading, strict=True) if early)
    found = []
    for name, count in counts.items():
        head = name == ("first" if folded else "last")
        in_front = minimum(count, lead) if name == "first" else 0.0
        # What the first stage cannot hold of the leading kinds spills into the others.
        spilled = maximum(lead - counts["first"], 0.0) / maximum(stages - 1, 1) if name != "first" else 0.0
        early_count = in_front + spilled
        blocks = tuple(
            early_count * (n / lead) if early else (count - early_count) * (n / max(total - lead, 1))
            for n, early in zip(layers, leading, strict=True)
        )
        lacking = maximum(total_of(counts, stages) - total, 0.0) if name == "middle" else 0.0
        found.append(
            StageKind(
                name=name, blocks=blocks, embedding=name == "first", head=head, lacking=lacking,
                first_short=0.0 if folded or name != "first" else taken_first,
                last_short=0.0 if folded or name == "first" else rank - count,
            )
        )  # fmt: skip
    return tuple(found)


def total_of(counts: dict[str, Number], stages: Number) -> Number:
    """Blocks of a pipeline whose middle stages are all alike."""
    return counts["first"] + counts["last"] + (stages - 2) * counts["middle"]
