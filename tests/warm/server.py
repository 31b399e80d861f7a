"""Forks for tests/warm: ``python -m tests.warm.server SOCKET HELD PROGRAM`` imports when it is first asked."""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
import threading
import types
from typing import Any, NoReturn

HELD = {"runners": "tests.warm.preloaded", "app": "app.main", "importers": "app.importers.__main__"}
DEFAULTS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCHLD)


def main() -> None:
    """Serve until standard input ends; then end every fork."""
    path, held, program = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(64)
    print("listens", flush=True)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    forks: dict[int, socket.socket] = {}
    while True:
        poll = select.poll()
        for source in (0, ended, listener, *forks.values()):
            poll.register(source, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll()}
        if 0 in ready:
            for process in forks:
                os.kill(process, signal.SIGKILL)
            return
        if ended in ready:
            os.read(ended, 4096)
            _answer(forks)
        for process, client in list(forks.items()):
            if client.fileno() in ready:
                _relay(process, client)
        if listener.fileno() in ready:
            client, _ = listener.accept()
            with contextlib.suppress(ConnectionError, ValueError):
                request, files = _request(client)
                if held:
                    importlib.import_module(HELD[held])
                    gc.collect()
                    gc.freeze()
                    held = ""
                process = os.fork()
                if not process:
                    signal.set_wakeup_fd(-1)
                    for other in (listener, client, *forks.values()):
                        other.close()
                    _run(request, files, program)
                forks[process] = client
                for file in files:
                    os.close(file)
                continue
            client.close()


def _request(client: socket.socket) -> tuple[dict[str, Any], list[int]]:
    length, files, _, _ = socket.recv_fds(client, 8, 3)
    wanted, text = int.from_bytes(length, "big"), b""
    while len(text) < wanted:
        part = client.recv(wanted - len(text))
        if not part:
            raise ConnectionError
        text += part
    return json.loads(text), files


def _relay(process: int, client: socket.socket) -> None:
    """Pass signals on; who asked and is gone was killed, and so is his fork."""
    try:
        numbers = client.recv(64)
    except ConnectionError:
        numbers = b""
    with contextlib.suppress(ProcessLookupError):
        for number in numbers or (signal.SIGKILL,):
            os.kill(process, number)


def _answer(forks: dict[int, socket.socket]) -> None:
    """Say of each fork that has ended how it did."""
    for process in list(forks):
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            with forks.pop(process) as client, contextlib.suppress(OSError):
                client.send(os.waitstatus_to_exitcode(status).to_bytes(8, "big", signed=True))


def _run(request: dict[str, Any], files: list[int], program: str) -> NoReturn:
    """Be the process that was asked for."""
    os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    os.sched_setaffinity(0, request["processors"])
    os.setpriority(os.PRIO_PROCESS, 0, request["niceness"])
    for limit, soft, hard in request["limits"]:
        resource.setrlimit(limit, (soft, hard))
    for number in DEFAULTS:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    arguments = [argument for argument in request["arguments"][:1] if argument != "-u"] + request["arguments"][1:]
    plain = "PYTHONUNBUFFERED" in os.environ or request["arguments"][:1] == ["-u"]
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", 1 if plain else -1, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.executable = program
    if "torch" in sys.modules and os.environ.get("OMP_NUM_THREADS", "").isdigit():
        sys.modules["torch"].set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    sys.path[:] = [request["folder"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path[1:]]
    gc.enable()
    os._exit(_status(arguments))


def _status(arguments: list[str]) -> int:
    code: Any = None
    sys.argv = arguments[1:]
    try:
        if arguments[0] == "-m":
            for name in (f"{arguments[1]}.__main__", arguments[1]):  # what is imported already would be run twice
                if not hasattr(sys.modules.get(name), "__path__"):
                    sys.modules.pop(name, None)
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv[0] = "-c"
            sys.modules["__main__"] = types.ModuleType("__main__")
            exec(arguments[1], vars(sys.modules["__main__"]))
    except SystemExit as ended:
        code = ended.code
        if code is not None and not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    return (code or 0) & 0xFF


if __name__ == "__main__":
    main()
