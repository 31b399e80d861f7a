"""Sleep, after writing the process id where the first argument says."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

part = Path(sys.argv[1] + ".part")
part.write_text(str(os.getpid()))
part.rename(sys.argv[1])
time.sleep(600)
