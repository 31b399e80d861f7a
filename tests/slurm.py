"""A real Slurm of one machine for the tests: munged, slurmctld and two slurmd, with fake GPUs, on ports of its own.

Nothing of it touches the system's own Slurm: configuration, keys, sockets and state lie in one folder, and the daemons
are ended by their process ids. With ``accounting`` a private MariaDB and slurmdbd stand behind sacct.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.ports import free_ports

NODES = ("one", "two")
FAKE_GPUS = ("/dev/null", "/dev/zero")
"""Slurm counts GPUs by device files, and refuses a count without any."""

START_S = 180.0
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol", "scancel")
ACCOUNTING = ("mariadbd", "mariadb-install-db", "slurmdbd", "sacct", "sacctmgr")


def missing(programs: tuple[str, ...] = PROGRAMS) -> list[str]:
    """Programs that are not installed here."""
    return [name for name in programs if program(name) is None]


def program(name: str) -> str | None:
    """Path of a program, also where only root looks for it."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin:/sbin")


class Slurm:
    """One cluster; ``environment`` makes Slurm's commands talk to it."""

    def __init__(self, folder: Path, *, accounting: bool = False) -> None:
        self.folder, self.accounting = folder, accounting
        self.environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start all daemons and wait until the nodes are idle."""
        for name in ("state", "spool", "logs"):
            (self.folder / name).mkdir(parents=True)
        self.folder.chmod(0o711)  # munged wants its socket within everybody's reach
        self._write_configuration()
        try:
            self._munge()
            if self.accounting:
                self._database()
            self._daemon("slurmctld", "-D", "-f", self.folder / "slurm.conf")
            for node in NODES:
                self._daemon("slurmd", "-D", "-N", node, "-f", self.folder / "slurm.conf", log=f"slurmd-{node}")
            self.wait_for_nodes()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the daemons, the last one started first, and without saving anything: nobody reads it again."""
        for process in reversed(self._started):
            process.kill()
            process.wait()
        self._kill(self._left())

    def clear(self) -> None:
        """End what a failed test may have left: a job without an end would keep a core busy for all tests to come."""
        self.run("scancel", f"--user={os.geteuid()}")
        deadline_s = time.monotonic() + 10
        while self._left() and time.monotonic() < deadline_s:
            time.sleep(0.1)
        self._kill(self._left())

    @staticmethod
    def _kill(pids: list[int]) -> None:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _left(self) -> list[int]:
        """Processes of jobs, and those that watch over them; not the daemons, nor the controller's own helper."""
        mark = f"SLURM_CONF={self.environment['SLURM_CONF']}".encode()
        found, others = [], {os.getpid(), *(process.pid for process in self._started)}
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in others:
                with contextlib.suppress(OSError):
                    ours = mark in (entry / "environ").read_bytes().split(b"\0")
                    if ours and (entry / "comm").read_text() != "slurmscriptd\n":
                        found.append(int(entry.name))
        return found

    def run(self, *command: str) -> str:
        """Output of one of Slurm's commands."""
        path = program(command[0])
        assert path is not None
        done = subprocess.run(
            (path, *command[1:]),
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}{self.logs()}"
        return done.stdout.strip()

    def wait_for_nodes(self) -> None:
        """Wait until no node has work or trouble."""
        self._until(lambda: self.run("sinfo", "--noheader", "--format=%t").split() == ["idle"])

    def down(self, node: str, reason: str) -> None:
        """Fail a node as an administrator or a health check would."""
        self.run("scontrol", "update", f"nodename={node}", "state=down", f"reason={reason}")

    def up(self, node: str) -> None:
        """Take a node into service again."""
        self.run("scontrol", "update", f"nodename={node}", "state=resume")
        self.wait_for_nodes()

    def forget(self) -> None:
        """Let the controller start anew without memory of its jobs, as it is long after they ended."""
        controller = next(one for one in self._started if "slurmctld" in str(one.args[0]))
        controller.send_signal(signal.SIGTERM)
        controller.wait(60)
        self._started.remove(controller)
        for path in (self.folder / "state").glob("job_state*"):
            path.unlink()
        self._daemon("slurmctld", "-D", "-f", self.folder / "slurm.conf")
        self._until(lambda: "is UP" in self._try("scontrol", "ping"))

    def logs(self) -> str:
        """The ends of what the daemons wrote."""
        texts = []
        for path in sorted((self.folder / "logs").glob("*")):
            texts += [f"\n--- {path.name}", *path.read_text(errors="replace").splitlines()[-15:]]
        return "\n".join(texts)

    def _write_configuration(self) -> None:
        user, host = getpass.getuser(), socket.gethostname().partition(".")[0]
        ports = free_ports(5)
        lines = [
            "ClusterName=headroom",
            f"SlurmctldHost={host}(127.0.0.1)",
            f"SlurmctldPort={ports[0]}",
            f"SlurmUser={user}",
            f"SlurmdUser={user}",
            "AuthType=auth/munge",
            f"AuthInfo=socket={self.folder}/munge.socket",
            f"StateSaveLocation={self.folder}/state",
            f"SlurmdSpoolDir={self.folder}/spool/%n",
            f"SlurmctldPidFile={self.folder}/slurmctld.pid",
            f"SlurmdPidFile={self.folder}/slurmd-%n.pid",
            "ProctrackType=proctrack/linuxproc",
            "SlurmdParameters=config_overrides",  # the nodes claim more CPUs than the machine has
            "TaskPlugin=task/none",
            "SwitchType=switch/none",
            "MpiDefault=none",
            "SelectType=select/cons_tres",
            "SelectTypeParameters=CR_Core",
            "SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1",
            "ReturnToService=0",  # a node that failed stays down until somebody looks at it
            "MinJobAge=300",
            "KillWait=20",
            "InactiveLimit=0",
            "SlurmctldTimeout=60",
            "SlurmdTimeout=60",
            "GresTypes=gpu",
        ]
        if self.accounting:
            lines += [
                "AccountingStorageType=accounting_storage/slurmdbd",
                "AccountingStorageHost=127.0.0.1",
                f"AccountingStoragePort={ports[3]}",
                f"AccountingStoragePass={self.folder}/munge.socket",
                "JobAcctGatherType=jobacct_gather/none",
            ]
            dbd = [
                "AuthType=auth/munge",
                f"AuthInfo=socket={self.folder}/munge.socket",
                f"DbdHost={host}",
                "DbdAddr=127.0.0.1",
                f"DbdPort={ports[3]}",
                f"SlurmUser={user}",
                "StorageType=accounting_storage/mysql",
                "StorageHost=localhost",
                f"StorageUser={user}",
                "StorageLoc=slurm",
                f"PidFile={self.folder}/slurmdbd.pid",
            ]
            _write_private(self.folder / "slurmdbd.conf", "\n".join(dbd) + "\n")
        for index, node in enumerate(NODES):
            lines.append(
                f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1 + index]}"
                f" CPUs=8 RealMemory=1000 Gres=gpu:{len(FAKE_GPUS)} State=UNKNOWN"
            )
        lines.append(f"PartitionName=tests Nodes={','.join(NODES)} Default=YES MaxTime=60 State=UP OverSubscribe=NO")
        (self.folder / "slurm.conf").write_text("\n".join(lines) + "\n")
        gres = [f"NodeName={node} Name=gpu File={path}" for node in NODES for path in FAKE_GPUS]
        (self.folder / "gres.conf").write_text("\n".join(gres) + "\n")

    def _munge(self) -> None:
        key, socket_path = self.folder / "munge.key", self.folder / "munge.socket"
        _write_private(key, os.urandom(128).hex())
        files = [f"--{name}-file={self.folder}/munge.{name}" for name in ("pid", "log", "seed")]
        self._daemon("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={socket_path}", *files)
        self._until(socket_path.exists)

    def _database(self) -> None:
        data, socket_path = self.folder / "mariadb", self.folder / "mariadb.socket"
        user = getpass.getuser()
        installer = program("mariadb-install-db")
        assert installer is not None
        options = ("--no-defaults", f"--datadir={data}", f"--user={user}")
        install = (installer, *options, "--auth-root-authentication-method=socket", f"--auth-root-socket-user={user}")
        subprocess.run((*install, "--skip-test-db"), check=True, capture_output=True, timeout=240)
        small = ("--innodb-buffer-pool-size=64M", "--innodb-flush-log-at-trx-commit=0", "--skip-networking")
        self._daemon("mariadbd", *options, *small, f"--socket={socket_path}")
        self._until(socket_path.exists)
        self.environment["MYSQL_UNIX_PORT"] = str(socket_path)
        self._daemon("slurmdbd", "-D")
        self._until(lambda: "headroom" in self._try("sacctmgr", "-i", "add", "cluster", "headroom"))

    def _try(self, *command: str) -> str:
        path = program(command[0])
        assert path is not None
        environment = {**os.environ, **self.environment}
        done = subprocess.run((path, *command[1:]), env=environment, capture_output=True, text=True, timeout=120)
        return done.stdout + done.stderr

    def _daemon(self, name: str, *arguments: object, log: str = "") -> None:
        path = program(name)
        assert path is not None
        with (self.folder / "logs" / (log or name)).open("wb") as file:
            process = subprocess.Popen(
                (path, *map(str, arguments)),
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)

    def _until(self, condition) -> None:
        deadline_s = time.monotonic() + START_S
        while not condition():
            for process in self._started:
                assert process.poll() is None, f"{process.args} ended with {process.returncode}{self.logs()}"
            assert time.monotonic() < deadline_s, self.logs()
            time.sleep(0.1)


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


if __name__ == "__main__":
    absent = missing(PROGRAMS + ACCOUNTING)
    print(f"Slurm is not installed here: {', '.join(absent)} missing" if absent else "Slurm is installed.")
    sys.exit(bool(absent))
