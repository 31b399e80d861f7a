"""Plans in a terminal: columns in which they differ, and those alike in time and memory behind the first of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from app.commands.files import WIDTH, table, wrapped
from estimator.scenario.plan import Plan
from estimator.scenario.units import bytes_text, engineering, seconds
from estimator.search.sweep import Found

ALIKE_FRAC = 1e-3
"""Plans whose time and memory differ by less are one line."""

HEADS = {
    "tp_kind": "kind", "tp_depth": "depth", "sequence_parallel": "sp", "cp_kind": "cpkind", "virtual_stages": "vs",
    "schedule": "sched", "expert_tp": "etp", "sharding": "shard", "shard_ranks": "copy", "micro_batch": "mb",
    "recompute": "recomp", "recompute_every": "every", "bucket_bytes": "bucket",
}  # fmt: skip
"""Short heads of columns; the other fields of a plan keep their names."""

VALUES = {"interleaved": "interl", "zero-bubble": "zb", "zero-bubble-v": "zb-v", "selective": "select",
          "all-gather": "gather", "true": "yes", "false": "no"}  # fmt: skip
"""Short words for values."""

NAMES = tuple(f.name for f in fields(Plan))


@dataclass(frozen=True, kw_only=True)
class AlikePlans:
    """A plan, and those that are as fast and as small to within ALIKE_FRAC."""

    first: Found
    others: tuple[Found, ...] = ()


def grouped(plans: Sequence[Found]) -> list[AlikePlans]:
    """Put every plan behind the first one that it is alike to; the order of the first ones stays."""
    members: list[list[Found]] = []
    for plan in plans:
        home = next((group for group in members if _alike(group[0], plan)), None)
        if home is None:
            members.append([plan])
        else:
            home.append(plan)
    return [AlikePlans(first=first, others=tuple(others)) for first, *others in members]


def plans_text(plans: Sequence[Found], wide: bool) -> str:
    """Write plans as a table of at most WIDTH columns; ``wide``: every field and figure, however long the lines."""
    groups = grouped(plans)
    rows = [written(group.first.scenario["plan"]) for group in groups]
    named = [name for name in NAMES if any(name in plan.scenario["plan"] for plan in plans)]
    if wide:
        return _with_others(groups, named, _table(groups, rows, named, wide=True))
    columns = [name for name in named if len({row[name] for row in rows}) > 1]
    alike = "  ".join(f"{name}={rows[0][name]}" for name in named if name not in columns and rows[0][name])
    left_out: list[str] = []
    while len(max(_table(groups, rows, columns), key=len)) > WIDTH:
        left_out.insert(0, columns.pop())
    lines = wrapped(f"in every line: {alike}" if columns or left_out else f"plan: {alike}", "  ") if alike else []
    # A head that begins its field's name needs no explanation.
    unclear = [name for name in columns if not name.startswith(HEADS.get(name, name))]
    lines += wrapped(", ".join(f"{HEADS[name]}: {name}" for name in unclear), "  ")
    if left_out:
        lines += wrapped(f"for want of room only with --wide: {', '.join(left_out)}", "  ")
    return "\n".join([*lines, _with_others(groups, named, _table(groups, rows, columns))])


def written(plan: Mapping[str, Any]) -> dict[str, str]:
    """Write every field of a plan; of the placement only the axes that have more than one rank."""
    values = {name: plan.get(name, getattr(Plan(), name)) for name in NAMES}
    order = [axis for axis in values["placement"].split("-") if values[axis] > 1]
    values["placement"] = "-".join(order) if len(order) > 1 else ""
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def _table(groups: Sequence[AlikePlans], rows: Sequence[Mapping[str, str]], columns: Sequence[str], *,
           wide: bool = False) -> list[str]:  # fmt: skip
    heads = [name if wide else HEADS.get(name, name) for name in columns]
    figures = ["step time", "tokens/s", "MFU", "memory", "chip-seconds"] if wide else ["step time", "MFU", "memory"]
    figures += ["ties"] if any(group.first.ties for group in groups) else []
    body = []
    for group, row in zip(groups, rows, strict=True):
        cells = [row[name] if wide else _short(name, row[name]) for name in columns]
        texts = _figures(group.first)
        body.append(["", *cells, *(texts[name] for name in figures)])
    return table(["", *heads, *figures], body).splitlines()


def _short(name: str, value: str) -> str:
    return "all" if (name, value) == ("shard_ranks", "0") else VALUES.get(value, value)


def _figures(found: Found) -> dict[str, str]:
    return {
        "step time": seconds(found.step_time_s),
        "tokens/s": engineering(found.tokens_per_s, "").strip(),
        "MFU": f"{found.mfu:.1%}",
        "memory": bytes_text(found.peak_bytes),
        "chip-seconds": f"{found.cost_chip_s:.3g}",
        "ties": f"+{found.ties}" if found.ties else "",
    }


def _with_others(groups: Sequence[AlikePlans], named: Sequence[str], lines: Sequence[str]) -> str:
    """Put below each line how many plans are alike, and in which fields they differ from it."""
    head, *body = lines
    found = [head]
    for group, line in zip(groups, body, strict=True):
        found.append(line)
        if group.others:
            own = written(group.first.scenario["plan"])
            others = [written(other.scenario["plan"]) for other in group.others]
            differ = [name for name in named if any(other[name] != own[name] for other in others)]
            words = f", with other {', '.join(differ)}" if differ else ""
            found += wrapped(f"and {len(others)} more within {100 * ALIKE_FRAC:g} %{words}", "      ")
    return "\n".join(found)


def _alike(one: Found, other: Found) -> bool:
    pairs = ((one.step_time_s, other.step_time_s), (one.peak_bytes, other.peak_bytes))
    return all(abs(theirs - own) <= ALIKE_FRAC * own for own, theirs in pairs)
