"""Analytical tables of one transformer block: FLOPs, memory, traffic, exchanges and times of every layer.

The reference (Subramanian et al. 2024, arXiv 2410.00273; tables of its public program) prints the MLP and
self-attention of a 175 billion parameter model under 1D tensor parallelism with a sequence split, on A100s.
"""

from __future__ import annotations

from estimator.scenario.problems import InputProblems, Problem
from estimator.studies.study import Figure, Result, Value, printed, printed_figures
from estimator.studies.transformer_tables.blocks import block_rows
from estimator.studies.transformer_tables.cells import cells, sums
from estimator.studies.transformer_tables.inputs import Inputs, layout_problems
from estimator.studies.transformer_tables.kinds import compared, cross_overs, drawn, kinds_of
from estimator.studies.transformer_tables.one_d import ALL_FIXES, FIXES

TITLE = "Tables of a transformer block under tensor parallelism"
SUMMARY = "FLOPs, memory, exchanges and times of every layer of an MLP and of self-attention; 1D, 2D, 2.5D and 3D."

FULL_DECIMALS = 15
"""Shares are printed with all the digits of a float; the last ones depend on the order of additions."""

PRINTED_DECIMALS = 6
"""The reference rounds every cell to six digits after the point."""

OTHER_CHANGES = {6: "rows fc2, dpr2, v_proj and dropout, but no sum"}

NOTES = (
    "Every exchange is added to the time of its layer; nothing overlaps. intensity is a ratio of times, not FLOP/B.",
    "Memory is decimal (GB = 1e9 B); an empty cell of the reference is written as none.",
    *(f"Defect {number}: {text}." for number, text in FIXES.items() if number <= 10),
    f"Next revision: {FIXES[11]}.",
    "Defects 1, 5, 9 and 10 are of the code shown beside the tables, and correcting them changes no printed figure.",
    "Corrected: layer_norm_2 stands before the MLP (4), so what it adds to the one table the other loses.",
    "Grids: volumes are those of all-gathers; store-and-forward broadcasts of panels take q times as long in 2D, 2.5D.",
)


def run(inputs: Inputs) -> Result:
    """Build the tables of these inputs; raises InputProblems where ranks do not divide what they share."""
    _check(inputs)
    fixes = ALL_FIXES if inputs.mode == "corrected" else frozenset()
    shown = printed_figures("transformer-tables") if inputs == Inputs() else {}
    figures = []
    for table, rows in block_rows(inputs, fixes).items():
        for row in rows:
            figures += [_figure(f"{table} {row.layer}", *cell, shown) for cell in cells(row, inputs, fixes)]
        figures += [_figure(f"{table} sums", *cell, shown) for cell in sums(rows, inputs, fixes)]
    if inputs.mode == "printed":
        for table, rows in block_rows(inputs, ALL_FIXES).items():
            figures += [_figure(f"{table} sums, corrected", *cell, {}) for cell in sums(rows, inputs, ALL_FIXES)]
    if inputs.tp_kind == "1d":
        figures += _defects(inputs)
    kinds = kinds_of(inputs)
    figures += compared(kinds, inputs) + cross_overs(kinds)
    return Result(
        study="transformer-tables",
        inputs=inputs,
        figures=tuple(figures),
        series=drawn(kinds, inputs, fixes),
        notes=NOTES,
    )


def _defects(i: Inputs) -> list[Figure]:
    """Return what each correction alone changes in the sums of the printed tables."""
    before = {table: sums(rows, i, frozenset()) for table, rows in block_rows(i, frozenset()).items()}
    found = []
    for number, text in FIXES.items():
        group = f"correction {number}" if number <= 10 else "next revision"
        changes = [
            Figure(group=group, name=f"{table} {name}, change", value=float(new) - float(old), unit=unit)
            for table, rows in block_rows(i, frozenset({number})).items()
            for (name, old, unit), (_, new, _) in zip(before[table], sums(rows, i, frozenset({number})), strict=True)
            if abs(float(new) - float(old)) > 1e-9 * abs(float(old))
        ]
        found.append(Figure(group=group, name="what", value=text))
        found += changes or [Figure(group=group, name="changes", value=OTHER_CHANGES.get(number, "no printed figure"))]
    return found


def _figure(group: str, name: str, value: Value, unit: str, shown: dict[tuple[str, str], str]) -> Figure:
    text = shown.get((group, name))
    number, decimals = printed(text) if text is not None else (None, None)
    if isinstance(value, float):
        decimals = FULL_DECIMALS if decimals and decimals > FULL_DECIMALS else PRINTED_DECIMALS
    return Figure(group=group, name=name, value=value, unit=unit, printed=number, decimals=decimals)


def _check(i: Inputs) -> None:
    problems = layout_problems(i)
    if i.mode == "printed" and i.tp_kind != "1d":
        remedy = "Set mode=corrected, which fills them in."
        problems.append(Problem(field="tp_kind", message=f"the reference leaves {i.tp_kind} empty", remedy=remedy))
    if problems:
        raise InputProblems(problems)
