"""One layer laid out in every kind of tensor parallelism that its ranks allow, side by side."""

from __future__ import annotations

from dataclasses import replace

from estimator.studies.study import Figure, Series, Value
from estimator.studies.transformer_tables.blocks import block_rows
from estimator.studies.transformer_tables.cells import GB, MS, times
from estimator.studies.transformer_tables.inputs import TP_KINDS, Inputs, layout_problems
from estimator.studies.transformer_tables.one_d import ALL_FIXES
from estimator.studies.transformer_tables.volumes import linear_exchange_bytes, mlp_elements


def kinds_of(i: Inputs) -> dict[str, Inputs]:
    """Return the kinds of tensor parallelism that these ranks can be laid out in, at the same degree."""
    found = {}
    for kind in TP_KINDS:
        depths = [i.tp_depth] if kind != "2.5d" or i.tp_depth > 1 else _depths(i.m)
        for depth in depths:
            one = replace(i, mode="corrected", tp_kind=kind, tp_depth=depth if kind == "2.5d" else 1)
            if not layout_problems(one):
                found[kind if kind != "2.5d" else f"2.5d, depth {depth}"] = one
                break
    return found


def _depths(ranks: int) -> list[int]:
    """Depths above 1 with which ``ranks`` are depth·q², the squarest grid (depth nearest q) first."""
    pairs = [(ranks // (q * q), q) for q in range(2, ranks + 1) if q * q < ranks and ranks % (q * q) == 0]
    return [depth for depth, q in sorted(pairs, key=lambda pair: abs(pair[0] - pair[1]))]


def compared(kinds: dict[str, Inputs], i: Inputs) -> list[Figure]:
    """Return volumes, memory and times of one layer in every kind."""
    found = []
    for name, one in kinds.items():
        rows = [row for table in block_rows(one, ALL_FIXES).values() for row in table]
        priced = [times(row, one, ALL_FIXES) for row in rows]
        values = {
            "volume of the four linears, forward": (linear_exchange_bytes(one, "forward") * GB, "GB"),
            "volume of the four linears, backward": (linear_exchange_bytes(one, "backward") * GB, "GB"),
            "all exchanges, forward": (sum(x.bytes for row in rows for x in row.forward) * GB, "GB"),
            "all exchanges, backward": (sum(x.bytes for row in rows for x in row.backward) * GB, "GB"),
            "weights": (sum(row.weights_bytes for row in rows) * GB, "GB"),
            "kept for backward": (sum(row.buffer_bytes for row in rows) * GB, "GB"),
            "time forward": (sum(t.total_s[0] for t in priced) * MS, "ms"),
            "time backward": (sum(t.total_s[1] for t in priced) * MS, "ms"),
        }
        group = f"one layer, corrected, {name}, {i.m} ranks"
        found += [Figure(group=group, name=key, value=value, unit=unit) for key, (value, unit) in values.items()]
    return found


def cross_overs(kinds: dict[str, Inputs]) -> list[Figure]:
    """Return the tokens from which a grid moves less than 1D for the MLP's two linears, both ways.

    Volumes are affine in the tokens M: a₁ + b₁·M = a₂ + b₂·M; they cross where 1D grows faster.
    """
    found = []
    for name, one in kinds.items():
        if name == "1d" or "1d" not in kinds or one.m == 1:
            continue
        (flat, flat_slope), (grid, grid_slope) = _affine(kinds["1d"]), _affine(one)
        value: Value = (grid - flat) / (flat_slope - grid_slope) if flat_slope > grid_slope else "never"
        found.append(Figure(group="tokens from which a grid moves less than 1D, MLP", name=name, value=value))
    return found


def _affine(i: Inputs) -> tuple[float, float]:
    at_none, at_one = (mlp_elements(i, tokens) for tokens in (0, 1))
    return at_none, at_one - at_none


def drawn(kinds: dict[str, Inputs], i: Inputs, fixes: frozenset[int]) -> tuple[Series, ...]:
    """Return the times of each row as the inputs have it, and volumes and times of one layer by kind."""
    own = [row for table in block_rows(i, fixes).values() for row in table]
    priced = [times(row, i, fixes) for row in own]
    layers = tuple(row.layer for row in own)
    found = []
    for index, phase in enumerate(("forward", "backward")):
        for what, values in (("layer", [t.roofline_s[index] for t in priced]),
                             ("exchange", [t.exchange_s[index] for t in priced])):  # fmt: skip
            found.append(
                Series(group=f"time of each layer, {i.tp_kind}", name=f"{phase}, {what}", x_label="", y_label="ms",
                       kind="bar", stacked=True, x=layers, y=tuple(value * MS for value in values))
            )  # fmt: skip
    by_kind = {(figure.group, figure.name): float(figure.value) for figure in compared(kinds, i)}
    for title, names, unit in (
        ("received by a rank in one layer, by kind", ("all exchanges, forward", "all exchanges, backward"), "GB"),
        ("time of one layer, by kind", ("time forward", "time backward"), "ms"),
    ):
        for name in names:
            y = tuple(by_kind[f"one layer, corrected, {kind}, {i.m} ranks", name] for kind in kinds)
            found.append(
                Series(
                    group=title,
                    name=name.split()[-1],
                    x_label="",
                    y_label=unit,
                    kind="bar",
                    stacked=True,
                    x=tuple(kinds),
                    y=y,
                )
            )
    return tuple(found)
