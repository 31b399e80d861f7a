"""The program that stands for a fork: ``client.py FOLDER ARGUMENT...``, by an interpreter that imports nothing else."""

import json
import os
import resource
import signal
import socket
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RELAYED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def held(arguments, mounts):
    """Which server holds what these arguments start; "" where none does, or with code or mounts of another place."""
    given = [argument for argument in arguments[:1] if argument != "-u"] + arguments[1:]
    paths = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    nearest = next((path for path in paths if any(os.path.exists(f"{path}/runners{end}") for end in ("", ".py"))), "")
    if nearest != ROOT or mounts != os.readlink("/proc/self/ns/mnt"):
        return ""
    if given[:1] != ["-m"] or not given[1:]:
        return "app" if given[:2] == ["-c", "from app.cli import main; main()"] else ""
    if given[1] in ("runners", "torch.distributed.run") or given[1].startswith("tests.runners."):
        return "runners"
    return "importers" if given[1] == "app.importers" else ""


def main():
    folder, *arguments = sys.argv[1:]
    asked = socket.socket(socket.AF_UNIX)
    with open(os.path.join(folder, "mounts"), encoding="utf-8") as file:
        server = held(arguments, file.read())
    try:
        if not server:
            raise FileNotFoundError
        asked.connect(os.path.join(folder, server))
    except OSError:
        os.execv(sys.executable, [sys.executable, *arguments])
    told = []  # before the fork is there to be told
    ignored = [number for number in RELAYED if signal.getsignal(number) == signal.SIG_IGN]
    for number in RELAYED:
        signal.signal(number, lambda number, frame: told.append(number))
    request = {
        "arguments": arguments,
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "limits": [[limit, *resource.getrlimit(limit)] for limit in LIMITS],
        "ignored": ignored,
        "processors": sorted(os.sched_getaffinity(0)),
        "niceness": os.getpriority(os.PRIO_PROCESS, 0),
    }
    text = json.dumps(request).encode()
    socket.send_fds(asked, [len(text).to_bytes(8, "big")], [0, 1, 2])
    asked.sendall(text)
    for number in (0, 1, 2):
        os.close(number)
    relay = lambda number, frame: asked.send(bytes([number]))  # noqa: E731
    for number in RELAYED:
        signal.signal(number, relay)
    for number in told:
        relay(number, None)
    answer = asked.recv(8)
    if not answer:
        os._exit(70)  # the server has ended, and with it the fork
    status = int.from_bytes(answer, "big", signed=True)
    if status < 0:
        if -status not in (signal.SIGKILL, signal.SIGSTOP):
            signal.signal(-status, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -status)
    os._exit(status)


main()
