"""Neighbours: who else can reach a server that listens on this machine alone.

Loopback keeps out other machines, not other users of this one.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

_PROCESSES = Path("/proc")
_ASK_S = 5.0


def neighbours() -> str:
    """Say who seems to share this machine, for people; empty where nobody does."""
    if _of_a_cluster():
        return "Slurm answers here, so others may log in"
    names = other_users()
    return f"others use this machine: {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if names else ""


def other_users() -> list[str]:
    """Name the people, this one and root apart, who are logged in or have programs running here."""
    behind = os.environ.get("SUDO_UID", "")
    own = {0, os.getuid(), int(behind) if behind.isdecimal() else 0}
    found = {uid for uid in _owners() if _is_person(uid)}
    for name in _logged_in():
        try:
            found.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return sorted(_name(uid) for uid in found - own)


def _of_a_cluster() -> bool:
    """Whether sbatch is here and knows a cluster; installed alone, it says that it has no configuration."""
    if shutil.which("sbatch") is None:
        return False
    said = _output("scontrol", "ping")
    return not ("fatal:" in said and "config" in said)


def _is_person(uid: int) -> bool:
    """Whether a user id is one that people get: neither the system's, nor one that systemd makes up, nor nobody's.

    Source: https://systemd.io/UIDS-GIDS/
    """
    return 1000 <= uid < 61_184 or uid >= 65_536


def _owners() -> Iterable[int]:
    for path in _PROCESSES.glob("[0-9]*"):
        try:
            yield path.stat().st_uid
        except OSError:  # it has ended
            continue


def _logged_in() -> list[str]:
    return [line.split()[0] for line in _output("who").splitlines() if line.strip()]


def _output(*command: str) -> str:
    """Return what a program says on both streams; nothing where it is not there or does not end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
