"""The OpenAPI document tells the truth: each endpoint takes its example, and every status that it names is seen."""

from __future__ import annotations

import inspect
import json
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest
from fastapi import FastAPI, params
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.api import ROUTERS
from app.api.calibrations import EXAMPLE
from app.api.documented import PROBLEM, Raw, endpoints
from app.calibrations import CalibrationFolder
from app.main import create_app
from app.runs.run import read_run
from app.security import FREE_GUESSES, OPEN_PATHS, READING, Guard, Guesses
from app.settings import Settings
from estimator.studies import STUDIES
from tests.app.examples import SCENARIO, write_run, write_upload

ENDPOINTS = endpoints(ROUTERS)
BODILESS = {
    ("/api/runs/{run_id}/cancel", "post"),
    ("/api/runs/{run_id}/retry", "post"),
    ("/api/this-cpu", "post"),
}
"""Writes that need nothing but their address."""
SEEN_ELSEWHERE = {400, 507}
"""A connection that closes and a full disk: test_sweep, test_body and test_uploads bring them about."""
LIMIT_BYTES = 4096
LAUNCHES = [{"ladder": "launch", "op": "op", "launch_s": 8e-6, "median_s": 8e-4, "status": "ok"}]
TOKEN = "a long secret of the tests"


def named(key: tuple[str, str]) -> str:
    return f"{key[1].upper()} {key[0]}"


EVERY = pytest.mark.parametrize("key", ENDPOINTS, ids=named)


@pytest.fixture(scope="module")
def server(tmp_path_factory, _compressed_plotly):
    """A server with a run that ended, one that cannot be repeated, one that has not ended, and an upload."""
    folder = tmp_path_factory.mktemp("documented")
    (folder / "samples").mkdir()
    write_run(folder / "data" / "runs", "ended")
    odd = write_run(folder / "data" / "runs", "odd")
    (odd / "job.json").write_text(json.dumps({"benchmark": "step", "scenario": SCENARIO | {"model": "gpt-2000"}}))
    for number in range(2):
        write_upload(folder / "data" / "uploads", f"u{number}", count=1)
    probed = write_upload(folder / "data" / "uploads", EXAMPLE["measurements"][0].removesuffix("-0"), count=1)
    path = probed / "measurements" / "00000.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"device": {"name": "NVIDIA H200"}, "rows": LAUNCHES}))
    settings = Settings(
        data=folder / "data", samples=folder / "samples", probe_cpu=False,
        json_limit_bytes=LIMIT_BYTES, upload_limit_bytes=LIMIT_BYTES,
    )  # fmt: skip
    CalibrationFolder(folder / "data" / "calibrations").root.joinpath("a", "b").mkdir(parents=True)
    kept = {"schema_version": 1, "name": "a", "base": "hopper", "device": "", "host": "", "ranges": {}}
    (folder / "data" / "calibrations" / "a" / "b" / "20261120.json").write_text(json.dumps(kept))
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as found:
        yield found


@pytest.fixture(scope="module")
def document(server) -> dict[str, Any]:
    return server.get("/api/openapi.json").json()


@pytest.fixture
def begin(server) -> Iterator[Callable[[], str]]:
    """Launch a run that does not end by itself; most endpoints need none."""
    begun: list[str] = []

    def launched() -> str:
        job = {"scenario": SCENARIO, "device": "cpu", "warmup": 1, "steps": 100_000}
        begun.append(server.post("/api/runs", json=job).json()["id"])
        return begun[-1]

    yield launched
    for run_id in begun:
        server.post(f"/api/runs/{run_id}/cancel")


def address(path: str, **ids: str) -> str:
    known = {
        "run_id": "ended",
        "measurement_id": "u0-0",
        "upload_id": "u0",
        "calibration_id": "20261120",
        "name": next(iter(STUDIES)),
    } | ids
    return re.sub(r"{(\w+)}", lambda match: known[match[1]], path)


def send(client, key, path="", operation=None, **changes):
    """Send the document's own example to an endpoint, with changes."""
    content = (operation or {}).get("requestBody", {}).get("content", {})
    arguments = {}
    for media_type, told in content.items():
        example = told["example"]
        raw = example if isinstance(example, str) else json.dumps(example)
        arguments = {"content": raw, "headers": {"content-type": media_type}}
    arguments |= changes
    return client.request(key[1].upper(), path or address(key[0]), **arguments)


def test_every_route_is_in_the_document_and_nothing_else(document):
    found = {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert found == set(ENDPOINTS)
    assert document["openapi"].startswith("3.1")


def test_every_reference_leads_somewhere_and_every_schema_is_referred_to(document):
    references = set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document)))
    assert references == set(document["components"]["schemas"])


@EVERY
def test_every_write_says_what_it_takes(document, key):
    told = document["paths"][key[0]][key[1]].get("requestBody")
    if key[1] in ("get", "delete") or key in BODILESS:
        assert told is None
        return
    assert told["required"]
    for content in told["content"].values():
        assert content["schema"]
        assert content["example"]


def test_the_schemas_have_the_bounds_and_choices_that_the_codec_holds_to(document):
    schemas = document["components"]["schemas"]
    assert schemas["Plan"]["properties"]["tp"] | {"default": 1} == {
        "type": "integer", "default": 1, "minimum": 1, "maximum": 100_000, "description": "tensor parallel degree",
    }  # fmt: skip
    assert schemas["Plan"]["properties"]["sharding"]["enum"] == ["ddp", "zero1", "zero2", "zero3", "fsdp"]
    assert schemas["Training"]["required"] == ["seq_len", "global_batch"]
    assert schemas["GivenCluster"]["properties"]["nodes"]["maximum"] == 100_000
    assert not schemas["Model"]["additionalProperties"]
    assert schemas["ProblemDocument"]["required"] == ["detail", "problems", "status", "title", "type"]


def is_of_type(content: bytes, kinds: tuple[Any, ...]) -> bool:
    """Whether JSON has all that these types have."""
    try:
        for kind in kinds:
            msgspec.json.decode(content, type=kind, dec_hook=lambda _, value: np.array(value))
    except msgspec.ValidationError:
        return False
    return True


@EVERY
def test_the_example_is_taken_and_the_answer_is_of_its_type(server, document, key, begin):
    endpoint, operation = ENDPOINTS[key], document["paths"][key[0]][key[1]]
    path = address(key[0], run_id=begin() if key[0].endswith("/cancel") else "ended", upload_id="u1")
    answer = send(server, key, path, operation)
    if key == ("/api/runs", "post") or key[0].endswith("/retry"):
        server.post(f"/api/runs/{answer.json()['id']}/cancel")
    assert answer.status_code in endpoint.answers, answer.text
    assert_as_documented(operation, answer)
    if answer.headers.get("content-type") == "application/json":
        listed = endpoint.answers[answer.status_code]
        choices = [one for one in (listed if isinstance(listed, list) else [listed]) if not isinstance(one, Raw)]
        assert any(is_of_type(answer.content, one if isinstance(one, tuple) else (one,)) for one in choices)
    if key == ("/api/runs/{run_id}", "delete"):
        write_back(server)


def write_back(server) -> None:
    """What the example deleted is needed again."""
    context = server.app.state.context
    context.store.put_run(read_run(write_run(context.settings.data / "runs", "ended")))


def assert_as_documented(operation, answer) -> None:
    """The status is declared, with this media type."""
    told = operation["responses"][str(answer.status_code)]
    media_type = answer.headers.get("content-type", "").partition(";")[0]
    assert (media_type in told["content"]) if "content" in told else answer.content == b""


def assert_refused(operation, answer, status: int) -> None:
    assert answer.status_code == status, answer.text
    assert_as_documented(operation, answer)
    assert answer.headers["content-type"] == PROBLEM
    found = answer.json()
    assert {"type", "title", "status", "detail", "problems"} <= set(found)
    assert found["status"] == status


def refused_by(endpoint) -> set[int]:
    """Statuses that the source of an endpoint, and of what it depends on, refuses with."""
    found = {int(status) for status in re.findall(r"\bRefused\((\d+)", inspect.getsource(endpoint))}
    for hint in typing.get_type_hints(endpoint, include_extras=True).values():
        for extra in getattr(hint, "__metadata__", ()):
            if isinstance(extra, params.Depends) and extra.dependency is not None:
                found |= refused_by(extra.dependency)
    return found


def test_every_refusal_of_an_endpoint_is_named(document):
    refusals = 0
    for route in (route for router in ROUTERS for route in router.routes):
        for method in route.methods:
            named = set(document["paths"][route.path][method.lower()]["responses"])
            wanted = {str(status) for status in refused_by(route.endpoint)}
            assert wanted <= named, (method, route.path)
            refusals += len(wanted)
    assert refusals > 10


@EVERY
def test_every_refusal_that_it_names_is_seen(server, document, key, begin):
    path, method = key
    operation = document["paths"][path][method]
    nothing = {
        "run_id": "none",
        "measurement_id": "none",
        "calibration_id": "none",
        "upload_id": "none",
        "name": "none",
    }
    beyond = {"params": {"after": "none"}} if path == "/api/measurements" else {}
    ways = {
        403: lambda: send(server, key, headers={"origin": "http://evil.example"}),
        404: lambda: send(server, key, address(path, **nothing), operation, **beyond),
        409: lambda: send(server, key, address(path, run_id=begin())),
        413: lambda: send(server, key, content=b"[" + b" " * LIMIT_BYTES + b"]",
                          headers={"content-type": "application/json"}),
        415: lambda: send(server, key, content=b"{}", headers={"content-type": "text/plain"}),
        421: lambda: send(server, key, headers={"host": "evil.example"}),
        422: lambda: unusable(server, key, operation),
    }  # fmt: skip
    for status in map(int, set(operation["responses"]) - {"default"}):
        if status >= 400 and status not in SEEN_ELSEWHERE | {401, 429}:
            assert_refused(operation, ways[status](), status)


def unusable(server, key, operation):
    """Send what no endpoint can use."""
    if "requestBody" in operation:
        return send(server, key, content=b"{", headers={"content-type": "application/json"})
    if key[0].endswith("/retry"):
        return send(server, key, address(key[0], run_id="odd"))
    if key[0].endswith(("/rows", "/what-if", "/{measurement_id}/timeline")):
        return send(server, key, params={"chip": "none"})
    if key[0] == "/api/measurements":
        return send(server, key, params={"limit": "-1"})
    return send(server, key, params={"nonsense": "1"})


@EVERY
def test_refusals_of_a_server_with_a_token_are_told(document, key):
    operation = document["paths"][key[0]][key[1]]
    named = {int(status) for status in operation["responses"] if status.isdecimal()}
    assert ({401, 429} <= named) == (key[0] not in OPEN_PATHS) == ("security" in operation)
    assert (403 in named) == (key[1].upper() not in READING)


def test_every_endpoint_of_a_server_with_a_token_refuses_who_has_none_or_guesses(settings, document):
    chosen = settings.model_copy(update={"token": SecretStr(TOKEN)})
    app = create_app(chosen)
    with TestClient(app, base_url="http://127.0.0.1:8000") as client:
        guard_of(app).guesses = Guesses(clock=lambda: 0.0)  # guesses are locked for as long as the test takes
        guarded = [key for key in ENDPOINTS if key[0] not in OPEN_PATHS]
        for key in guarded:
            assert_refused(document["paths"][key[0]][key[1]], send(client, key), 401)
        wrong = {"headers": {"authorization": "Bearer wrong"}}
        for _ in range(FREE_GUESSES + 4):
            send(client, guarded[0], **wrong)
        for key in guarded:
            assert_refused(document["paths"][key[0]][key[1]], send(client, key, **wrong), 429)


def guard_of(app: FastAPI) -> Guard:
    """The server's own guard, among what its requests pass through."""
    layer: Any = app.middleware_stack
    while not isinstance(layer, Guard):
        layer = layer.app
    return layer
