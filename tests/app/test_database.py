"""The index's database: made again where it is damaged, named without its secrets where it cannot be used."""

from __future__ import annotations

import sqlite3
import sys

import pytest
import sqlalchemy as sa

from app.cli import run
from app.database import engine_of, prepare
from app.disk import DataFolder
from app.store import Store
from estimator.scenario.problems import InputProblems
from tests.app.examples import write_run


@pytest.fixture
def data(tmp_path):
    folder = DataFolder(tmp_path / "data")
    folder.create()
    return folder


def test_a_damaged_sqlite_index_is_made_again(tmp_path):
    data = DataFolder(tmp_path / "data")
    data.create()
    write_run(data.runs, "r1")
    path = data.root / "index.sqlite3"
    path.write_bytes(b"this is no database" * 1000)
    store = Store(f"sqlite:///{path}", data, tmp_path)
    store.open()
    assert [run.id for run in store.runs()] == ["r1"]
    store.close()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("no url", "not a database URL"),
        ("mysql://user@host/name", "'mysql' is not supported"),
        ("postgresql://user:secret@127.0.0.1:1/name", "does not answer"),
        ("postgresql+nothing://user:secret@127.0.0.1:1/name", "driver nothing is not installed. Write postgresql://"),
        ("sqlite:////nowhere/at/all/index.sqlite3", "does not answer"),
    ],
)
def test_a_database_that_cannot_be_used_is_named_without_its_password(url, words, data, tmp_path):
    with pytest.raises(InputProblems, match=words) as caught:
        Store(url, data, tmp_path).open()
    assert "HEADROOM_DATABASE_URL" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_without_the_driver_of_postgresql_the_start_names_what_to_install(monkeypatch, capsys, tmp_path):
    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    monkeypatch.setenv("HEADROOM_DATABASE_URL", "postgresql://user:secret@127.0.0.1:1/name")
    assert run(["serve", "--data", str(tmp_path / "data"), "--port", "0"]) == 2
    captured = capsys.readouterr()
    assert captured.err == (
        "headroom: HEADROOM_DATABASE_URL: PostgreSQL's driver psycopg is not installed. "
        "Install it by make run EXTRAS=postgres or pip install 'psycopg[binary]', or unset the variable.\n"
    )
    assert captured.out == ""


def test_tables_of_another_version_are_made_again(tmp_path):
    url = f"sqlite:///{tmp_path / 'index.sqlite3'}"
    engine = engine_of(url)
    prepare(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE headroom_meta SET value = '0'")
        connection.exec_driver_sql("DROP TABLE headroom_runs")
    prepare(engine)
    assert "headroom_runs" in sa.inspect(engine).get_table_names()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()


def test_a_locked_index_is_not_thrown_away(tmp_path, monkeypatch):
    path = tmp_path / "index.sqlite3"
    engine = engine_of(f"sqlite:///{path}")
    prepare(engine)
    engine.dispose()

    other = sqlite3.connect(path, isolation_level=None)
    other.execute("UPDATE headroom_meta SET value = '0'")
    other.execute("BEGIN IMMEDIATE")
    impatient = sa.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0.1})
    with pytest.raises(InputProblems, match="locked"):
        prepare(impatient)
    other.execute("ROLLBACK")
    other.close()
    prepare(impatient)
    impatient.dispose()
    assert path.stat().st_size > 0
