"""Which line of the traced program is running now."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path
from types import FrameType

import torch

_OWN = (str(Path(__file__).parents[1]), str(Path(torch.__file__).parent))
_INSTALLED = tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


Place = tuple[str, int] | tuple[()]
"""Name of a file, and a line of it; nothing where neither is known."""


def of_program() -> Place:
    """The innermost frame that is the program's own, of a package that it uses where none is."""
    frame: FrameType | None = sys._getframe(1)
    installed: Place = ()
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(("<", *_OWN)):
            place = (Path(name).name, frame.f_lineno)
            if not name.startswith(_INSTALLED):
                return place
            installed = installed or place
        frame = frame.f_back
    return installed
