"""The chip ``cpu`` for commands: measured on demand, once, and kept in the data folder."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from app.commands.settings import settings_from
from app.disk import DataFolder
from app.this_cpu import ThisCpu, wants_cpu


def with_this_cpu(scenario_json: object, data: Path | None) -> str:
    """Make sure that the catalogue has this CPU where the scenario wants it; raise InputProblems where it cannot.

    Return, and say on stderr, why a prediction for it says nothing; "" where it does say something.
    """
    if not wants_cpu(scenario_json):
        return ""
    settings = settings_from({"data": data})
    folder = DataFolder(settings.data)
    folder.create()
    cpu = ThisCpu(folder, settings.probe_seconds)
    if not cpu.load():
        print(f"Measuring this CPU once, for {settings.probe_seconds:g} s.", file=sys.stderr)
        asyncio.run(cpu.ensure())
    cpu.refuse_unprobed(scenario_json)
    doubt = " ".join(cpu.doubts().values())
    if doubt:
        print(doubt, file=sys.stderr)
    return doubt


def with_kept_cpu() -> str:
    """Put this CPU into the catalogue where it was measured before; never measure it.

    Return why a prediction for it says nothing; "" where it does say something.
    """
    settings = settings_from({})
    cpu = ThisCpu(DataFolder(settings.data), settings.probe_seconds)
    cpu.load()
    return " ".join(cpu.doubts().values())
