"""Inputs of the transformer tables, and why ranks cannot share what these say."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.codec import spec
from estimator.scenario.grid_shape import grid_of, grid_problems, token_parts
from estimator.scenario.problems import Problem

TP_KINDS = ("1d", "2d", "2.5d", "3d")


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What can be changed; the defaults are the reference's."""

    mode: str = spec(
        "printed",
        choices=("printed", "corrected"),
        help="printed: the tables as they are in the reference; corrected: without its defects",
    )
    b: int = spec(1, minimum=1, maximum=10**6, help="sequences of a micro-batch")
    l: int = spec(2048, minimum=1, maximum=10**8, help="tokens of a sequence")  # noqa: E741 (the reference's letter)
    e: int = spec(12_288, minimum=1, maximum=10**7, help="hidden size")
    f: int = spec(49_152, minimum=1, maximum=10**8, help="inner size of the MLP")
    h: int = spec(96, minimum=1, maximum=10**5, help="heads")
    depth: int = spec(96, minimum=1, maximum=10**5, help="layers of the model")
    m: int = spec(4, minimum=1, maximum=10**5, help="tensor parallel degree, all ranks of the grid together")
    tp_kind: str = spec("1d", choices=TP_KINDS, help="1d (Megatron), 2d (SUMMA), 2.5d (Tesseract), 3d")
    tp_depth: int = spec(1, minimum=1, maximum=10**5, help="depth of the 2.5D grid: m = tp_depth·q²")
    element_bytes: float = spec(2.0, minimum=0.125, maximum=8, help="bytes of an element; fp16: 2")
    mask_bytes: float = spec(1.0, minimum=0.125, maximum=8, help="bytes of an element of a dropout mask")
    matrix_flops_per_s: float = spec(312e12, minimum=1e6, help="rate of matrix layers; A100: 312e12")
    vector_flops_per_s: float = spec(78e12, minimum=1e6, help="rate of the other layers; A100: 78e12")
    memory_bytes_per_s: float = spec(1555e9, minimum=1e6, help="device memory; A100 40 GB: 1555e9")
    nvlink_bytes_per_s: float = spec(600e9, minimum=1e3, help="inside a node, both directions; A100: 600e9")
    network_bytes_per_s: float = spec(100e9, minimum=1e3, help="between nodes, as the reference has it")
    nvlink_chips: int = spec(4, minimum=1, maximum=10**6, help="chips of a node")
    latency_s: float = spec(0.0, minimum=0, maximum=1, help="of each message; the reference has none")

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch."""
        return self.b * self.l

    @property
    def side(self) -> int:
        """Ranks along one side of the grid; all of them in 1D."""
        return self.m if self.tp_kind == "1d" else int(grid_of(self.tp_kind, self.m, self.tp_depth))

    @property
    def parts(self) -> int:
        """Parts into which the grid splits the tokens."""
        return int(token_parts(self.tp_kind, self.side, self.tp_depth))


def layout_problems(i: Inputs) -> list[Problem]:
    """List why these ranks cannot be laid out, by the names of the inputs."""
    divisions = [("e", i.e, "h", i.h)]
    if i.tp_kind == "1d":
        divisions += [("f", i.f, "m", i.m), ("h", i.h, "m", i.m), ("l", i.l, "m", i.m)]
    found = [
        Problem(
            field=field,
            message=f"{value} is not a multiple of {name} = {by}",
            remedy=f"Set {field} to a multiple of {by}, or {name} to a divisor of {value}.",
        )
        for field, value, name, by in divisions
        if value % by
    ]
    grid = grid_problems(
        i.tp_kind, i.m, i.tp_depth, micro_batch=i.b, seq_len=i.l, heads=i.h, kv_heads=i.h, hidden=i.e, ffn=i.f
    )
    names = {"plan.tp": "m", "plan.tp_depth": "tp_depth", "plan.micro_batch": "b", "training.seq_len": "l"}
    words = {"tp = ": "m = ", "Choose tp ": "Choose m ", "has tp ": "has m ", "micro_batch": "b", "seq_len": "l"}
    for problem in grid:
        message, remedy = problem.message, problem.remedy
        for theirs, ours in words.items():
            message, remedy = message.replace(theirs, ours), remedy.replace(theirs, ours)
        found.append(Problem(field=names.get(problem.field, problem.field), message=message, remedy=remedy))
    return found
