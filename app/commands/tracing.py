"""``headroom trace``: the op list of a program's step, made in a process of its own, and its prediction."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from app.commands.estimate import estimate
from app.tracing import BAD_INPUT, trace_command
from estimator.scenario.problems import refusal

FAILED = 1
_NO_PROGRAM = "Give SCRIPT.py, MODULE:FACTORY or --hf CONFIG.json before it; what follows -- is given to the program."


def trace(
    program: str,
    flags: Sequence[str],
    arguments: Sequence[str],
    out: Path | None,
    as_json: bool,
    data: Path | None,
    calibration: Sequence[Path] | None,
) -> int:
    """Trace and print the Estimate; the op list goes to ``out``, or nowhere. What the program prints goes to stderr.

    ``program``: what runs, "" where ``flags`` say it, which are those of ``python -m runners trace``; ``arguments``:
    the program's own.
    """
    if out is not None and not out.resolve().parent.is_dir():
        message = f"there is no folder {out.parent}"
        raise refusal("--out", message, "Choose a folder that exists.")
    if program.startswith("-"):  # what stands first behind the dashes is taken for it
        raise refusal(program, "is no program", _NO_PROGRAM)
    with tempfile.TemporaryDirectory(prefix="headroom-trace-") as folder:
        made = out or Path(folder) / "ops.json"
        command = trace_command([*([program] if program else []), *flags], made, quiet=out is None)
        command += ["--said-by", "headroom"]
        command += ["--", *arguments] if arguments else []
        code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, check=False).returncode
        if code < 0:
            print(f"headroom: the program ended by signal {-code}; what it said stands above.", file=sys.stderr)
        if code:
            return BAD_INPUT if code == BAD_INPUT else FAILED
        return estimate(made, as_json, data, calibration=calibration)
