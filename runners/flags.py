"""Flags: a benchmark's options on a command line, one flag each, with what they may be and their defaults."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, get_type_hints

from runners.options import OPTIONS, Nothing, whole


def add_arguments(parser: argparse._ActionsContainer, benchmark: str) -> None:
    """Give a command line one flag for each option, lists separated by commas."""
    cls = OPTIONS.get(benchmark, Nothing)
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        flag, kind = f"--{field.name.replace('_', '-')}", hints[field.name]
        common: dict[str, Any] = {"default": argparse.SUPPRESS, "dest": f"option_{field.name}", "help": _help(field)}
        if kind is bool:
            common["action"] = argparse.BooleanOptionalAction
        else:
            common |= {"type": _reader(kind), "metavar": "LIST" if kind not in (str, int, float) else "X"}
        parser.add_argument(flag, **common)


def from_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
    """Collect what ``add_arguments`` read, as a job holds it."""
    prefix = "option_"
    return {key[len(prefix) :]: value for key, value in vars(arguments).items() if key.startswith(prefix)}


def _reader(kind: Any) -> Any:
    inner = int if kind in (int, tuple[int, ...]) else float if kind is float else str
    one = _whole_number if inner is int else inner
    if kind in (int, float, str):
        return one

    def items(text: str) -> list[Any]:
        return [one(part.strip()) for part in text.split(",") if part.strip()]

    return items


def _whole_number(text: str) -> int:
    try:
        return whole(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _help(field: dataclasses.Field[Any]) -> str:
    """What an option is, what it may be, and what it is if left out; where that depends, its own words say it."""
    choices, default = field.metadata.get("choices"), field.default
    said = [", ".join(choices)] if choices else []
    if isinstance(default, bool):
        said += ["default yes"] if default else []
    elif isinstance(default, tuple):
        listed = "all" if default == choices else ",".join(str(item) for item in default)
        said += [f"default {listed}"] if default else []
    else:
        said.append(f"default {default:g}" if isinstance(default, float) else f"default {default}")
    return f"{field.metadata['help']} ({'; '.join(said)})" if said else str(field.metadata["help"])
