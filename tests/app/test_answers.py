"""Answers that depend on the request alone are computed once, and anew when a name may stand for something else."""

from __future__ import annotations

import pytest

from app import answers
from app.api import estimate as endpoint
from app.api.given import SCENARIO
from estimator.scenario import catalog

ASKED = {"scenario": SCENARIO, "field": "plan.tp"}


@pytest.fixture
def asked(client, monkeypatch):
    """Ask for an axis; the list grows by every one that is computed."""
    computed = []
    axis = endpoint.axis
    monkeypatch.setattr(endpoint, "axis", lambda *given: computed.append(given[1]) or axis(*given))
    return lambda **changes: client.post("/api/estimate/axis", json=ASKED | changes), computed


def test_the_same_is_computed_once_until_the_catalogue_changes(asked, catalogue_as_before):
    ask, computed = asked
    first = ask()
    assert ask().content == first.content
    assert ask(field="plan.cp").json()["field"] == "plan.cp"
    assert ask().content == first.content
    assert computed == ["plan.tp", "plan.cp"]
    catalog.add("chips", next(one for one in catalog.entries("chips") if one.key == SCENARIO["cluster"]["chip"]))
    assert ask().content == first.content
    assert len(computed) == 3
    assert [ask(field="plan.none").status_code for _ in range(2)] == [422, 422]
    assert len(computed) == 5


def test_the_oldest_give_way(asked, monkeypatch):
    ask, computed = asked
    monkeypatch.setattr(answers, "MOST_BYTES", 1.5 * len(ask().content))
    ask(field="plan.micro_batch")
    ask(field="plan.micro_batch")
    ask()
    assert computed == ["plan.tp", "plan.micro_batch", "plan.tp"]
