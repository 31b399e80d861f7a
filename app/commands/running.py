"""``headroom run``: a measured run through a backend, followed until it ends; Ctrl-C cancels it."""

from __future__ import annotations

import asyncio
import shlex
import signal
import statistics
import sys
from pathlib import Path

from app import events
from app.commands.cpu import with_this_cpu
from app.commands.files import print_json, read_document
from app.commands.settings import settings_from
from app.disk import DataFolder
from app.jobs import job_from_json
from app.run import Run
from app.store import Store
from app.supervisor import Supervisor
from app.this_cpu import ThisCpu
from estimator.codec import encode
from estimator.measurement import Measurement
from estimator.units import bytes_text, seconds
from runners.job import Job, Request

FAILED = 1


def run(path: Path, as_json: bool, dry_run: bool, data: Path | None) -> int:
    """Run the job of a file and print what it measured; 1 where it failed or was cancelled."""
    document = read_document(path)
    scenario = document.get("scenario") if isinstance(document, dict) else None
    with_this_cpu(scenario, data)
    settings = settings_from({"data": data})
    folder = DataFolder(settings.data)
    folder.create()
    cpu = ThisCpu(folder, settings.probe_seconds)
    cpu.load()
    job = job_from_json(document, cpu)
    store = Store(settings.index_url, folder, settings.samples)
    store.open()
    try:
        supervisor = Supervisor(store, folder)
        if dry_run:
            _show(supervisor.request(job), as_json)
            return 0
        done, measurement = asyncio.run(_run(supervisor, store, job))
    finally:
        store.close()
    if as_json:
        print_json(measurement if measurement else done)
    elif measurement:
        print(_text(done, measurement))
    if done.state not in ("ok", "oom"):
        print(f"headroom: run {done.id} {done.state}: {done.message}", file=sys.stderr)
        return FAILED
    return 0


async def _run(supervisor: Supervisor, store: Store, job: Job) -> tuple[Run, Measurement | None]:
    await supervisor.start(recover=False)
    started = await supervisor.submit(job)
    cancelling: list[asyncio.Task[Run | None]] = []
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, lambda: cancelling.append(asyncio.create_task(supervisor.cancel(started.id))))
    try:
        async for _, line in supervisor.events(started.id):
            print(_said(line), file=sys.stderr, flush=True)
        await asyncio.gather(*cancelling)
    finally:
        await supervisor.stop()
    done = store.run(started.id)
    assert done is not None
    return done, store.measurement(done.measurement_id) if done.measurement_id else None


def _said(line: str) -> str:
    event = events.parse(line)
    assert event is not None, "the supervisor passes on events only"
    if event["kind"] == "state":
        return f"{event['state']}: {event['message']}" if event.get("message") else str(event["state"])
    took = f"  {seconds(event['step_s'])}" if event.get("step_s") else ""
    return f"{event.get('phase')} {event.get('step')}/{event.get('steps')}{took}"


def _show(request: Request, as_json: bool) -> None:
    if as_json:
        print_json(encode(request))
        return
    for name, value in request.environment.items():
        print(f"{name}={shlex.quote(value)} \\")
    print(shlex.join(request.command))


def _text(done: Run, measurement: Measurement) -> str:
    lines = [f"run {done.id}: {done.state}"]
    if measurement.steps_s:
        low_s, high_s = min(measurement.steps_s), max(measurement.steps_s)
        median_s = statistics.median(measurement.steps_s)
        lines.append(f"step time    {seconds(median_s)}  ({seconds(low_s)} to {seconds(high_s)})")
    lines += [f"  {name:22} {seconds(value)}" for name, value in measurement.phases_s.items() if value]
    if measurement.memory.peak_bytes:
        lines.append(f"peak memory  {bytes_text(measurement.memory.peak_bytes)}")
    return "\n".join(lines)
