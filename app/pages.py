"""Pages: the page's own files, and the plotly.js that they draw with, compressed once per version."""

from __future__ import annotations

import asyncio
import gzip
import re
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.disk import DataFolder

_IMMUTABLE = "public, max-age=31536000, immutable"
_ANY_PLOTLY = re.compile(rb"/plotly-[a-z0-9.-]+\.min\.js")
_VERSION = re.compile(rb"plotly\.js [^\n]*v([0-9.]+)")

BASIC_BUNDLE = Path("vendor") / "plotly-basic" / "plotly-basic.min.js"
"""plotly.js-basic-dist-min as npm has it, under ``static``."""


class _Revalidated(StaticFiles):
    """Files that a browser keeps but asks about each time, by ETag."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def wheel_file() -> Path:
    """Return plotly.js, with every type of trace, inside the installed plotly wheel, without importing the package."""
    spec = find_spec("plotly")
    assert spec is not None, "plotly is a dependency"
    assert spec.origin is not None
    return Path(spec.origin).parent / "package_data" / "plotly.min.js"


def plotly_version(file: Path) -> str:
    """Return the version that the head of a plotly.js says."""
    with file.open("rb") as opened:
        found = _VERSION.search(opened.read(400))
    assert found is not None, f"{file} begins with its version"
    return found[1].decode()


def plotly_file(static: Path) -> Path:
    """Return the plotly.js that the page loads: the basic bundle (bar, scatter, pie) of the page's own files.

    It is evaluated several times as fast as the wheel's. Where the installed wheel brings another plotly.js, that one,
    so that the dependency alone decides the version.
    """
    basic, whole = static / BASIC_BUNDLE, wheel_file()
    return basic if plotly_version(basic) == plotly_version(whole) else whole


def plotly_url(file: Path) -> str:
    """Return the URL of a plotly.js, which names its version, as in ``/plotly-basic-4.1.1.min.js``."""
    return f"/{file.name.removesuffix('.min.js')}-{plotly_version(file)}.min.js"


def compress_plotly(file: Path, data: DataFolder) -> Path:
    """Make the gzip copy in the cache folder where it is missing; return its path."""
    target = data.cache / f"{plotly_url(file)[1:]}.gz"
    if not target.exists():
        temporary = target.with_suffix(".tmp")
        try:
            temporary.write_bytes(gzip.compress(file.read_bytes(), 9, mtime=0))
            temporary.replace(target)
        except OSError:  # what is half-written takes space where there is none; the page gets the file as it is
            temporary.unlink(missing_ok=True)
            raise
    return target


def install(app: FastAPI, static: Path, data: DataFolder) -> None:
    """Serve ``static`` at /, folder by folder, so that /api keeps its own 404 and 405."""
    plotly_js = plotly_file(static)
    url = plotly_url(plotly_js)
    compressed: dict[str, Path] = {}

    async def prepare() -> None:
        compressed["plotly"] = await asyncio.to_thread(compress_plotly, plotly_js, data)

    async def plotly(request: Request) -> Response:
        headers = {"cache-control": _IMMUTABLE, "vary": "accept-encoding"}
        packed = compressed.get("plotly")
        if packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return FileResponse(packed, media_type="text/javascript", headers=headers | {"content-encoding": "gzip"})
        return FileResponse(plotly_js, media_type="text/javascript", headers=headers)

    async def index(request: Request) -> Response:
        page = await asyncio.to_thread((static / "index.html").read_bytes)
        page = _ANY_PLOTLY.sub(url.encode(), page)
        return Response(page, media_type="text/html", headers={"cache-control": "no-cache"})

    app.state.prepare_pages = prepare
    app.add_route(url, plotly, methods=["GET"])
    app.add_route("/", index, methods=["GET"])
    files = _Revalidated(directory=static)
    for path in sorted(static.iterdir()):
        if path.is_dir():
            app.mount(f"/{path.name}", _Revalidated(directory=path))
        elif path.name != "index.html":
            app.add_route(f"/{path.name}", _file(files, path.name), methods=["GET"])


def _file(files: StaticFiles, name: str) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        return await files.get_response(name, request.scope)

    return serve
