"""Why a traced program ended before its step was recorded, and what its user can do about that."""

from __future__ import annotations

import os
import re
import socket
import sys
import traceback
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from estimator.scenario.problems import Problem

FAILED = 1

OWN = "a program of your own: MODULE:FACTORY, a function that returns (module, batch)"
"""What is left where a model of transformers wants what a config does not tell."""

LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Variables that torchrun sets."""

ATTENTION = ("xformers", "sageattention")
"""Packages of attention that only a host with a GPU can build."""

NETWORK = {
    "LocalEntryNotFoundError", "OfflineModeIsEnabled", "HfHubHTTPError", "RepositoryNotFoundError",
    "DatasetNotFoundError", "ConnectionError", "HTTPError", "MaxRetryError", "ConnectError",
}  # fmt: skip
"""Errors of libraries that fetch (huggingface_hub, datasets, requests, urllib3, httpx): none is imported here."""


class ProgramFailed(Exception):  # noqa: N818  (it carries the program's error)
    """The program raised before its step was recorded."""

    def __init__(self, error: BaseException, problem: Problem) -> None:
        super().__init__(str(error))
        self.error = error
        self.problem = problem


def last_words(func: Any, error: Exception, *, own: bool) -> None:
    """An error in a backward: the engine takes the process with it, so it is said before, and the process ends."""
    if own:
        traceback.print_exception(error)
    print(f"trace: {failure(str(func), error, own=own)}", file=sys.stderr, flush=True)
    os._exit(FAILED)


def failure(name: str, error: BaseException, *, own: bool) -> Problem:
    """Return what went wrong and the way out; ``own``: the program is the user's, who can mend it."""
    from torch._subclasses.fake_tensor import UnsupportedOperatorException

    from runners.program.flash_attn.launch import lacking
    from runners.program.stand_in import lacks

    text = " ".join(str(error).split())[:300].rstrip(".")
    if isinstance(error, UnsupportedOperatorException):
        remedy = "Register a fake for it (torch.library.register_fake), or run without it."
        return Problem(field=str(error.func), message="cannot run on shapes alone", remedy=remedy)
    no_fake = re.search(r"no fake impl registered for <CustomOpDef\((\S+)\)>", text)
    if no_fake:
        remedy = "Say what it does to shapes (its register_fake), or run without it."
        return Problem(field=no_fake.group(1), message="cannot run on shapes alone", remedy=remedy)
    if wanted := lacks(error):
        return lacking(wanted).problems[0]
    if not own:
        places = traceback.extract_tb(error.__traceback__)
        inside = [one for one in places if {"transformers", "models"} <= set(Path(one.filename).parts)]
        place = (inside or places)[-1]
        where = f"{Path(place.filename).name}, line {place.lineno}: {place.line}"
        message = f"the model does not train as it is called here: {type(error).__name__}: {text} ({where})"
        first = "Install what it names" if isinstance(error, ImportError) else "Correct the field that this line reads"
        return Problem(field="hf", message=message, remedy=f"{first}, or write {OWN}.")
    if isinstance(error, SystemExit):
        message = f"ended by itself, with status {error.code}" if isinstance(error.code, int) else f"ended: {text}"
        remedy = "Its own last line, above, says why; what it is given follows --."
        return Problem(field=name, message=message, remedy=remedy)
    if extension := _extension(error):
        message = f"is an extension that the program builds, which failed here: {type(error).__name__}: {text[:100]}"
        remedy = (
            "Its kernels would have no shapes to run on either: say what they do to shapes with torch.library"
            " (custom_op and register_fake) and build it only where a GPU runs it, or run without it."
        )
        return Problem(field=extension, message=message, remedy=remedy)
    remedy = "The traceback above is the program's own; it must run to the end of a step."
    if _wants_network(error) or "Error downloading" in text:  # as torchvision says it
        remedy = (
            "It wants what only a network has: let it take that from its cache or from a local path. Weights and data"
            " need not be the real ones: of them a trace looks at shapes alone."
        )
    elif "kernels.load" in _passed(error):
        remedy = (
            "It loads a kernel that is built for a GPU, which has no shapes to run on: let it call torch's own op in"
            " its place (for flash attention, scaled_dot_product_attention or flex_attention)."
        )
    elif part := _unbuilt(error):
        remedy = (
            f"{part} of it is missing: where that is C++ of its own, build it for this Python as it says; a compiler is"
            " all that needs, no GPU."
        )
    elif isinstance(error, FileNotFoundError) and "subprocess" in _passed(error):
        remedy = "It runs a command that this host does not have: install it, or run without it."
    elif isinstance(error, FileNotFoundError):
        remedy = (
            "Put such a file there; of data a trace looks at shapes alone, so that a short one of any content will do."
        )
    elif isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in ATTENTION:
        remedy = "Choose torch's own attention (sdpa), which is traced as the flash kernel that torch takes for it."
    elif isinstance(error, ModuleNotFoundError):
        remedy = "Install it beside Headroom; what only a host with a GPU can build the program must go without."
    if wants_ranks(error):
        message = f"wants to be started on several ranks: it reads {error.args[0]}, which torchrun sets"
        return Problem(field=name, message=message, remedy="Say how many with --world-size.")
    return Problem(field=name, message=f"failed: {type(error).__name__}: {text}", remedy=remedy)


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what led to it."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _wants_network(error: BaseException) -> bool:
    """Whether an error, or what led to it, says that something could not be had from elsewhere."""
    return any(
        isinstance(one, (socket.gaierror, urllib.error.URLError))
        or bool(NETWORK.intersection(kind.__name__ for kind in type(one).__mro__))
        for one in _behind(error)
    )


def _passed(error: BaseException) -> set[str]:
    """Names of the modules that an error passed through."""
    return {frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)}


def _extension(error: BaseException) -> str:
    """The C++ or CUDA that a program was building through torch.utils.cpp_extension when it failed; else ""."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        name = frame.f_locals.get("name")
        if frame.f_globals.get("__name__") == "torch.utils.cpp_extension" and isinstance(name, str):
            return name
    return ""


def _unbuilt(error: BaseException) -> str:
    """The part of a package that an error comes of, where the package is there and that part is not; else ""."""
    for one in _behind(error):
        name = (one.name or "") if isinstance(one, ModuleNotFoundError) else ""
        if name.rpartition(".")[0] in sys.modules:
            return name
    return ""


def wants_ranks(error: BaseException) -> bool:
    """Whether a program asked for what torchrun sets, and was not started so."""
    return isinstance(error, KeyError) and bool(error.args) and error.args[0] in LAUNCHED
