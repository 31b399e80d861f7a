"""What other ranks send comes from traces of theirs: in order, once, and their end is told."""

import os
import sys
import textwrap
import time

import pytest

from estimator.scenario.problems import InputProblems
from runners.program import peers
from runners.program.peers import FOLDER, Peers
from tests.runners.examples import ROOT
from tests.runners.program.conftest import PROGRAMS


def test_stages_that_ask_for_shapes_are_as_those_that_are_told(traced):
    told, asked = (
        traced(PROGRAMS / "stages.py", "--world-size", "3", "--rank", "1", "--", way) for way in ("told", "asked")
    )
    assert any(asked.of(call).op == "c10d::recv_" for call in asked.calls)
    assert (asked.calls, asked.signatures, asked.storages) == (told.calls, told.signatures, told.storages)


def rank_that(code: str):
    """Command of a rank that does something with its ``peers``."""
    begin = "import sys; sys.path.insert(0, sys.argv[2])\nfrom runners.program.peers import Peers\n"
    begin += "peers = Peers(int(sys.argv[1]), None)\n"
    return lambda rank: [sys.executable, "-c", begin + textwrap.dedent(code), str(rank), str(ROOT)]


def test_messages_come_in_order_from_whom_they_are_asked_for_and_what_was_sent_before_is_there():
    own = Peers(0, rank_that("for n in range(3): peers.send('objects', 0, (n, peers.receive('objects', 0)))"))
    own.send("objects", 1, ["early"])
    own.send("objects", 1, ["next"])
    assert own.receive("objects", 1) == (0, ["early"])
    own.send("objects", 1, ["late"])
    assert [own.receive("objects", 1) for _ in range(2)] == [(1, ["next"]), (2, ["late"])]
    folder = own._folder
    assert folder.stat().st_mode & 0o077 == 0, "nobody else writes what is unpickled"
    own.close()
    assert not folder.exists()


def test_a_rank_that_ends_without_a_word_is_told_with_its_last():
    own = Peers(2, rank_that("print('no data here')"))
    with pytest.raises(InputProblems, match=r"rank 1: ended before it sent .* last words: no data here\. .*--rank 1"):
        own.receive("objects", 1)
    own.close()


def test_a_rank_that_has_run_to_its_end_stays_until_nobody_asks_for_more():
    own = Peers(0, rank_that("peers.send('objects', 0, 'all'); peers.stay(); print('goes')"))
    assert own.receive("objects", 1) == "all"
    with pytest.raises(InputProblems, match="rank 1: ended before it sent what rank 0 waits for"):
        own.receive("objects", 1)
    (process,) = own._started
    assert process.poll() is None
    own.close()
    assert process.poll() is not None


def test_a_rank_that_says_nothing_is_not_waited_for_without_end_and_ends_with_who_asked(monkeypatch):
    monkeypatch.setattr(peers, "WAIT_S", 0.2)
    own = Peers(0, rank_that("import time; time.sleep(600)"))
    with pytest.raises(InputProblems, match=r"rank 1: sent nothing for 0\.2 s"):
        own.receive("objects", 1)
    (process,) = own._started
    own.close()
    assert process.poll() is not None


def test_a_rank_that_others_began_is_not_begun_again(monkeypatch, tmp_path):
    monkeypatch.setenv(FOLDER, str(tmp_path))
    monkeypatch.setattr(peers, "end_with_parent", lambda: None)
    (tmp_path / "rank-0").write_text(str(os.getpid()))
    monkeypatch.setattr(peers, "WAIT_S", 0.1)
    one = Peers(1, rank_that("raise AssertionError"))
    begin_s = time.monotonic()
    with pytest.raises(InputProblems, match="rank 0: sent nothing"):
        one.receive("objects", 0)
    assert time.monotonic() - begin_s >= 0.1
    assert not one._started
    one.close()
    assert tmp_path.exists()
