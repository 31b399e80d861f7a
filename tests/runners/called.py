"""Call a function of a module: ``python -m tests.runners.called MODULE NAME ARGUMENT...``."""

from __future__ import annotations

import importlib
import sys

from runners.worker import leave

module, name, *arguments = sys.argv[1:]
leave(getattr(importlib.import_module(module), name)(arguments))
