"""A small file system of its own for tests, which can be filled and made read-only, as root and as anybody else.

It is a tmpfs in a mount namespace that one process keeps; commands are run inside, and its files are seen from here
through that process. Anybody but root needs a user namespace too.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

_HOLD = 'mount -t tmpfs -o "size=$2" tmpfs "$1" && echo mounted && exec cat'


class SmallDisk:
    """The file system at ``path``, as commands inside see it; ``seen`` is the same place from here."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        self.path, self.size_bytes = path, size_bytes
        path.mkdir()

    def __enter__(self) -> SmallDisk:
        """Mount it; a machine that lets nobody do so fails the test and says why."""
        if sys.platform != "linux":
            pytest.skip("only Linux has file systems of one's own (mount namespaces)")
        unshare = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        self._holder = subprocess.Popen(
            [*unshare, "sh", "-c", _HOLD, "sh", str(self.path), str(self.size_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        said = self._holder.stdout.readline()
        if said != "mounted\n":
            pytest.fail(f"no file system can be mounted here, which needs root or user namespaces: {said}")
        self.seen = Path(f"/proc/{self._holder.pid}/root{self.path}")
        return self

    def __exit__(self, *_: object) -> None:
        """Let the file system go with the process that keeps it."""
        self._holder.communicate()

    def inside(self, *command: str) -> list[str]:
        """The command, run where the file system is mounted."""
        users = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
        return ["nsenter", f"--target={self._holder.pid}", *users, "--mount", *command]

    def fill(self, left_bytes: int = 0) -> None:
        """Take all space but ``left_bytes``; files that are there keep theirs."""
        with contextlib.suppress(OSError), (self.seen / "filler").open("ab", buffering=0) as file:
            while True:
                if file.write(bytes(4096)) < 4096:
                    raise OSError(errno.ENOSPC, "full")
        if left_bytes:
            os.truncate(self.seen / "filler", (self.seen / "filler").stat().st_size - left_bytes)

    def free(self) -> None:
        """Give the space back."""
        (self.seen / "filler").unlink()

    def make_read_only(self) -> None:
        """Let nothing be written any more; no file may be open for writing."""
        subprocess.run(self.inside("mount", "-o", "remount,ro", str(self.path)), check=True)
