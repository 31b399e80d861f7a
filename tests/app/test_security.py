"""Who may talk to the server: hosts, origins and tokens; and what every answer carries."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.main import create_app
from tests.app.examples import scenario

TOKEN = "a long secret, with % and ü"


@pytest.fixture
def client(shared_client):
    return shared_client


@pytest.fixture
def open_client(settings):
    chosen = settings.model_copy(update={"host": "0.0.0.0", "token": SecretStr(TOKEN)})
    with TestClient(create_app(chosen), base_url="http://headroom.example:8000", follow_redirects=False) as found:
        yield found


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "127.0.0.1"])
def test_names_of_this_machine_are_served(client, host):
    assert client.get("/api/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]", "192.168.1.5:8000", "[", ":"])
def test_other_names_that_point_here_are_refused(client, host):
    response = client.get("/api/health", headers={"host": host})
    assert response.status_code == 421
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8000"},
    ],
)
def test_other_sites_may_not_write(client, headers):
    response = client.post("/api/estimate", json=scenario(), headers=headers)
    assert response.status_code == 403
    assert client.put("/api/uploads", content=b"x", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://127.0.0.1:8000"}, {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8000"}],
)
def test_the_own_page_and_programs_may_write(client, headers):
    assert client.post("/api/estimate", json=scenario(), headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/health", "/api/nothing", "/js/main.js"])
def test_every_answer_carries_the_headers(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_without_the_token_only_health_answers(open_client):
    assert open_client.get("/api/health").status_code == 200
    for path in ("/", "/api/runs", "/js/main.js"):
        response = open_client.get(path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert "TOKEN" in response.json()["detail"]
    assert open_client.post("/api/estimate", json=scenario()).status_code == 401


def test_programs_send_the_token_as_bearer(open_client):
    bearer = {"authorization": f"Bearer {TOKEN}".encode()}
    assert open_client.get("/api/runs", headers=bearer).status_code == 200
    wrong = {"authorization": f"Bearer {TOKEN[:-1]}".encode()}
    assert open_client.get("/api/runs", headers=wrong).status_code == 401
    basic = {"authorization": f"Basic {TOKEN}".encode()}
    assert open_client.get("/api/runs", headers=basic).status_code == 401


def test_a_browser_gets_a_cookie_and_its_state_back(open_client):
    response = open_client.get("/", params={"token": TOKEN, "view": "runs"})
    assert response.status_code == 303
    assert response.headers["location"] == "/?view=runs"
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert open_client.get("/api/runs").status_code == 200
    assert open_client.get("/").status_code == 200


def test_a_wrong_token_in_the_address_gives_no_cookie(open_client):
    response = open_client.get("/", params={"token": "wrong"})
    assert response.status_code == 401
    assert "set-cookie" not in response.headers
