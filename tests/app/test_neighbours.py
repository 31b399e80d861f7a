"""Who shares this machine: other people's programs and logins, and a Slurm that answers."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from app.neighbours import neighbours, other_users

SOMEBODY = 23_456


@pytest.fixture
def alone(monkeypatch, tmp_path):
    """A machine where only this user's programs and the system's run, without Slurm."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("app.neighbours._PROCESSES", tmp_path)
    return tmp_path


def program(folder, name: str, *lines: str) -> None:
    (folder / name).write_text("#!/bin/sh\n" + "\n".join(f"echo '{line}'" for line in lines) + "\n")
    (folder / name).chmod(0o755)


def test_who_is_alone_has_no_neighbours(alone):
    assert neighbours() == ""


def test_a_program_of_somebody_else_is_one(monkeypatch):
    as_root = os.geteuid() == 0
    if not as_root:  # then this process itself is somebody else's
        monkeypatch.setattr(os, "getuid", lambda: SOMEBODY)
    # A program of the system's: an interpreter in a home folder is not for others to start.
    with subprocess.Popen(["/bin/cat"], stdin=-1, user=SOMEBODY if as_root else None) as process:
        found = other_users()
        process.communicate()
    assert len(found) >= 1
    assert (f"uid {SOMEBODY}" in found) == as_root


def test_the_systems_own_users_and_the_one_behind_sudo_are_none(monkeypatch):
    monkeypatch.setattr("app.neighbours._logged_in", list)
    monkeypatch.setattr("app.neighbours._owners", lambda: [0, 33, 999, 61_184, 65_534, SOMEBODY])
    assert other_users() == [f"uid {SOMEBODY}"]
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    assert other_users() == []


def test_a_login_is_one_whatever_it_runs(alone):
    program(alone, "who", "nobody   pts/0        2026-11-20 10:00 (10.0.0.7)")
    assert "nobody" in neighbours()


def test_slurm_that_is_only_installed_is_none(alone):
    program(alone, "sbatch")
    program(alone, "scontrol", "scontrol: fatal: Could not establish a configuration source")
    assert neighbours() == ""


def test_slurm_that_answers_is_one(slurm):
    assert shutil.which("sbatch")
    assert "Slurm" in neighbours()
