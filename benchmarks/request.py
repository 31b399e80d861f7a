"""What the server adds to one estimate: a request beside its parts, and beside one to an empty endpoint.

Run ``python benchmarks/request.py [--against FOLDER]``: processor time of this process in milliseconds, the least of
ROUNDS rounds in which all take turns, so that other programs disturb all alike. ``--against`` measures another
checkout in turns with this one, each in processes of its own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Scope

ROOT = Path(__file__).parent.parent
ROUNDS = 12
CALLS = 100
PROCESSES = 3
SCENARIO = {
    "model": "llama3-8b",
    "cluster": "h100-sxm",
    "plan": {"dp": 8, "sharding": "fsdp"},
    "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16"},
}
BODY = json.dumps(SCENARIO).encode()
Call = Callable[[], Awaitable[object]]


async def measured_ms(calls: dict[str, Call]) -> dict[str, float]:
    """Call each in turn; return the least processor time of one call."""
    found = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start_s = time.process_time()
            for _ in range(CALLS):
                await call()
            found[name] = min(found[name], 1e3 * (time.process_time() - start_s) / CALLS)
    return found


async def parts_ms(root: Path, folder: Path) -> dict[str, float]:
    """Measure the checkout at ``root`` in this process; its server keeps its data in ``folder``."""
    sys.path.insert(0, str(root))
    from app.api.body import decode_json
    from app.encoding import encode_json
    from app.main import create_app
    from app.settings import Settings
    from estimator.estimate.estimate import estimate
    from estimator.scenario.scenario import scenario_from_json

    (folder / "samples").mkdir()
    app = create_app(Settings(data=folder / "data", samples=folder / "samples", probe_cpu=False))

    @app.post("/api/empty")
    async def empty(request: Request) -> Response:
        await request.body()
        return Response(b"{}", media_type="application/json")

    def request(path: str) -> Call:
        async def call() -> None:
            headers = {"host": "127.0.0.1:8000", "content-type": "application/json", "content-length": str(len(BODY))}
            scope: Scope = {
                "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1",
                "method": "POST", "scheme": "http", "path": path, "raw_path": path.encode(), "query_string": b"",
                "root_path": "", "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
                "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000),
            }  # fmt: skip
            status: list[int] = []

            async def receive() -> Message:
                return {"type": "http.request", "body": BODY, "more_body": False}

            async def send(message: Message) -> None:
                if message["type"] == "http.response.start":
                    status.append(message["status"])

            await app(scope, receive, send)
            assert status == [200], status

        return call

    # Equal and yet new, as those of requests are: what the estimator keeps is found by comparing all of them
    fresh = iter([scenario_from_json(SCENARIO) for _ in range(ROUNDS * CALLS)])
    found = estimate(scenario_from_json(SCENARIO))

    def plain(work: Callable[[], object]) -> Call:
        async def call() -> object:
            return work()

        return call

    return await measured_ms(
        {
            "empty endpoint": request("/api/empty"),
            "read the scenario": plain(lambda: scenario_from_json(decode_json(BODY))),
            "estimate": plain(lambda: estimate(next(fresh))),
            "write the answer": plain(lambda: encode_json(found)),
            "POST /api/estimate": request("/api/estimate"),
        }
    )


def in_a_process(root: Path) -> dict[str, float]:
    """Measure a checkout in a fresh process."""
    command = [sys.executable, str(Path(__file__)), "--parts", str(root)]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure and print one table; of several processes the least counts."""
    roots = [ROOT, *(Path(text).resolve() for text in sys.argv[2:3])]
    best: dict[Path, dict[str, float]] = {}
    for _ in range(PROCESSES):
        for root in roots:
            found = in_a_process(root)
            best[root] = {name: min(value, best.get(root, found)[name]) for name, value in found.items()}
    print(f"{'CPU ms of one call':24}" + "".join(f"{'here' if root == ROOT else root.name:>16}" for root in roots))
    for name in best[ROOT]:
        print(f"{name:24}" + "".join(f"{best[root][name]:>16.3f}" for root in roots))
    ratios = [best[root]["POST /api/estimate"] / best[root]["empty endpoint"] for root in roots]
    print(f"{'times the empty one':24}" + "".join(f"{ratio:>16.1f}" for ratio in ratios))
    parts = ("empty endpoint", "read the scenario", "estimate", "write the answer")
    beyond = [best[root]["POST /api/estimate"] - sum(best[root][name] for name in parts) for root in roots]
    print(f"{'beyond its parts':24}" + "".join(f"{value:>16.3f}" for value in beyond))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--parts"]:
        with tempfile.TemporaryDirectory() as name:
            print(json.dumps(asyncio.run(parts_ms(Path(sys.argv[2]), Path(name)))))
    else:
        main()
