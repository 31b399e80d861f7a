"""PUT /api/models: a config.json becomes a model that an estimate takes as it is, or problems that name its keys."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.app.examples import scenario

HF_CONFIGS = Path(__file__).parents[2] / "reference" / "hf_configs"


def put(client, body, filename="config.json"):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.put("/api/models", params={"filename": filename}, content=content)


@pytest.mark.parametrize("path", sorted(HF_CONFIGS.glob("*.json")), ids=lambda path: path.stem)
def test_a_config_becomes_a_model_that_an_estimate_takes(shared_client, path):
    response = put(shared_client, path.read_bytes(), f"C:\\models\\{path.name}")
    assert response.status_code == 200, response.text
    found = response.json()
    assert set(found) == {"model", "parameters", "active_parameters", "assumptions"}
    assert found["model"]["name"] == path.name
    assert (found["active_parameters"] < found["parameters"]) == (found["model"]["experts"] > 0)
    document = scenario() | {"model": found["model"]}
    estimate = shared_client.post("/api/estimate", json=document)
    assert estimate.status_code == 200, estimate.text
    assert estimate.json()["parameters"] == found["parameters"]


def test_what_is_assumed_is_said(shared_client):
    found = put(shared_client, {"model_type": "llama"}).json()
    assert found["parameters"] == 6_738_415_616
    assert found["model"]["name"] == "llama 6.74B", "every model's file is called config.json"
    assert any("hidden_size = 4096" in assumption for assumption in found["assumptions"])


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"architectures": ["MambaForCausalLM"]}, "architectures"),
        ({"schema_version": 1, "base": "hopper", "ranges": {}}, "ranges"),
        (scenario(), "cluster"),
        ({"model_type": "llama", "vocab_size": 0}, "vocab_size"),
        ([], "(document)"),
        (b"", "(document)"),
        (b"[" * 100_000, "(document)"),
        (b'{"model_type": "llama", "vocab_size": NaN}', "(document)"),
        (b'{"model_type": "llama", "vocab_size": 123456789012345678901234567890}', "(document)"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_remedy(shared_client, body, field):
    response = put(shared_client, body)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    (problem,) = response.json()["problems"]
    assert problem["field"] == field
    assert problem["remedy"]


def test_a_long_body_is_refused(shared_client):
    assert put(shared_client, b" " * (2 * 1024**2 + 1)).status_code == 413
