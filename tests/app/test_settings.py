"""Settings: arguments before variables before defaults, and nothing unsafe by accident."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.commands.settings import settings_from
from app.settings import Settings, default_data_folder, is_loopback
from estimator.scenario.problems import InputProblems

SECRET = "sixteen letters!"


def test_the_data_folder_follows_the_xdg_rule(monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert default_data_folder() == Path("/somewhere/headroom")
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    monkeypatch.setenv("HOME", "/home/user")
    assert default_data_folder() == Path("/home/user/.local/share/headroom")
    monkeypatch.setenv("HEADROOM_DATA", "/data")
    assert Settings().data == Path("/data")
    assert Settings(data=Path("/given")).data == Path("/given")


def test_the_index_lies_in_the_data_folder_unless_a_database_is_named(monkeypatch):
    assert Settings(data=Path("/data")).index_url == "sqlite:////data/index.sqlite3"
    monkeypatch.setenv("HEADROOM_DATABASE_URL", "postgresql://host/name")
    assert Settings(data=Path("/data")).index_url == "postgresql://host/name"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"])
def test_these_are_this_machine(host):
    assert is_loopback(host)
    assert Settings(host=host).problems() == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "example.org", ""])
def test_these_are_not_and_need_a_token(host):
    assert not is_loopback(host)
    (problem,) = Settings(host=host).problems()
    assert "HEADROOM_TOKEN" in problem.remedy
    assert Settings(host=host, token=SECRET).problems() == []


@pytest.mark.parametrize("host", ["0.0.0.0", "127.0.0.1"])
@pytest.mark.parametrize("token", ["a", " ", " " * 40, "fifteen letters", "  fifteen letters  "])
def test_a_token_that_can_be_guessed_is_refused(host, token):
    (problem,) = Settings(host=host, token=token).problems()
    assert problem.field == "HEADROOM_TOKEN"
    assert "16 characters" in problem.remedy


def test_a_token_and_none_contradict_each_other(monkeypatch):
    monkeypatch.setenv("HEADROOM_NO_TOKEN", "1")
    assert Settings().problems() == []
    (problem,) = Settings(token=SECRET).problems()
    assert "HEADROOM_TOKEN" in problem.message


def test_the_token_is_not_shown():
    assert SECRET not in repr(Settings(token=SECRET))


def test_a_wrong_variable_is_named(monkeypatch):
    monkeypatch.setenv("HEADROOM_PORT", "many")
    with pytest.raises(InputProblems) as caught:
        settings_from({"host": None})
    assert caught.value.problems[0].field == "HEADROOM_PORT"
    with pytest.raises(InputProblems) as caught:
        settings_from({"port": 99999})
    assert caught.value.problems[0].field == "--port"


def test_settings_do_not_change(monkeypatch):
    with pytest.raises(ValidationError):
        Settings().port = 1


def test_a_folder_without_a_page_is_named(tmp_path):
    (problem,) = Settings(static=tmp_path).problems()
    assert "HEADROOM_STATIC" in problem.remedy
