"""Commands of a GPU's host that programs run: what stands for them where this host has none."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

NAMES = ("nvidia-smi",)
_SAYS = "#!/bin/sh\necho 'no GPU: the program is traced'\n"


def stand_in() -> None:
    """Put those that this host lacks at the end of PATH; they say that the program is traced, and succeed."""
    missing = [name for name in NAMES if shutil.which(name) is None]
    if not missing:
        return
    folder = Path(tempfile.mkdtemp(prefix="headroom-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name in missing:
        (folder / name).write_text(_SAYS, encoding="utf-8")
        (folder / name).chmod(0o755)
    os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), str(folder))))
