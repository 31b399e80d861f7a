"""This CPU: the chip ``cpu`` of the catalogue, measured here once and kept, never a constant."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from app.disk import DataFolder, read_json, write_json
from app.settings import ROOT
from estimator.scenario import catalog
from estimator.scenario.codec import decode
from estimator.scenario.hardware import Chip
from estimator.scenario.problems import InputProblems, Problem
from runners.processor import cpu_cores, cpu_name

LABEL = "This CPU"
LEAST_SHARE_FRAC = 0.5
"""Peaks measured with less of the CPU than this are measured again: half is where another program has as much."""
_log = logging.getLogger("headroom")


class ThisCpu:
    """The probe of one server or command; ``state`` is off, waiting, probing, ready or failed."""

    def __init__(self, data: DataFolder, seconds: float, *, enabled: bool = True) -> None:
        self.data, self.seconds = data, seconds
        self.share_frac = 1.0
        self.state = "waiting" if enabled else "off"
        self.message = ""
        self.finished = asyncio.Event()
        self.measuring = False
        self._asked: asyncio.Task[None] | None = None

    @property
    def cache_file(self) -> Path:
        """Where the result is kept: one file for each machine and version of torch."""
        facts = (cpu_name(), cpu_cores(), os.sysconf("SC_PHYS_PAGES"), platform.machine(), version("torch"))
        return self.data.cache / f"cpu-{hashlib.sha256(repr(facts).encode()).hexdigest()[:16]}.json"

    def load(self) -> bool:
        """Put the chip into the catalogue where an earlier probe left it; tell whether it did."""
        try:
            self._add(read_json(self.cache_file))
        except Exception:  # a damaged file can raise anything, and counts as none
            return False
        return True

    async def ensure(self, *, again: bool = False) -> None:
        """Load the chip or measure it; a failure is kept as ``state`` and ``message`` for whoever asks.

        One that was measured while others used the CPU, or that somebody wants ``again``, is measured again, and serves
        until then, though its file may be gone; of the two the one that had more of the CPU is kept.
        """
        try:
            if self.state != "off":
                self.load()
            if self.state in ("waiting", "failed"):
                self.state = "probing"
            serves = self.state == "ready"
            if self.state == "probing" or (serves and (again or self.share_frac < LEAST_SHARE_FRAC)):
                await self._probe(self.share_frac if serves else 0.0)
        except Exception as error:  # runs wait for this, and whoever asks is told why
            if self.state != "ready":
                self.state, self.message = "failed", str(error)
            _log.warning("this CPU could not be measured: %s", error)
        finally:
            self.finished.set()

    def measure_again(self) -> bool:
        """Begin to measure anew where nothing of that kind is under way; runs wait for it. Tell whether it may be."""
        if self.state == "off":
            return False
        if self.finished.is_set():
            self.finished.clear()
            self._asked = asyncio.create_task(self.ensure(again=True))
        return True

    async def stop(self) -> None:
        """End what was begun anew."""
        if self._asked is not None:
            self._asked.cancel()
            await asyncio.gather(self._asked, return_exceptions=True)

    def pending(self) -> list[dict[str, str]]:
        """List the chip as not yet measured, with the reason, until it stands in the catalogue."""
        if self.state == "ready":
            return []
        return [{"key": catalog.THIS_CPU, "label": LABEL, "state": self.state, "message": self._reason()}]

    def doubts(self) -> dict[str, str]:
        """Say why a prediction for this CPU says nothing, by the chip's key; empty where it does say something."""
        if self.state != "ready" or self.share_frac >= LEAST_SHARE_FRAC:
            return {}
        said = f"{LABEL} was measured while other programs left {100 * self.share_frac:.0f} % of it"
        return {catalog.THIS_CPU: f"{said}: its prediction says nothing. Measure it again while those are idle."}

    def refuse_unprobed(self, scenario_json: object) -> None:
        """Raise InputProblems where a scenario wants the chip ``cpu`` before it is measured."""
        if self.state == "ready" or not wants_cpu(scenario_json):
            return
        remedy = f"Try again in about {self.seconds + 5:.0f} seconds."
        if self.state in ("off", "failed"):
            other = "start the server with the probe" if self.state == "off" else "measure this CPU again"
            remedy = f"Choose another chip, or {other}."
        raise InputProblems([Problem(field="cluster.chip", message=self._reason(), remedy=remedy)])

    def _reason(self) -> str:
        return {
            "off": "this CPU is not measured, because the probe is switched off",
            "waiting": "this CPU is not measured yet",
            "probing": "this CPU is being measured",
        }.get(self.state, f"this CPU could not be measured: {self.message}")

    async def _probe(self, kept_share_frac: float) -> None:
        """Measure, and keep the result unless a kept one had more of the CPU."""
        self.measuring = True
        try:
            document = await self._measured()
        finally:
            self.measuring = False
        found_share_frac = _share_frac(document)
        if found_share_frac < LEAST_SHARE_FRAC:
            _log.warning("this CPU was busy while it was measured: its peaks are low; a starting server repeats it")
        if found_share_frac >= kept_share_frac:
            self._add(document)
            write_json(self.cache_file, document)

    async def _measured(self) -> Any:
        """What the probe writes, in a process of its own."""
        with tempfile.TemporaryDirectory(dir=self.data.cache) as folder:
            out = Path(folder) / "probe.json"
            options = ("--out", str(out), "--seconds", str(self.seconds), "--device", "cpu")
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "runners",
                "probe",
                *options,
                cwd=ROOT,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(self.seconds * 4 + 120):
                    output, _ = await process.communicate()
            except TimeoutError:
                raise RuntimeError("the probe did not end") from None
            finally:
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    await process.wait()
            if process.returncode != 0:
                last = output.decode("utf-8", "replace").strip().splitlines()[-1:] or ["no output"]
                raise RuntimeError(f"the probe ended with {process.returncode}: {last[0]}")
            return read_json(out)

    def _add(self, document: Any) -> None:
        chip = replace(decode(Chip, document["chip"], "chip"), name=catalog.THIS_CPU)
        share_frac = _share_frac(document)
        source = f"measured here with torch {version('torch')}: {cpu_name()}, {cpu_cores()} cores"
        if share_frac < LEAST_SHARE_FRAC:
            source += f", which were busy: {100 * share_frac:.0f} % of them were left"
        sources = {field.name: source for field in fields(chip) if isinstance(getattr(chip, field.name), (int, float))}
        label = chip.label or LABEL
        entry = catalog.CatalogEntry(
            key=catalog.THIS_CPU, label=label, value=chip, aliases=catalog.THIS_CPU_ALIASES, sources=sources
        )
        catalog.add("chips", entry)
        self.share_frac = share_frac
        self.state, self.message = "ready", ""


def _share_frac(document: Any) -> float:
    return float(document.get("samples", {}).get("cpu_share_frac", 1.0))


def wants_cpu(scenario_json: object) -> bool:
    cluster = scenario_json.get("cluster") if isinstance(scenario_json, Mapping) else None
    chip = cluster.get("chip") if isinstance(cluster, Mapping) else cluster
    return isinstance(chip, str) and catalog.is_this_cpu(chip)
