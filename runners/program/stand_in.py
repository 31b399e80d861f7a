"""Packages that only a host with a GPU can build: what a program's import finds where they are not installed."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import re
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from runners.program.recording import Recording
from runners.program.unimported import once_imported

PACKAGE = "flash_attn"
VERSION = "2.8.3"
"""Whose functions and kernels the stand-in has."""

MODULES = {
    PACKAGE: "attention", f"{PACKAGE}.flash_attn_interface": "attention", f"{PACKAGE}.bert_padding": "packing",
    f"{PACKAGE}.layers": "", f"{PACKAGE}.layers.rotary": "rotary",
    f"{PACKAGE}.ops": "", f"{PACKAGE}.ops.triton": "", f"{PACKAGE}.ops.triton.layer_norm": "norm",
    f"{PACKAGE}.ops.triton.cross_entropy": "loss", f"{PACKAGE}.losses": "", f"{PACKAGE}.losses.cross_entropy": "loss",
    "flash_attn_interface": "third", "flash_attn_3": "", "flash_attn_3.flash_attn_interface": "third",
}  # fmt: skip
"""Its modules and those of FlashAttention-3, and whose names they have."""
PACKAGES = {name.partition(".")[0] for name in MODULES}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Stands last among those that find modules, so that an installed package comes before it."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._made: dict[str, dict[str, Any]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how a module is loaded; None to who only asks whether it is there (importlib.util.find_spec)."""
        if name not in MODULES or sys._getframe(2).f_globals.get("__name__") == "importlib.util":
            return None
        is_package = any(one.startswith(f"{name}.") for one in MODULES)
        return importlib.machinery.ModuleSpec(name, self, is_package=is_package)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """A plain module."""

    def exec_module(self, module: ModuleType) -> None:
        """Give a module its names."""
        vars(module).update(self._names(MODULES[module.__name__]))
        if module.__name__ == PACKAGE:
            vars(module)["__version__"] = VERSION

    def _names(self, part: str) -> dict[str, Any]:
        if not self._made:
            from runners.program.flash_attn import attention, loss, norm, packing, rotary, third
            from runners.program.flash_attn.launch import Launch

            launch = Launch(self._recording)
            self._made = {
                "": {}, "packing": packing.NAMES, "attention": attention.functions(launch),
                "rotary": rotary.functions(launch), "norm": norm.functions(launch), "loss": loss.functions(launch),
                "third": third.functions(launch),
            }  # fmt: skip
        return self._made[part]


def install(recording: Recording) -> None:
    """Let imports find what stands for a package, for the rest of the process."""
    sys.meta_path.append(Finder(recording))
    once_imported("transformers.modeling_flash_attention_utils", _told)


def lacks(error: BaseException) -> str:
    """Return the name that a program wanted of a package that is stood in for, "" where it failed of anything else."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType) and _stands(error.obj.__name__):
        return f"{error.obj.__name__}.{error.name}"
    if not isinstance(error, ImportError) or not _stands((error.name or "").partition(".")[0]):
        return ""
    within = re.match(r"cannot import name '(\w+)'", str(error))
    return f"{error.name}.{within.group(1)}" if within else str(error.name)


def _stands(name: str) -> bool:
    """Whether a module is one that is stood in for, as an import of it found."""
    package = name.partition(".")[0]
    return package in PACKAGES and isinstance(getattr(sys.modules.get(package), "__loader__", None), Finder)


def _told(utils: Any) -> None:
    """Let transformers take flash attention where a program names it: it asks whether there is one only then.

    Where nobody names a version it takes the highest that it has: that there is a third is told to who asks for it.
    """
    matrix: Any = getattr(utils, "FLASH_ATTENTION_COMPATIBILITY_MATRIX", {})
    for version in (2, 3):
        installed: Callable[..., bool] | None = getattr(utils, f"is_flash_attn_{version}_available", None)
        known: Any = matrix.get(version)
        if known is None or installed is None or installed():
            continue
        if version == 2:
            utils.is_flash_attn_2_available = _yes
        known.update(general_availability_check=_yes, pkg_availability_check=_yes)


def _yes(*_: Any, **__: Any) -> bool:
    return True
