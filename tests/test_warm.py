"""A fork that stands for a process: it ends as one, hears its signals, and code of another folder is started anew."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests import warm

RUNNERS = [warm.python(), "-m", "runners"]


def started(*command: str, **given) -> subprocess.Popen[str]:
    environment = os.environ | {"PYTHONPATH": str(warm.ROOT)} | given.pop("environment", {})
    given = {"cwd": warm.ROOT} | given
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **given
    )


def test_it_says_and_ends_as_the_command_does():
    refused = started(*RUNNERS, "step")
    assert "one of --scenario" in refused.communicate(timeout=120)[0]
    assert refused.returncode == 2
    helped = started(*RUNNERS, "--help")
    assert "Measure training" in helped.communicate(timeout=120)[0]
    assert helped.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_it_reaches_the_fork_and_a_kill_takes_it_along(number, tmp_path):
    command = (warm.python(), "-m", "tests.runners.sleeping", str(tmp_path / "pid"))
    # what a shell starts in the background ignores interrupts, and so does what is started there
    with started(*command, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler)) as process:
        _ends_with_its_fork(process, number, tmp_path / "pid")


def _ends_with_its_fork(process: subprocess.Popen[str], number: signal.Signals, written: Path) -> None:
    deadline = time.monotonic() + 120
    while not written.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    fork = int(written.read_text())
    assert fork != process.pid
    process.send_signal(number)
    try:
        assert process.wait(60) == -number
    finally:
        process.kill()
    while os.path.exists(f"/proc/{fork}"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_code_of_another_folder_is_started_anew(tmp_path):
    (tmp_path / "runners.py").write_text("import sys; print(sys.executable, 'torch' in sys.modules)")
    done = started(*RUNNERS, cwd=tmp_path)
    assert done.communicate(timeout=60)[0] == f"{warm.COLD} False\n"
    done = started(*RUNNERS, cwd=tmp_path.parent, environment={"PYTHONPATH": str(tmp_path)})
    assert done.communicate(timeout=60)[0] == f"{warm.COLD} False\n"
