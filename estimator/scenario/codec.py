"""JSON to the frozen dataclasses and back, by their own fields; unknown keys are refused with a remedy.

Standard library only, because a runner uses it on hosts that have nothing but Python and torch.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Collection, Iterable, Mapping
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from estimator.scenario.problems import InputProblems, Problem, repeated, shown
from estimator.scenario.units import counted

T = TypeVar("T")

_LARGEST = 1e18
_SINGLE = frozenset((int, float, bool, str))


def spec(
    default: Any = dataclasses.MISSING,
    *,
    choices: tuple[str, ...] | None = None,
    labels: Mapping[str, str] | None = None,
    minimum: float | None = None,
    maximum: float = _LARGEST,
    help: str = "",
) -> Any:
    """Declare a dataclass field together with what is legal for it, what people call choices, and a line of help."""
    metadata = {"choices": choices, "labels": labels or {}, "minimum": minimum, "maximum": maximum, "help": help}
    return dataclasses.field(default=default, metadata=metadata)


def decode(cls: type[T], data: object, where: str = "") -> T:
    """Build ``cls`` from a JSON object; raise InputProblems naming each bad field and its remedy."""
    problems: list[Problem] = []
    values = _values(cls, data, where, problems)
    if problems:
        raise InputProblems(problems)
    return cls(**values)


def encode(value: Any) -> Any:
    """Turn dataclasses, tuples and mappings into plain JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    return value


_types: dict[type[Any], dict[str, Any]] = {}


def types_of(cls: type[Any]) -> dict[str, Any]:
    """Return the types of a class's fields; they stand there as text, of which each is compiled, so once a class."""
    found = _types.get(cls)
    if found is None:
        found = _types[cls] = get_type_hints(cls)
    return found


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Known:
    """What a field takes, looked up once a class rather than with every value."""

    kind: Any
    metadata: Mapping[str, Any]
    required: bool


_known: dict[type[Any], dict[str, _Known]] = {}


def _fields_of(cls: type[Any]) -> dict[str, _Known]:
    """Return the fields of a class by name."""
    found = _known.get(cls)
    if found is None:
        hints, none = types_of(cls), dataclasses.MISSING
        found = _known[cls] = {
            f.name: _Known(
                kind=hints[f.name], metadata=f.metadata, required=f.default is none and f.default_factory is none
            )
            for f in dataclasses.fields(cls)
        }
    return found


MOST_NAMED = 16
"""Unknown keys of one object that are described one by one: each is compared with every known one."""


def unknown_keys(where: str, given: Iterable[object], known: Collection[str]) -> list[Problem]:
    """Describe the keys that are not in ``known``, many of them in one last problem."""
    wrong = [str(key) for key in given if key not in known]
    found = [_unknown_key(where, key, list(known)) for key in wrong[:MOST_NAMED]]
    if len(wrong) > MOST_NAMED:
        message = f"has {counted(len(wrong) - MOST_NAMED, 'unknown key')} more"
        remedy = f"Known keys: {', '.join(known)}."
        found.append(Problem(field=where or "(document)", message=message, remedy=remedy))
    return found


def _unknown_key(where: str, key: str, known: list[str]) -> Problem:
    """Describe a key that is not in ``known`` and suggest the nearest one."""
    key = repeated(key)
    near = difflib.get_close_matches(key, known, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else f"Known keys: {', '.join(known)}."
    return Problem(field=_join(where, key or "''"), message="unknown key", remedy=remedy)


def _values(cls: type[Any], data: object, where: str, problems: list[Problem]) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        problems.append(Problem(field=where or "(document)", message="must be a JSON object", remedy="Write {...}."))
        return {}
    fields = _fields_of(cls)
    problems += unknown_keys(where, data, fields)
    values: dict[str, Any] = {}
    for name, field in fields.items():
        if name in data:
            value = data[name]
            if not _stands(field.kind, value, field.metadata):
                value = _value(field.kind, value, _join(where, name), field.metadata, problems)
            values[name] = value
        elif field.required:
            remedy = _remedy(field.kind, field.metadata)
            problems.append(Problem(field=_join(where, name), message="is missing", remedy=remedy))
    return values


def _stands(kind: Any, value: object, metadata: Mapping[str, Any]) -> bool:
    """Whether a value is one number, text or truth of its kind and legal as it is, as most are."""
    if type(value) is not kind or kind not in _SINGLE:
        return False
    choices = metadata.get("choices")
    if choices and value not in choices:
        return False
    return kind not in (int, float) or _within(value, metadata)


def _value(kind: Any, value: object, path: str, metadata: Mapping[str, Any], problems: list[Problem]) -> Any:
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, kind):  # read already
            return value
        before = len(problems)
        inner = _values(kind, value, path, problems)
        return kind(**inner) if len(problems) == before else None
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        if value is None and type(None) in arguments:
            return None
        (kind,) = (a for a in arguments if a is not type(None))
        return _value(kind, value, path, metadata, problems)
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(_value(arguments[0], v, f"{path}[{i}]", {}, problems) for i, v in enumerate(value))
    if origin is dict and isinstance(value, Mapping):
        return {str(k): _value(arguments[1], v, f"{path}.{k}", {}, problems) for k, v in value.items()}
    if not _is(origin or kind, value):
        problems.append(
            Problem(field=path, message=f"must be {_word(kind)}, not {shown(value)}", remedy=_remedy(kind, metadata))
        )
        return value
    choices = metadata.get("choices")
    if choices and value not in choices:
        near = difflib.get_close_matches(str(value).lower(), choices, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        problems.append(
            Problem(field=path, message=f"{shown(value)} is not known", remedy=f"{hint}One of: {', '.join(choices)}.")
        )
    if kind in (int, float) and isinstance(value, (int, float)) and not _within(value, metadata):
        low, high = metadata.get("minimum"), metadata.get("maximum", _LARGEST)
        problems.append(Problem(field=path, message=f"{shown(value)} is out of range", remedy=_range(kind, low, high)))
        return value
    return float(value) if kind is float and isinstance(value, (int, float)) else value


def _within(value: Any, metadata: Mapping[str, Any]) -> bool:
    low, high = metadata.get("minimum"), metadata.get("maximum", _LARGEST)
    # One comparison also refuses nan, infinities and whole numbers that no float can hold.
    return bool((-_LARGEST if low is None else low) <= value <= high)


def _is(kind: Any, value: object) -> bool:
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    if kind in (bool, str):
        return isinstance(value, kind)
    return kind is Any


def _word(kind: Any) -> str:
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "text", tuple: "a list"}
    return words.get(get_origin(kind) or kind, "an object")


def _remedy(kind: Any, metadata: Mapping[str, Any]) -> str:
    if metadata.get("choices"):
        return f"One of: {', '.join(metadata['choices'])}."
    low, high = metadata.get("minimum"), metadata.get("maximum", _LARGEST)
    if low is None:
        return f"Give {_word(kind)}."
    if high < _LARGEST:
        return f"Give {_word(kind)} from {low:g} to {high:g}."
    return f"Give {_word(kind)} of at least {low:g}."


def _range(kind: Any, low: float | None, high: float) -> str:
    """Say both ends: to one whose number is too large the smallest one says nothing."""
    if low is None:
        return f"Give {_word(kind)} of at most {high:g}."
    return f"Give {_word(kind)} from {low:g} to {high:g}."


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
