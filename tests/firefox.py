"""Where Firefox is on this machine; ``python -m tests.firefox`` prints it, or says what to do and fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

NAMES = ("firefox-esr", "firefox")
REMEDY = "No Firefox was found. Install it (as root, `make firefox` tries), or set FIREFOX to its path."


def find() -> str:
    """Return the program named by FIREFOX, else an installed one; raises FileNotFoundError with the remedy."""
    for name in filter(None, (os.environ.get("FIREFOX"), *NAMES)):
        path = shutil.which(name)
        if path and _runs(path):
            return path
    raise FileNotFoundError(REMEDY)


def _runs(path: str) -> bool:
    """Tell whether it answers ``--version``; the placeholder that Ubuntu installs for its snap does not."""
    try:
        return subprocess.run([path, "--version"], capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


if __name__ == "__main__":
    try:
        print(find())
    except FileNotFoundError as error:
        sys.exit(str(error))
