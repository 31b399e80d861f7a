"""Whatever happens in a run, its outcome is written: real processes, really out of memory, really stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from runners.job import RESULT_FILE, Job, last_state, read_events, read_measurement, write_job
from runners.worker import Cancelled, raise_cancelled
from tests import warm
from tests.forks import run_forked, run_in_fork
from tests.runners.examples import ROOT, limited, run_module, scenario_json, too_large, write_scenario


def test_a_second_signal_disturbs_nothing_that_the_first_began():
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(number, raise_cancelled) for number in numbers]
    try:
        with pytest.raises(Cancelled):
            signal.raise_signal(signal.SIGTERM)
        for number in numbers:
            signal.raise_signal(number)  # torchrun's, after Slurm's
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)


def test_out_of_memory_is_a_result(tmp_path):
    write_job(tmp_path, Job(scenario=too_large(), device="cpu"))
    command = limited((warm.python(), "-m", "runners", "step", "--job", str(tmp_path)))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    result = read_measurement(tmp_path / RESULT_FILE)
    assert result.status == "oom"
    assert result.samples == {"stage": "warmup", "phase": "forward"}
    assert "out of memory in forward (warmup)" in result.warnings[-1].message
    assert result.scenario["plan"]["micro_batch"] == 1_000_000
    assert last_state(tmp_path)["state"] == "oom"


def test_a_stopped_run_is_cancelled(tmp_path):
    write_job(tmp_path, Job(scenario=scenario_json(), device="cpu", steps=100_000))
    command = (sys.executable, "-m", "runners", "step", "--job", str(tmp_path))
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)
    while not any(event.get("phase") == "measure" for event in read_events(tmp_path)):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=240)
    assert process.returncode == 143
    assert read_measurement(tmp_path / RESULT_FILE).status == "cancelled"
    assert last_state(tmp_path)["message"] == "stopped on request"


STOPPED_WITHIN_AN_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            sys.meta_path.remove(Finder)
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                name += ""
            except BaseException:
                if name == "torch.autograd":  # as C++ may, which makes another error of what it meets
                    raise RuntimeError("half imported") from None
                raise
sys.meta_path.insert(0, Finder)
from runners.__main__ import main
from runners.worker import leave
leave(main(sys.argv[2:]))
"""


@pytest.mark.parametrize("module", ["torch._C", "torch.cuda", "torch.nn.functional", "torch.autograd"])
def test_a_run_that_is_stopped_while_it_imports_torch_is_cancelled(tmp_path, module):
    write_job(tmp_path, Job(scenario=scenario_json(), device="cpu"))
    command = (sys.executable, "-c", STOPPED_WITHIN_AN_IMPORT, module, "step", "--job", str(tmp_path))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stderr) == (143, "")
    result = read_measurement(tmp_path / RESULT_FILE)
    assert (result.status, result.environment) == ("cancelled", {})
    assert last_state(tmp_path)["message"] == "stopped on request"


WITH_A_THREAD = """
import runpy, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
runpy.run_module("runners", run_name="__main__")
"""


def test_a_process_that_is_done_waits_for_no_thread(tmp_path):
    """Such as wait in a collective, or for workers of a compiler."""
    command = (sys.executable, "-c", WITH_A_THREAD, "collectives", "--out", str(tmp_path / "r.json"), "--device", "cpu")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.partition(".")[0]) == (2, "world_size: one process has nobody to talk to")


def _with_a_broken_loss(arguments: list[str]) -> int:
    import runners.train_step
    from runners.__main__ import main

    def broken(*_, **__):
        raise ArithmeticError("the sum is off")

    runners.train_step.loss_of = broken
    return main(arguments)


def test_an_unforeseen_failure_leaves_a_result_with_its_message(tmp_path):
    write_job(tmp_path, Job(scenario=scenario_json(), device="cpu", steps=1, warmup=0))
    done = run_in_fork(_with_a_broken_loss, ("step", "--job", str(tmp_path)), ROOT)
    assert done.returncode == 1
    assert "Traceback" in done.stderr
    result = read_measurement(tmp_path / RESULT_FILE)
    assert (result.status, result.warnings[0].message) == ("failed", "ArithmeticError: the sum is off")
    assert last_state(tmp_path)["state"] == "failed"


def test_a_job_that_cannot_be_measured_fails_with_field_and_remedy(tmp_path):
    scenario = scenario_json(plan={"tp": 2}, cluster={"chips_per_node": 2})
    write_job(tmp_path, Job(scenario=scenario, device="cpu"))
    done = run_forked("step", "--job", str(tmp_path), cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr == (
        "plan.tp: tp = 2, but 1 process runs. "
        "Set plan and cluster to 1 chip, or start 2 processes (torchrun --nproc-per-node 2).\n"
    )
    assert read_measurement(tmp_path / RESULT_FILE).status == "failed"
    assert last_state(tmp_path)["message"] == done.stderr.strip()


def test_the_wrong_number_of_processes_is_a_problem(tmp_path):
    write_job(tmp_path, Job(scenario=scenario_json(dp=2), world_size=2, device="cpu"))
    done = run_forked("step", "--job", str(tmp_path), cwd=ROOT)
    assert done.returncode == 2
    assert done.stderr.startswith("world_size: the job wants 2 processes, 1 run. Start it with torchrun")


def run_to(result, *arguments):
    return run_forked(*arguments, "--out", str(result), "--device", "cpu", cwd=ROOT)


def test_an_older_result_stays_where_the_job_is_refused_and_goes_where_it_succeeds(tmp_path):
    result = tmp_path / "rows.json"
    result.write_text("older")
    assert run_to(result, "precision", "--steps", "-1").returncode == 2
    assert run_to(result, "collectives").returncode == 2
    assert result.read_text() == "older"
    done = run_to(result, "precision")
    assert done.returncode == 0, done.stderr
    assert read_measurement(result).status == "ok"
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_an_older_result_is_kept_beside_one_that_failed_until_one_succeeds(tmp_path):
    result, older = tmp_path / "rows.json", tmp_path / "rows.older.json"
    result.write_text("older")
    sizes = ("--models", "gpt2", "--seq-lens", "16", "--precisions", "fp32", "--attentions", "sdpa", "--graphs", "yes")
    for _ in range(2):
        done = run_to(result, "step", *sizes)
        assert done.returncode == 1, done.stderr
        assert "the result that was there is kept: " in done.stderr
        assert older.read_text() == "older"
        assert read_measurement(result).status == "failed"
    assert run_to(result, "collectives").returncode == 2
    assert older.read_text() == "older", "what is refused touches nothing"
    assert read_measurement(result).status == "failed"
    assert run_to(result, "precision").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["rows.json"]


def test_a_run_that_its_watchdog_has_given_up_failed_whatever_it_measures_after(tmp_path):
    result = tmp_path / "rows.json"
    result.write_text("older")
    done = run_module("precision", "--row-limit-s", "0.000001", "--out", str(result), "--device", "cpu")
    assert done.returncode not in (0, 2), done.stderr
    assert "stopped because a row took longer than 1 µs" in done.stderr
    assert f"what was measured until then: {result}" in done.stderr
    assert "the result that was there is kept: " in done.stderr
    assert (tmp_path / "rows.older.json").read_text() == "older"
    assert read_measurement(result).status == "failed"


def test_what_a_benchmark_has_nothing_to_measure_with_is_refused(tmp_path):
    scenario = write_scenario(tmp_path, scenario_json())
    grid = run_to(tmp_path / "r.json", "step", "--scenario", str(scenario), "--models", "tiny")
    assert (grid.returncode, grid.stderr.partition(",")[0]) == (
        2,
        "options.models: a grid takes its models and sizes from the options",
    )
    alone = run_to(tmp_path / "r.json", "collectives")
    assert (alone.returncode, alone.stderr.partition(".")[0]) == (2, "world_size: one process has nobody to talk to")
    assert [path.name for path in tmp_path.iterdir()] == [scenario.name]
