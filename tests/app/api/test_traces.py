"""PUT /api/traces: a config.json without closed form is traced and kept; a client that leaves ends it."""

from __future__ import annotations

import asyncio
import json
import sys

import pytest

from app import tracing
from app.api.given import HUGGING_FACE_OTHER
from app.config_names import traced_name
from app.errors import Refused
from estimator.scenario.problems import InputProblems


def put(client, config, **options):
    return client.put("/api/traces", params=options, content=json.dumps(config).encode())


def test_an_architecture_without_closed_form_gives_its_own_prediction(client):
    assert client.put("/api/models", content=json.dumps(HUGGING_FACE_OTHER).encode()).status_code == 422
    response = put(client, HUGGING_FACE_OTHER, filename="config.json", batch=4, chip="h200-sxm")
    assert response.status_code == 201, response.text
    (summary,) = response.json()["measurements"]
    found = client.get(f"/api/measurements/{summary['id']}").json()
    assert found["expected"]["chip"] == "h200-sxm"
    assert found["expected"]["estimate"]["step_time_s"] > 0
    ops = client.get(f"/api/measurements/{summary['id']}/ops").json()
    assert ops["parameters"] == found["expected"]["estimate"]["parameters"] > 10_000
    assert "--batch" in ops["arguments"]
    assert ops["program"] == "vit.json"


@pytest.mark.parametrize(
    ("kind", "filename", "name"),
    [
        ("vit", "config.json", "vit.json"),
        ("vit", "mine.json", "mine.json"),
        ("vit", "../../x.json", "x.json"),
        ("vit", "..", "config.json"),
        ("/../vit", "config.json", "vit.json"),
        ("é" * 300, "config.json", "config.json"),
    ],
)
def test_what_is_traced_has_a_name_that_tells_it_apart_and_that_every_disk_takes(kind, filename, name):
    assert traced_name({"model_type": kind}, filename) == name


@pytest.mark.parametrize(
    ("config", "options", "field"),
    [
        ({}, {}, "model_type"),
        ([], {}, "model_type"),
        ({"base": "hopper", "ranges": {}}, {}, "ranges"),
        (HUGGING_FACE_OTHER, {"chip": "z80"}, "chip"),
        (HUGGING_FACE_OTHER, {"precision": "fp3"}, "precision"),
        (HUGGING_FACE_OTHER, {"batch": 0}, "batch"),
    ],
)
def test_what_cannot_be_traced_is_refused_before_it_is_tried(shared_client, config, options, field):
    response = put(shared_client, config, **options)
    assert response.status_code == 422, response.text
    assert response.json()["problems"][0]["field"].endswith(field)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "import sys; print('noise'); sys.exit('trace: mine.json: has no loss. Give one.')",
            r"has no loss\. Give one\. Run",
        ),
        ("import os; os.kill(os.getpid(), 9)", "more time or memory"),
        ("import time; time.sleep(60)", "more time or memory"),
    ],
)
def test_a_trace_that_fails_is_told_by_its_last_words(monkeypatch, tmp_path, code, said):
    monkeypatch.setattr(tracing, "limited_command", lambda flags, out: [sys.executable, "-c", code])
    with pytest.raises(InputProblems, match=said):
        asyncio.run(tracing.trace_config(tmp_path / "mine.json", [], tmp_path / "ops.json", wall_s=2))


def test_one_is_traced_at_a_time_and_the_others_know_their_place_in_the_line(shared_client):
    async def three():
        turns, ends = tracing.Turns(), asyncio.Event()

        async def trace(ticket):
            async with turns.turn(ticket):
                await ends.wait()

        tasks = [asyncio.create_task(trace(one)) for one in ("first", "second", "third")]
        told = []
        for change in (lambda: None, tasks[1].cancel, tasks[0].cancel, ends.set):
            change()
            await asyncio.wait(tasks, timeout=0.02)
            told.append([turns.before(one) for one in ("first", "second", "third")])
        return told

    assert asyncio.run(three()) == [[0, 1, 2], [0, None, 1], [None, None, 0], [None, None, None]]
    assert shared_client.get("/api/traces?ticket=nobody").json() == {"before": None}


def test_a_client_that_leaves_ends_it(monkeypatch, tmp_path):
    code = "import time; time.sleep(60)"
    monkeypatch.setattr(tracing, "limited_command", lambda flags, out: [sys.executable, "-c", code])

    async def leaves_soon():
        async def leave():
            await asyncio.sleep(0.2)

        trace = tracing.trace_config(tmp_path / "config.json", [], tmp_path / "ops.json", wall_s=50)
        async with asyncio.timeout(20):
            await tracing.unless(asyncio.create_task(leave()), asyncio.create_task(trace))

    with pytest.raises(Refused, match="closed before"):
        asyncio.run(leaves_soon())
