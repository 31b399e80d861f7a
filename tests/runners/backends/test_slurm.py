"""The Slurm backend on a real Slurm: submit, watch, cancel, fail, and know how it ended with and without accounting."""

from __future__ import annotations

import shlex
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from estimator.scenario.problems import InputProblems
from runners.backends import Status, squeue
from runners.backends import slurm as backend
from runners.backends.processes import marked
from runners.job import (
    EXIT_FILE,
    HANDLE_FILE,
    LOG_FILE,
    RESULT_FILE,
    SCRIPT_FILE,
    Handle,
    Job,
    read_events,
    read_handle,
    read_measurement,
    write_job,
)
from runners.placement import Placement
from tests.runners.examples import scenario_json


def job_in(folder: Path, ranks: int = 1, **changes) -> Job:
    """A tiny job in a folder of its own."""
    folder.mkdir(exist_ok=True)
    placement = changes.pop("placement", Placement())
    job = Job(
        scenario=scenario_json(dp=ranks),
        world_size=ranks,
        backend="slurm",
        placement=placement,
        **{"device": "cpu", "warmup": 1, "steps": 2} | changes,
    )
    write_job(folder, job)
    return job


def submitted(folder: Path, ranks: int = 1, **changes) -> Handle:
    return backend.submit(backend.render(folder, job_in(folder, ranks, **changes)))


def ended(handle: Handle, seconds: float = 240.0) -> Status:
    deadline_s = time.monotonic() + seconds
    while (status := backend.status(handle)).alive:
        assert time.monotonic() < deadline_s, (status, (Path(handle.folder) / LOG_FILE).read_text())
        time.sleep(0.1)
    return status


def until(condition, handle: Handle) -> None:
    deadline_s = time.monotonic() + 240
    while not condition():
        assert backend.status(handle).alive, (Path(handle.folder) / LOG_FILE).read_text()
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def working(folder: Path) -> bool:
    """Whether its ranks have met and begun."""
    return any(event["kind"] == "progress" for event in read_events(folder))


def endless(folder: Path, benchmark: str, ranks: int, placement: Placement) -> Handle:
    """A job of a great many steps, of a benchmark that does not take long to start."""
    folder.mkdir()
    job = Job(benchmark=benchmark, world_size=ranks, backend="slurm", device="cpu", steps=100_000, placement=placement)
    write_job(folder, job)
    return backend.submit(backend.render(folder, job))


def test_the_script_asks_for_what_the_job_says(tmp_path):
    placement = Placement(
        nodes=2,
        cpus_per_process=3,
        memory_bytes=3e9,
        partition="long",
        account="lab",
        options=("--exclusive", "--mail-type=END"),
        modules=("cuda/12.4",),
        environment={"NCCL_SOCKET_IFNAME": "^lo"},
    )
    job = job_in(tmp_path / "run", 4, device="cuda", time_limit_s=90, placement=placement)
    request = backend.render(tmp_path / "run", job)
    assert request.command[:2] == ("sbatch", "--parsable")
    assert request.command[-1] == str(tmp_path / "run" / SCRIPT_FILE)
    asked = [line.removeprefix("#SBATCH ") for line in request.script.splitlines() if line.startswith("#SBATCH")]
    assert asked[:6] == [
        "--job-name=headroom-run",
        "--nodes=2",
        "--ntasks-per-node=1",
        "--gres=gpu:2",
        "--cpus-per-task=6",
        "--mem=2862M",
    ]
    assert asked[6:] == [
        *("--time=2", "--partition=long", "--account=lab", "--exclusive", "--mail-type=END"),
        *("--no-requeue", "--open-mode=append"),
    ]
    assert "module load cuda/12.4\n" in request.script
    assert "export NCCL_SOCKET_IFNAME='^lo'\n" in request.script
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["job.json"]


def test_what_a_folder_is_called_cannot_become_a_command(tmp_path):
    folder = tmp_path / "a 'b' $(touch pwned) %j\"; touch pwned #"
    script = backend.render(folder, job_in(folder)).script
    (line,) = [line for line in script.splitlines() if line.startswith("folder=")]
    assert shlex.split(line) == [f"folder={folder}"]
    assert "--job-name=headroom-a--b----touch-pwned---j---touch-pwned--" in script
    checked = subprocess.run(("bash", "-n"), input=script, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


@pytest.mark.parametrize(
    ("field", "placement", "ranks"),
    [
        ("placement.nodes", Placement(nodes=3), 4),
        ("placement.partition", Placement(partition="a b"), 1),
        ("placement.partition", Placement(partition="long\n#SBATCH --wrap=date"), 1),
        ("placement.account", Placement(account="--wrap=date"), 1),
        ("placement.constraint", Placement(constraint="$(date)"), 1),
        ("placement.options[0]", Placement(options=("--wrap=date",)), 1),
        ("placement.options[1]", Placement(options=("--exclusive", "--output=/etc/passwd")), 1),
        ("placement.options[0]", Placement(options=("--nodelist=a\n",)), 1),
        ("placement.options[0]", Placement(options=("--comment='; date'",)), 1),
        ("placement.modules[0]", Placement(modules=("/tmp/evil",)), 1),
        ("placement.modules[0]", Placement(modules=("a/../../evil",)), 1),
        ("placement.environment", Placement(environment={"LD_PRELOAD": "evil.so"}), 1),
        ("placement.environment", Placement(environment={"NCCL_X=1; date #": "1"}), 1),
        ("placement.environment.NCCL_NET_PLUGIN", Placement(environment={"NCCL_NET_PLUGIN": "/tmp/evil.so"}), 1),
        ("placement.environment.NCCL_DEBUG", Placement(environment={"NCCL_DEBUG": "$(date)"}), 1),
    ],
)
def test_nothing_else_than_plain_values_gets_into_the_script(field, placement, ranks, tmp_path):
    with pytest.raises(InputProblems) as caught:
        backend.render(tmp_path / "run", job_in(tmp_path / "run", ranks, placement=placement))
    assert [problem.field for problem in caught.value.problems] == [field]


def test_gpus_are_given_and_the_script_leaves_its_exit_code(slurm, tmp_path):
    folder = tmp_path / "run"
    request = backend.render(folder, job_in(folder, 2, device="cuda"))
    look = 'echo "$HEADROOM_JOB_FOLDER $CUDA_VISIBLE_DEVICES" >> "$folder/seen"; exit 0; srun '
    handle = backend.submit(replace(request, script=request.script.replace("srun ", look)))
    assert read_handle(folder) == handle
    assert ended(handle) == Status(alive=False, state="ok")
    assert (folder / "seen").read_text() == f"{folder} 0,1\n"
    assert (folder / EXIT_FILE).read_text() == f'{{"exit_code": 0, "job_id": "{handle.job_id}"}}\n'


def test_two_nodes_meet_at_the_first(slurm, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    # Both nodes are this machine, whose name need not lead anywhere; exchanges begin sooner than a step does
    around = Placement(nodes=2, environment={"GLOO_SOCKET_IFNAME": "lo"})
    job = Job(
        benchmark="collectives",
        options={"kinds": ["all-reduce"], "sizes_bytes": [1024]},
        world_size=2,
        backend="slurm",
        placement=around,
        device="cpu",
        warmup=1,
        steps=2,
        label="pair",
        time_limit_s=120,
    )
    write_job(folder, job)
    handle = backend.submit(backend.render(folder, job))
    assert ended(handle) == Status(alive=False, state="ok"), (folder / LOG_FILE).read_text()
    assert "NumNodes=2" in slurm.run("scontrol", "-o", "show", "job", handle.job_id)
    result = read_measurement(folder / RESULT_FILE)
    assert (result.label, result.status, result.world_size) == ("pair", "ok", 2)
    assert {(row["status"], row["ranks"]) for row in result.rows} == {("ok", 2)}
    assert [event["state"] for event in read_events(folder) if event["kind"] == "state"] == ["running", "ok"]


def test_of_jobs_at_once_one_is_cancelled_one_loses_its_node_and_one_is_stuck(slurm, tmp_path):
    """They start together, because starting torch takes most of the time."""
    cancelled, lost, stuck = (tmp_path / name for name in ("cancelled", "lost", "stuck"))
    on_one, on_two = (Placement(options=(f"--nodelist={node}",)) for node in ("one", "two"))
    handle = endless(cancelled, "ulysses", 2, on_one)
    lost_handle = endless(lost, "attention", 1, on_two)
    stuck_handle = submit_stuck(stuck, on_one)

    until(lambda: working(cancelled), handle)
    until(lambda: working(lost), lost_handle)
    is_cancelled(cancelled, handle)
    loses_its_node(slurm, lost, lost_handle)
    ends_at_its_bound(stuck, stuck_handle)


def is_cancelled(folder: Path, handle: Handle) -> None:
    """All of it ends, also where its handle was lost."""
    assert backend.status(handle) == Status(alive=True, state="running")
    assert len(marked(str(folder))) >= 6  # the script, srun, torchrun and two ranks with their watchdogs
    (folder / HANDLE_FILE).unlink()
    found = backend.find(folder)
    assert found == handle, "found again by its name"
    backend.cancel(found)
    status = backend.status(handle)
    assert (status.alive, status.state) == (False, "cancelled")
    assert marked(str(folder)) == []
    assert '"exit_code": 143' in (folder / EXIT_FILE).read_text()
    assert read_measurement(folder / RESULT_FILE).status == "cancelled"
    assert backend.find(folder) is None
    backend.cancel(handle)  # a second time is no error


def loses_its_node(slurm, folder: Path, handle: Handle) -> None:
    """It fails with what Slurm says of the node."""
    slurm.down("two", "fan broke")
    try:
        status = ended(handle)
        assert status == Status(alive=False, state="failed", message="Slurm: NODE_FAIL, node two is down: fan broke")
        time.sleep(1)
        assert backend.status(handle).state == "failed", "it is not requeued"
    finally:
        slurm.run("scontrol", "update", "nodename=two", "state=resume")
    deadline_s = time.monotonic() + 240
    while marked(str(folder)):
        assert time.monotonic() < deadline_s, "the node must have ended its processes"
        time.sleep(0.1)


def submit_stuck(folder: Path, placement: Placement) -> Handle:
    """A benchmark whose second row blocks in C, deaf to SIGTERM."""
    folder.mkdir()
    options = {"implementations": ["naive"], "dims": [16], "seq_lens": [16], "precisions": ["fp32"]}
    job = Job(
        benchmark="attention",
        backend="slurm",
        options=options,
        device="cpu",
        steps=1,
        row_limit_s=20,
        placement=placement,
    )
    write_job(folder, job)
    request = backend.render(folder, job)
    script = request.script.replace("-m runners ", "-m tests.runners.stuck ").replace(
        "srun ", "export STUCK=1,0,deaf; srun "
    )
    return backend.submit(replace(request, script=script))


def ends_at_its_bound(folder: Path, handle: Handle) -> None:
    """No job of Slurm evades the limit of a row either, and the row before is kept."""
    assert ended(handle).state == "failed"
    result = read_measurement(folder / RESULT_FILE)
    assert [(row["pass"], row["status"]) for row in result.rows] == [("forward", "ok"), ("backward", "timed_out")]
    assert marked(str(folder)) == []


def test_a_job_waits_with_its_reason_and_is_cancelled_before_it_starts(slurm, tmp_path):
    handle = submitted(tmp_path / "run", placement=Placement(options=("--begin=now+3600",)))
    status = backend.status(handle)
    assert (status.alive, status.state) == (True, "queued")
    assert status.message == f"waiting in Slurm, job {handle.job_id}: BeginTime"
    backend.cancel(handle)
    assert backend.status(handle).state == "cancelled"


def test_a_job_that_fails_gives_its_exit_code_and_slurms_refusal_is_an_error(slurm, tmp_path):
    folder = tmp_path / "run"
    request = backend.render(folder, job_in(folder))
    handle = backend.submit(replace(request, script=request.script.replace("srun ", "exit 7; srun ")))
    assert ended(handle) == Status(alive=False, state="failed", message="Slurm: FAILED, exit code 7")
    killed = tmp_path / "killed"
    request = backend.render(killed, job_in(killed))
    handle = backend.submit(
        replace(request, script=request.script.replace("srun ", "(kill -9 $BASHPID); exit $?; srun "))
    )
    said = "Slurm: FAILED, exit code 137, killed, signal 9 (SIGKILL): perhaps out of memory"
    assert ended(handle) == Status(alive=False, state="failed", message=said)
    with pytest.raises(ChildProcessError, match=r"Slurm refused it: .*[Ii]nvalid partition"):
        submitted(tmp_path / "other", placement=Placement(partition="nowhere"))


def test_a_machine_without_a_cluster_is_told_where_to_submit(slurm, tmp_path, monkeypatch):
    (tmp_path / "slurm.conf").touch()
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(
        ChildProcessError, match=r"no cluster is set up on this machine. .*login node.* Slurm says: sbatch"
    ):
        submitted(tmp_path / "run")


def test_an_array_is_one_submission_and_each_of_its_jobs_is_cancelled_alone(slurm, tmp_path):
    held = Placement(options=("--begin=now+3600",))
    jobs = [(tmp_path / name, job_in(tmp_path / name, placement=held)) for name in ("first", "second")]
    handles = backend.submit_array(backend.render_array(jobs))
    number = handles[0].job_id.partition("_")[0]
    assert [handle.job_id for handle in handles] == [f"{number}_0", f"{number}_1"]
    assert [read_handle(folder) for folder, _ in jobs] == handles
    backend.cancel(handles[1])
    assert [backend.status(handle).state for handle in handles] == ["queued", "cancelled"]
    backend.cancel(handles[0])
    with pytest.raises(InputProblems, match="jobs of one array differ"):
        backend.render_array([jobs[0], (tmp_path / "third", job_in(tmp_path / "third", 2))])


def test_with_accounting_off_the_folder_knows_what_slurm_forgot(slurm, tmp_path):
    handle = Handle(folder=str(tmp_path), job_id="999999")
    lost = backend.status(handle)
    assert (lost.alive, lost.state) == (False, "failed")
    assert lost.message == "Slurm no longer knows job 999999, which left no exit code"
    (tmp_path / EXIT_FILE).write_text('{"exit_code": 0, "job_id": "999999"}')
    assert backend.status(handle) == Status(alive=False, state="ok")
    (tmp_path / EXIT_FILE).write_text('{"exit_code": 3, "job_id": "999999"}')
    assert backend.status(handle).message == "its script ended with exit code 3"
    (tmp_path / EXIT_FILE).write_text('{"exit_code": 1, "job_id": "999999"}')
    (tmp_path / LOG_FILE).write_text("Root Cause (first observed failure):\n  rank : 1\n  exitcode  : -9 (pid: 7)\n")
    said = "its script ended with exit code 1, killed, signal 9 (SIGKILL): perhaps out of memory"
    assert backend.status(handle).message == said
    assert squeue._accounting("999999") is None


def test_a_controller_that_does_not_answer_says_nothing_about_the_job(slurm, tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "none.conf"))
    monkeypatch.setattr(squeue, "ASK_S", 0.2)
    handle = Handle(folder=str(tmp_path), job_id="1")
    status = backend.status(handle)
    assert (status.alive, status.state) == (True, "running")
    assert status.message.startswith("Slurm does not answer: ")
    with pytest.raises(OSError, match="Slurm did not cancel job 1"):
        backend.cancel(handle)
    (tmp_path / EXIT_FILE).write_text('{"exit_code": 0, "job_id": "1"}')
    assert backend.status(handle) == Status(alive=False, state="ok")


def test_with_accounting_on_sacct_knows_what_the_controller_forgot(slurm_with_accounting, tmp_path):
    folders = [tmp_path / name for name in ("good", "bad")]
    requests = [backend.render(folder, job_in(folder)) for folder in folders]
    good, bad = (
        backend.submit(replace(request, script=request.script.replace("srun ", f"exit {code}; srun ")))
        for request, code in zip(requests, (0, 7), strict=True)
    )
    assert [ended(handle).state for handle in (good, bad)] == ["ok", "failed"]
    for handle in (good, bad):
        (Path(handle.folder) / EXIT_FILE).unlink()
    forgotten = {handle.job_id: accounted(handle.job_id) for handle in (good, bad)}
    assert forgotten[good.job_id]["JobState"] == "COMPLETED"
    assert (forgotten[bad.job_id]["JobState"], forgotten[bad.job_id]["ExitCode"]) == ("FAILED", "7:0")
    slurm_with_accounting.forget()
    assert squeue._controller(bad.job_id) is None
    assert backend.status(good) == Status(alive=False, state="ok")
    assert backend.status(bad) == Status(alive=False, state="failed", message="Slurm: FAILED, exit code 7")


def accounted(job_id: str) -> dict[str, str]:
    deadline_s = time.monotonic() + 240
    while (found := squeue._accounting(job_id)) is None or found["JobState"] in ("PENDING", "RUNNING"):
        assert time.monotonic() < deadline_s, found
        time.sleep(0.2)
    return found
