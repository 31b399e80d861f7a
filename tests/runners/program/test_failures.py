"""Why a traced program ended: what is at fault, and the way out, in one line."""

import subprocess
import urllib.error

import pytest

from runners.program.failures import failure


class LocalEntryNotFoundError(FileNotFoundError):
    """By this name huggingface_hub says that it has no network."""


def not_found():
    try:
        raise LocalEntryNotFoundError("offline")
    except LocalEntryNotFoundError as cause:
        error = OSError("cannot load the tokenizer")
        error.__cause__ = cause
        return error


def unbuilt():
    error = RuntimeError("cannot make a data set")
    error.__context__ = ModuleNotFoundError("No module named 'json.helpers_cpp'", name="json.helpers_cpp")
    return error


def fetched():
    """As the package ``kernels`` fails that has none built for this host."""
    own = {"__name__": "kernels.load"}
    exec("def get_kernel(name): raise ValueError(name)", own)
    try:
        own["get_kernel"]("flash-attn3")
    except ValueError as error:
        return error


def not_built():
    """As torch fails to build what a program writes in CUDA, where no compiler can."""
    own = {"__name__": "torch.utils.cpp_extension"}
    exec("def load_inline(name): raise RuntimeError('Ninja is required to load C++ extensions')", own)
    try:
        own["load_inline"]("scan_ext")
    except RuntimeError as error:
        return error


def ran_nothing():
    try:
        subprocess.run(["no-such-command"], check=True)
    except FileNotFoundError as error:
        return error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SystemExit(2), "ended by itself, with status 2. Its own last line, above, says why"),
        (SystemExit("no GPU"), "ended: no GPU"),
        (urllib.error.URLError("no such host"), "wants what only a network has"),
        (not_found(), "wants what only a network has"),
        (unbuilt(), "json.helpers_cpp of it is missing: where that is C++ of its own, build it"),
        (fetched(), "It loads a kernel that is built for a GPU"),
        (RuntimeError("Error downloading train-images"), "wants what only a network has"),
        (not_built(), "scan_ext: is an extension that the program builds, which failed here: RuntimeError: Ninja"),
        (ran_nothing(), "It runs a command that this host does not have"),
        (FileNotFoundError("train.bin"), "Put such a file there"),
        (ModuleNotFoundError("No module named 'xformers'", name="xformers.ops"), "Choose torch's own attention"),
        (ModuleNotFoundError("No module named 'own'", name="own"), "Install it beside Headroom"),
        (
            RuntimeError("There was no fake impl registered for <CustomOpDef(mine::f)>. This is necessary"),
            "mine::f: cannot run on shapes alone. Say what it does to shapes",
        ),
        (ValueError("cannot"), "failed: ValueError: cannot. The traceback above is the program's own"),
    ],
)
def test_a_failure_says_the_way_out(error, said):
    assert said in str(failure("own.py", error, own=True))
