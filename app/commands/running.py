"""``headroom run``: a measured run through a backend, followed until it ends; Ctrl-C cancels it."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

from app.commands.cpu import with_this_cpu
from app.commands.files import print_json, read_document, wrapped
from app.commands.measured_rows import MeasuredRows, lines, measured_rows
from app.commands.settings import settings_from
from app.disk import DataFolder
from app.errors import Refused
from app.runs import events
from app.runs.jobs import jobs_from_json
from app.runs.run import Run
from app.runs.supervisor import Supervisor
from app.store import Store
from app.summary import scenario_of
from app.this_cpu import ThisCpu
from estimator.estimate.estimate import estimate
from estimator.scenario.breakdown import SHOWN_PHASES
from estimator.scenario.codec import encode
from estimator.scenario.measurement import Measurement, disturbance, fullest_peak_bytes, step_time_s
from estimator.scenario.problems import InputProblems, Problem
from estimator.scenario.units import bytes_text, seconds
from runners.job import FINAL_STATES, Job, Request
from runners.terminal import Told

FAILED = 1


def run(path: Path, as_json: bool, dry_run: bool, data: Path | None) -> int:
    """Run the job of a file, or its list of jobs as one array, and print what was measured; 1 where any failed."""
    document = read_document(path)
    _check(path, document)
    for one in document if isinstance(document, list) else [document]:
        with_this_cpu(one.get("scenario") if isinstance(one, dict) else None, data)
    settings = settings_from({"data": data})
    folder = DataFolder(settings.data)
    folder.create()
    cpu = ThisCpu(folder, settings.probe_seconds)
    cpu.load()
    jobs = jobs_from_json(document, cpu, settings)
    store = Store(settings.index_url, folder, settings.samples)
    store.open()
    try:
        supervisor = Supervisor(store, folder)
        if dry_run:
            _show(supervisor.requests(jobs)[0], as_json)
            return 0
        finished = asyncio.run(_run(supervisor, store, jobs))
    finally:
        store.close()
    rows = [measured_rows(measurement, data) if measurement else None for _, measurement in finished]
    if as_json:
        documents = [
            _document(done, measurement, found) for (done, measurement), found in zip(finished, rows, strict=True)
        ]
        print_json(documents if isinstance(document, list) else documents[0])
    for (done, measurement), found in zip(finished, rows, strict=True):
        if measurement and not as_json:
            print("\n".join(_text(done, measurement) + (lines(found) if found else [])))
        if done.state not in ("ok", "oom"):
            print(f"headroom: run {done.id} {done.state}: {done.message}", file=sys.stderr)
    return 0 if all(done.state in ("ok", "oom") for done, _ in finished) else FAILED


def _check(path: Path, document: object) -> None:
    """Refuse what is no job at all, or a scenario that stands where a job should; raise InputProblems."""
    example = 'Write {"benchmark": "step", "scenario": {...}}.'
    for index, one in enumerate(document if isinstance(document, list) else [document]):
        where = f"[{index}]" if isinstance(document, list) else str(path)
        if not isinstance(one, dict):
            raise InputProblems([Problem(field=where, message="must be a job, a JSON object", remedy=example)])
        if "scenario" not in one and "model" in one and "benchmark" not in one:
            message = "is a scenario, which a job holds inside"
            raise InputProblems([Problem(field=where, message=message, remedy=example)])


async def _run(supervisor: Supervisor, store: Store, jobs: list[Job]) -> list[tuple[Run, Measurement | None]]:
    await supervisor.start(recover=False)
    started = [await supervisor.submit(jobs[0])] if len(jobs) == 1 else await supervisor.submit_array(jobs)
    watching = asyncio.gather(*(_watch(supervisor, run, len(jobs) > 1) for run in started))
    cancelling: list[asyncio.Task[None]] = []

    async def end(run: Run) -> None:
        try:
            await supervisor.cancel(run.id)
        except Refused as error:  # nobody would tell of its end
            print(f"headroom: run {run.id}: {error.detail}", file=sys.stderr)
            watching.cancel()

    def cancel() -> None:
        cancelling.extend(asyncio.create_task(end(run)) for run in started)

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, cancel)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        await asyncio.gather(*cancelling)
    finally:
        await supervisor.stop()
    finished = []
    for run in started:
        done = store.run(run.id)
        assert done is not None
        finished.append((done, store.measurement(done.measurement_id) if done.measurement_id else None))
    return finished


async def _watch(supervisor: Supervisor, run: Run, several: bool) -> None:
    """Print a run's events as they come, each state once; how it ended is told at the end, with its id."""
    start, told, ended, progress = f"{run.label}: " if several else "", "", "", Told()
    async for _, line in supervisor.events(run.id):
        event = events.parse(line)
        assert event is not None, "the supervisor passes on events only"
        if event["kind"] == "state" and event["state"] in FINAL_STATES:
            ended = event["state"]
            continue
        said = _state_text(event) if event["kind"] == "state" else progress.text(event)
        if said and said != told:
            print(start + said, file=sys.stderr, flush=True)
        told = said if event["kind"] == "state" else ""
    if several:
        print(start + ended, file=sys.stderr, flush=True)


def _state_text(event: dict[str, Any]) -> str:
    return f"{event['state']}: {event['message']}" if event["message"] else str(event["state"])


def _show(request: Request, as_json: bool) -> None:
    if as_json:
        print_json(encode(request))
        return
    if request.script:
        print(request.script)
        print("# submitted with")
    for name, value in request.environment.items():
        print(f"{name}={shlex.quote(value)} \\")
    print(shlex.join(request.command))
    said = (
        "Nothing was started. The folder in this command does not exist yet: a run makes it and writes the job into it."
    )
    print(f"headroom: {said}", file=sys.stderr)


def _document(done: Run, measurement: Measurement | None, found: MeasuredRows | None) -> Any:
    """The measurement, with what its rows should have been; the run where nothing was measured."""
    if measurement is None:
        return done
    return encode(measurement) | (encode(found) if found else {})


def _text(done: Run, measurement: Measurement) -> list[str]:
    text = [f"run {done.id}: {done.state}"]
    step_s, ratio = step_time_s(measurement.steps_s), disturbance(measurement.steps_s)
    if step_s is not None:
        spread = f"{seconds(min(measurement.steps_s))} to {seconds(max(measurement.steps_s))}"
        words = f"disturbed: steps differ by {ratio:.1f}×; the fastest is shown" if ratio else spread
        text.append(f"step time    {seconds(step_s)}  ({words})")
        text += _predicted(measurement, None if ratio else step_s)
    phases_s = [(shown.label, measurement.phases_s.get(name)) for name, shown in SHOWN_PHASES.items()]
    shown_s = [f"  {label:22} {seconds(value)}" for label, value in phases_s if value]
    if ratio and shown_s:
        text.append("by phase, of the median step:")
    text += shown_s
    if peak_bytes := fullest_peak_bytes(measurement):
        text.append(f"peak memory  {bytes_text(peak_bytes)}")
    # why a run is no full one is told with its end
    said = [one.message for one in measurement.warnings if one.code != measurement.status]
    return text + [line for message in said for line in wrapped(f"warning      {message}", hanging=13)]


def _predicted(measurement: Measurement, measured_s: float | None) -> list[str]:
    scenario = scenario_of(measurement)
    if scenario is None:
        return []
    found = estimate(scenario)
    difference = f", {found.step_time_s / measured_s - 1:+.1%}" if measured_s else ""
    chips, chip = scenario.cluster.chips, scenario.cluster.chip
    where = f"{chips} × {chip.name}" if chips > 1 else chip.name
    return [f"predicted    {seconds(found.step_time_s)} on {where}{difference}"]
