"""Op lists as ``headroom trace`` and ``headroom import --ops`` write them: a measurement with the step time of the
profile that it came from, and with nothing where a program was traced.
"""

from __future__ import annotations

import shlex
from pathlib import PurePath
from typing import Any

import msgspec

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.source import Source
from estimator.scenario import catalog
from estimator.scenario.measurement import Measurement, Origin
from estimator.scenario.op_list import OpList, from_json, to_json
from estimator.scenario.problems import InputProblems


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read an op list; raise ImportRefused that names the first field that cannot be used."""
    data = source.read("ops")
    if source.damage:
        remedy = "Copy the file again, whole."
        raise ImportRefused("ops", "the end", f"the compressed file is {source.damage}", remedy)
    try:
        found = from_json(msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf")))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ImportRefused("ops", "", f"this is not valid JSON ({error})", "Trace the program again.") from None
    except InputProblems as error:
        first = error.problems[0]
        raise ImportRefused("ops", first.field[:80], first.message[:200], first.remedy[:300]) from None
    measurement = Measurement(
        label=_label(found, filename),
        origin=Origin(kind="upload", format="ops", producer="headroom"),
        device=_device(found),
        world_size=found.world_size,
        rank=min(found.rank, found.world_size - 1),
        steps_s=() if found.loop_s is None else (found.loop_s,),
        environment=_ran(found),
    )
    return Imported(measurements=(measurement,), op_lists=(to_json(found),))


def _label(found: OpList, filename: str) -> str:
    """Program and arguments, and the file where its name says more: traces of one script are told apart by these."""
    if found.source != "trace" or not found.program:
        return (found.program or filename)[:200]
    said = shlex.join([found.program, *found.arguments])[:150]
    own = PurePath(found.program).name.removesuffix(".py").removesuffix(".json")
    file = filename.removesuffix(".gz").removesuffix(".json").removesuffix(".ops").removesuffix("_ops")
    return said if file in (own, "ops", "upload") else f"{said} ({filename[:40]})"


def _ran(found: OpList) -> dict[str, Any]:
    """What a traced program was run with."""
    if found.source != "trace":
        return {}
    return {"program": found.program, "arguments": list(found.arguments), **found.versions}


def _device(found: OpList) -> dict[str, str]:
    try:
        return {"name": catalog.chip(found.chip).label or found.chip}
    except InputProblems:
        return {"name": found.chip}
