"""The page's pure modules, run by the set-up's Node.js."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NODE = Path(sys.executable).with_name("node")
MODULES = Path(__file__).parent.parent / "static" / "js"
_CALL = """
import { readFileSync } from "node:fs";
const { module, name, calls } = JSON.parse(readFileSync(0, "utf-8"));
const called = (await import(module))[name];
const revived = ({ colour, ...given }) => (colour === true ? { ...given, colour: (token) => token } : given);
const whole = (one) => (one && typeof one === "object" && !Array.isArray(one) && "colour" in one ? revived(one) : one);
process.stdout.write(JSON.stringify(calls.map((given) => called(...given.map(whole)) ?? null)));
"""


def call_each(module: str, name: str, calls: Sequence[Sequence[Any]]) -> list[Any]:
    """Call a function of ``static/js/<module>.js`` once with each list of arguments, all in one process.

    Where an argument has ``"colour": True``, it gets the function that figures take, which answers with the token.
    """
    asked = json.dumps({"module": (MODULES / f"{module}.js").as_uri(), "name": name, "calls": calls}, allow_nan=False)
    command = [str(NODE), "--input-type=module", "--eval", _CALL]
    found = subprocess.run(command, input=asked, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    answers: list[Any] = json.loads(found.stdout)
    assert len(answers) == len(calls)
    return answers
