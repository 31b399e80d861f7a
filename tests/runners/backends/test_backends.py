"""Backends by name."""

from __future__ import annotations

import pytest

from estimator.scenario.problems import InputProblems
from runners.backends import BACKENDS, backend


@pytest.mark.parametrize("name", BACKENDS)
def test_every_registered_backend_has_all_verbs(name):
    found = backend(name)
    for verb in ("problems", "missing", "render", "submit", "find", "status", "cancel"):
        assert callable(getattr(found, verb))


def test_an_unknown_backend_is_a_problem():
    with pytest.raises(InputProblems, match=r"backend: 'os' is not known\. Choose one of: local, slurm"):
        backend("os")
