"""Settings of a command: arguments before HEADROOM_* variables before defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from app.settings import Settings
from estimator.scenario.problems import InputProblems, Problem


def settings_from(arguments: Mapping[str, Any]) -> Settings:
    """Build the settings from the arguments that were given; raise InputProblems naming the variable."""
    try:
        return Settings(**{name: value for name, value in arguments.items() if value is not None})
    except ValidationError as error:
        problems = []
        for found in error.errors():
            name = str(found["loc"][0]) if found["loc"] else "settings"
            given = arguments.get(name) is not None
            field = f"--{name.replace('_', '-')}" if given else f"HEADROOM_{name.upper()}"
            problems.append(Problem(field=field, message=str(found["msg"]), remedy="Correct it or leave it out."))
        raise InputProblems(problems) from None
