"""What the tests of commands share: a file to give them, their data folder, and how bad input is refused."""

from __future__ import annotations

import json

import pytest

from app.cli import run


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="input.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    return write_file


@pytest.fixture(autouse=True)
def _data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))


@pytest.fixture
def refused(write, capsys):
    """Check that a command ends with status 2 and one line per problem, one of which says so."""

    def check(arguments, content, words):
        assert run([*arguments, write(content)]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        lines = captured.err.splitlines()
        assert any(words in line for line in lines), captured.err
        assert all(line.startswith("headroom: ") for line in lines)

    return check
