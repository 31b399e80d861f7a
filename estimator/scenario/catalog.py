"""Catalogue: models, chips and links by stable names, one TOML file each, a source beside every number.

A file holds the fields of its dataclass, ``aliases``, and a table ``[sources]`` with one line per number.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from estimator.scenario.codec import decode
from estimator.scenario.hardware import Chip, Link
from estimator.scenario.model import Model
from estimator.scenario.problems import LISTED, InputProblems, Problem, either, repeated

ROOT = Path(__file__).parents[1] / "catalog"

T = TypeVar("T", Model, Chip, Link)

THIS_CPU = "cpu"
"""Name of the CPU that runs this, which whoever measures it adds; no file has it."""
THIS_CPU_ALIASES = ("this-cpu",)


def is_this_cpu(name: str) -> bool:
    """Whether a name, however it is written, is that of the CPU that runs this, be it measured or not."""
    return _plain(name) in (THIS_CPU, *THIS_CPU_ALIASES)


@dataclass(frozen=True, kw_only=True)
class CatalogEntry:
    """One catalogue file: the noun it describes, its other names, and where its numbers come from."""

    key: str
    label: str
    value: Any
    aliases: tuple[str, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)


KINDS: dict[str, type[Any]] = {"models": Model, "chips": Chip, "links": Link}


def model(name: str) -> Model:
    """Return the catalogue's model of that name or alias; raise InputProblems with the nearest names."""
    value = _find("models", name, "model")
    assert isinstance(value, Model)
    return value


def chip(name: str) -> Chip:
    """Return the catalogue's chip of that name or alias; raise InputProblems with the nearest names."""
    value = _find("chips", name, "cluster.chip")
    assert isinstance(value, Chip)
    return value


def link(name: str, where: str = "cluster.link") -> Link:
    """Return the catalogue's link or network of that name or alias; raise InputProblems."""
    value = _find("links", name, where)
    assert isinstance(value, Link)
    return value


def known(kind: str, name: str) -> Any | None:
    """Return what ``models``, ``chips`` or ``links`` have of that name or alias; None where they have none."""
    return _by_alias(kind).get(_plain(name))


@cache
def entries(kind: str) -> tuple[CatalogEntry, ...]:
    """Read all entries of ``models``, ``chips`` or ``links``, sorted by key."""
    found = {path.stem: _read(path, KINDS[kind]) for path in (ROOT / kind).glob("*.toml")}
    found |= _added.get(kind, {})
    return tuple(found[key] for key in sorted(found))


@cache
def _by_alias(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for entry in entries(kind):
        # What was found at run time may be a chip of the files under another key.
        label = "" if entry.key in _added.get(kind, {}) else entry.label
        for alias in filter(None, (entry.key, *entry.aliases, label)):
            word = _plain(alias)
            assert found.get(word, entry.value) is entry.value, f"{kind}: alias {alias!r} is taken twice"
            found[word] = entry.value
    return found


def add(kind: str, entry: CatalogEntry) -> None:
    """Put an entry that was found at run time (the probed ``cpu`` chip) beside those of the files, or replace it."""
    global _revision
    assert kind in KINDS, kind
    _revision += 1
    _added[kind] = {**_added.get(kind, {}), entry.key: entry}
    entries.cache_clear()
    _by_alias.cache_clear()


def revision() -> int:
    """Another number whenever what a name stands for may have changed."""
    return _revision


_added: dict[str, dict[str, CatalogEntry]] = {}
_revision = 0


def _find(kind: str, name: str, where: str) -> Any:
    found = known(kind, name)
    if found is not None:
        return found
    keys = [entry.key for entry in entries(kind)]
    near = difflib.get_close_matches(name.lower(), keys, n=3, cutoff=0.4)
    listed = f"Choose one of its {len(keys)}; headroom catalog {kind} lists them."
    remedy, remedy_kind = (f"Did you mean {either(near)}?", "") if near else (listed, LISTED)
    if kind == "chips" and is_this_cpu(name):
        # Where the application runs it puts this machine's own there, before anybody asks for it.
        remedy = "Run python -m runners probe --device cpu --out PROBE.json, and give its object 'chip' here."
        remedy_kind = ""
    message = f"{repeated(name)!r} is not in the catalogue of {kind}"
    raise InputProblems([Problem(field=where, message=message, remedy=remedy, remedy_kind=remedy_kind)])


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-")


def _read(path: Path, cls: type[Any]) -> CatalogEntry:
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    aliases = tuple(document.pop("aliases", ()))
    sources = document.pop("sources", {})
    label = document.pop("label", path.stem)
    values = {"name": path.stem, **document}
    if "label" in {f.name for f in fields(cls)}:
        values["label"] = label
    return CatalogEntry(
        key=path.stem, label=label, value=decode(cls, values, path.name), aliases=aliases, sources=sources
    )
