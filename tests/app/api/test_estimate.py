"""POST /api/estimate and /api/estimate/axis: the contract's shapes, and no input that breaks the server."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES
from tests.app.examples import LLAMA, scenario
from tests.odd_json import SCALARS, documents


@pytest.fixture
def client(shared_client):
    return shared_client


def fields_of(response):
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    return [problem["field"] for problem in response.json()["problems"]]


def test_an_estimate_has_the_contracts_shape(client):
    response = client.post("/api/estimate", json=LLAMA)
    assert response.status_code == 200
    found = response.json()
    assert tuple(found["phases_s"]) == PHASES
    assert tuple(found["breakdown_s"]) == CATEGORIES
    assert set(found["memory"]["by_kind"]) == set(MEMORY_KINDS)
    assert sum(found["phases_s"].values()) == pytest.approx(found["step_time_s"])
    assert found["interval_s"][0] <= found["step_time_s"] <= found["interval_s"][1]
    assert found["memory"]["fits"] is True
    names = {"name", "phase", "category", "count", "flops", "bytes", "seconds", "bound", "intensity_flops_per_byte"}
    assert names <= set(found["ops"][0])
    assert {"name", "kind", "axis", "ranks", "bytes", "seconds", "exposed_s"} <= set(found["collectives"][0])
    assert isinstance(found["limits"], str)
    assert found["problems"] == []
    assert found["parameters"] == 8_030_261_248


def test_an_op_list_is_estimated_like_a_scenario(client):
    ops = Path(__file__).parents[2] / "reference" / "ops" / "llama.json"
    document = json.loads(ops.read_text(encoding="utf-8"))
    response = client.post("/api/estimate", json=document)
    assert response.status_code == 200
    found = response.json()
    assert set(found) == set(client.post("/api/estimate", json=LLAMA).json())
    assert sum(found["phases_s"].values()) == pytest.approx(found["step_time_s"])
    assert found["modules"][0]["path"]
    assert fields_of(client.post("/api/estimate", json=document | {"chip": ""})) == ["chip"]
    assert fields_of(client.post("/api/estimate", json=document | {"world_size": 0})) == ["world_size"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"plan__tq": 2}, "plan.tq"),
        ({"plan__tp": 3, "cluster__chips_per_node": 3}, "plan.tp"),
        ({"plan__dp": 2}, "plan.dp"),
        ({"plan__dp": 0}, "plan.dp"),
        ({"plan__dp": -1}, "plan.dp"),
        ({"plan__dp": 1.5}, "plan.dp"),
        ({"plan__dp": True}, "plan.dp"),
        ({"plan__dp": "2"}, "plan.dp"),
        ({"plan__dp": None}, "plan.dp"),
        ({"plan__dp": 10**18}, "plan.dp"),
        ({"training__seq_len": 10**17}, "training.seq_len"),
        ({"training__precision": "fp8"}, "training.precision"),
        ({"training__precision": "float"}, "training.precision"),
        ({"model__layers": -3}, "model.layers"),
        ({"model__experts": 8, "model__top_k": 9}, "model.top_k"),
        ({"cluster__chip": "a100-80gb-smx"}, "cluster.chip"),
        ({"cluster__link": {"bytes_per_s": 0, "latency_s": 0}}, "cluster.link.bytes_per_s"),
        ({"plan__cp": 2, "cluster__chips_per_node": 2, "training__seq_len": 17}, "plan.cp"),
    ],
)
def test_what_cannot_be_is_named_by_field_with_a_remedy(client, changes, field):
    response = client.post("/api/estimate", json=scenario(**changes))
    assert field in fields_of(response)
    problem = next(problem for problem in response.json()["problems"] if problem["field"] == field)
    assert problem["message"]
    assert problem["remedy"]


def test_every_problem_is_told_at_once(client):
    fields = fields_of(client.post("/api/estimate", json=scenario(plan__tq=2, training__seq_len=0, model__heads="x")))
    assert set(fields) == {"plan.tq", "training.seq_len", "model.heads"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b'{"model": NaN}',
        b'{"model": Infinity}',
        b"[" * 100_000,
        b'{"model":' * 50_000,
        b'{"a": 1' + b"0" * 5000 + b"}",
        b'{"plan": {"dp": 123456789012345678901234567890}}',
        b"1e999",
        b"\xff\xfe",
        b"null",
        b"[]",
        b'"text"',
        b'{"model": "\\ud800"}',
    ],
)
def test_a_body_that_is_no_scenario_is_refused(client, body):
    assert fields_of(client.post("/api/estimate", content=body, headers={"content-type": "application/json"}))


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]
)
def test_another_content_type_is_refused(client, content_type):
    headers = {"content-type": content_type} if content_type else {}
    response = client.post("/api/estimate", content=json.dumps(scenario()).encode(), headers=headers)
    assert response.status_code == 415
    assert "application/json" in response.json()["detail"]


def test_a_long_body_is_refused_announced_or_not(client):
    body = b" " * (3 * 1024**2)
    headers = {"content-type": "application/json"}
    assert client.post("/api/estimate", content=body, headers=headers).status_code == 413
    assert client.post("/api/estimate", content=iter([body]), headers=headers).status_code == 413


words = st.sampled_from(
    ["model", "cluster", "plan", "training", "dp", "tp", "pp", "chip", "layers", "hidden", "heads", "seq_len", "fp32"]
)
anything = documents(SCALARS | st.integers(-1, 64) | words, words, max_leaves=20)

FIELDS = [
    "model.layers",
    "model.hidden",
    "model.heads",
    "model.kv_heads",
    "model.head_dim",
    "model.ffn",
    "model.vocab",
    "model.norm",
    "model.position",
    "model.tied_embedding",
    "model",
    "cluster.chip",
    "cluster.chips_per_node",
    "cluster.nodes",
    "cluster.link",
    "cluster",
    "plan.dp",
    "plan.tp",
    "plan.pp",
    "plan.sharding",
    "plan.micro_batch",
    "plan.recompute",
    "plan.sequence_parallel",
    "plan.bucket_bytes",
    "training.seq_len",
    "training.global_batch",
    "training.precision",
    "training.attention",
    "training.framework",
    "training",
]
CHOICES = ["fsdp", "zero1", "full", "selective", "bf16", "fp16-amp", "eager", "flash", "megatron", "rms", "learned"]
values = (
    anything | st.integers(0, 200) | st.sampled_from([1, 2, 4, 8, 16, 1024, 10**6, 10**8]) | st.sampled_from(CHOICES)
)


@st.composite
def nearly_scenarios(draw):
    """A good scenario with a few fields replaced by anything, so that values reach the formulas."""
    found = copy.deepcopy(draw(st.sampled_from([LLAMA, scenario()])))
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=4)):
        part, _, field = name.partition(".")
        if not field:
            found[part] = draw(values)
        elif isinstance(found.get(part), dict):
            found[part][field] = draw(values)
    return found


@given(document=anything | nearly_scenarios())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_json_comes_is_answered(client, document):
    response = client.post(
        "/api/estimate", content=json.dumps(document).encode(), headers={"content-type": "application/json"}
    )
    assert response.status_code in (200, 422), response.text
    if response.status_code == 200:
        assert response.json()["step_time_s"] > 0
    else:
        assert all(problem["message"] and problem["remedy"] for problem in response.json()["problems"])


@given(body=st.binary(max_size=200))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_bytes_come_are_answered(client, body):
    response = client.post("/api/estimate", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 422


def test_an_axis_gives_a_point_for_every_value_legal_or_not(client):
    response = client.post("/api/estimate/axis", json={"scenario": LLAMA, "field": "plan.tp"})
    assert response.status_code == 200
    found = response.json()
    assert found["field"] == "plan.tp"
    points = {point["value"]: point for point in found["points"]}
    assert {1, 2, 4, 8} <= set(points)
    for value in (1, 2, 4, 8):
        assert points[value]["problems"] == []
        assert points[value]["scenario"]["plan"]["dp"] == 8 // value
        assert points[value]["scenario"]["model"] == "llama3-8b"
        alone = client.post("/api/estimate", json=points[value]["scenario"]).json()
        assert points[value]["estimate"] == alone
    refused = [point for point in found["points"] if point["estimate"] is None]
    assert all(point["problems"][0]["remedy"] for point in refused)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scenario": LLAMA}, "field"),
        ({"field": "plan.tp"}, "scenario"),
        ({"scenario": LLAMA, "field": "plan.colour"}, "field"),
        ({"scenario": LLAMA, "field": 3}, "field"),
        ({"scenario": {**LLAMA, "model": "lama"}, "field": "plan.tp"}, "model"),
        ({"scenario": LLAMA, "field": "plan.tp", "steps": 3}, "steps"),
        ([], "(document)"),
    ],
)
def test_an_axis_request_names_what_is_wrong(client, body, field):
    assert field in fields_of(client.post("/api/estimate/axis", json=body))


def test_this_cpu_is_refused_while_it_is_not_measured(client):
    response = client.post("/api/estimate", json=scenario(cluster__chip="cpu"))
    assert fields_of(response) == ["cluster.chip"]
    assert "not measured" in response.json()["problems"][0]["message"]
