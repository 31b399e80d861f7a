"""Pages: the page's own files, and the plotly.js that they draw with, compressed once per version."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import posixpath
import re
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from fastapi import FastAPI, Request
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from app.disk import DataFolder

_IMMUTABLE = "public, max-age=31536000, immutable"
_ANY_PLOTLY = re.compile(rb"/plotly-[a-z0-9.-]+\.min\.js")
_OWN_FILE = re.compile(rb'(?<==")(?=(?:css|js)/|favicon)')
_BEFORE_MODULES = re.compile(rb'(?=<script type="module")')
_SHEETS = re.compile(rb'(?:<link rel="stylesheet" href="css/[^"]+">\s*)+')
_SHEET = re.compile(r'<link rel="stylesheet" href="(css/[^"]+)">')
_VERSION = re.compile(rb"plotly\.js [^\n]*v([0-9.]+)")

_ALL_SHEETS = "css/all.css"
_MAIN = "js/main.js"
_IMPORTED = re.compile(r'\bfrom "(\.[^"]+)"')
"""What a module cannot run without; what it imports once it is wanted stands in brackets."""

BASIC_BUNDLE = Path("vendor") / "plotly-basic" / "plotly-basic.min.js"
"""plotly.js-basic-dist-min as npm has it, under ``static``."""


class VersionedFiles(StaticFiles):
    """Files that a browser keeps for good, as their URL names their version; those of another are asked about."""

    def __init__(self, static: Path) -> None:
        super().__init__(directory=static)
        self.static = static
        self.version = ""
        self.modules: frozenset[str] = frozenset()
        self.first: dict[str, tuple[str, ...]] = {}
        self.kept: dict[str, tuple[bytes, dict[str, str]]] = {}

    def look(self) -> str:
        """Return the version of the files as they are now: a page of a hundred modules asks for none of them twice."""
        known = hashlib.sha256()
        modules = []
        for path in sorted(self.static.rglob("*")):
            with suppress(FileNotFoundError):  # what an editor keeps beside them for a moment
                facts = path.stat()
                name = path.relative_to(self.static).as_posix()
                known.update(f"{name} {facts.st_mtime_ns} {facts.st_size}\n".encode())
                if name.startswith("js/") and path.suffix == ".js":
                    modules.append(name)
        version = known.hexdigest()[:16]
        if version != self.version:
            self.kept, self.first, self.modules = {}, {}, frozenset(modules)
        self.version = version
        return self.version

    def ahead(self, view: str) -> tuple[str, ...]:
        """Return what main.js, and the view that the page is opened on, import before they run; without main.js."""
        view = view if f"js/views/{view}/{view}.js" in self.modules else "explore"
        if view not in self.first:
            found, waiting = {_MAIN}, [_MAIN, f"js/views/{view}/{view}.js"]
            while waiting:
                name = waiting.pop()
                found.add(name)
                try:
                    text = (self.static / name).read_text(encoding="utf-8")
                except FileNotFoundError:  # gone since they were listed; the next page looks again
                    continue
                for other in _IMPORTED.findall(text):
                    path = posixpath.normpath(posixpath.join(posixpath.dirname(name), other))
                    if path in self.modules - found:
                        waiting.append(path)
            self.first[view] = tuple(sorted(found - {_MAIN}))
        return self.first[view]

    def sheets(self) -> bytes:
        """Return the style sheets that the page names, in its order, as one: each request has its price."""
        page = (self.static / "index.html").read_text(encoding="utf-8")
        return b"\n".join((self.static / name).read_bytes() for name in _SHEET.findall(page))

    async def get_response(self, path: str, scope: Scope) -> Response:
        version = scope["path_params"]["version"]
        if version == self.version and path in self.kept and scope["method"] == "GET":
            known, headers = self.kept[path]
            return Response(known, headers=headers)
        body: bytes | None = None
        if path == _ALL_SHEETS and scope["method"] in ("GET", "HEAD"):
            body = await asyncio.to_thread(self.sheets)
            response = Response(body, media_type="text/css")
        else:
            response = await super().get_response(path, scope)
        current = version == self.version
        response.headers["cache-control"] = _IMMUTABLE if current else "no-cache"
        if current and isinstance(response, FileResponse):
            # from memory: a page of a hundred modules waits for each of them
            body = await asyncio.to_thread(Path(response.path).read_bytes)
        if body is not None and version == self.version and len(body) == int(response.headers["content-length"]):
            self.kept[path] = body, dict(response.headers)
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
    """Serve the page at / and its files at /static/VERSION."""
    plotly_js = plotly_file(static)
    url = plotly_url(plotly_js)
    compressed: dict[str, bytes] = {}
    files = VersionedFiles(static)
    files.look()

    async def prepare() -> None:
        packed = await asyncio.to_thread(compress_plotly, plotly_js, data)
        compressed["plotly"] = await asyncio.to_thread(packed.read_bytes)

    async def plotly(request: Request) -> Response:
        headers = {"cache-control": _IMMUTABLE, "vary": "accept-encoding"}
        packed = compressed.get("plotly")
        if packed is not None and "gzip" in request.headers.get("accept-encoding", ""):
            return Response(packed, media_type="text/javascript", headers=headers | {"content-encoding": "gzip"})
        return FileResponse(plotly_js, media_type="text/javascript", headers=headers)

    async def index(request: Request) -> Response:
        version = await asyncio.to_thread(files.look)
        page = await asyncio.to_thread((static / "index.html").read_bytes)
        page = _ANY_PLOTLY.sub(url.encode(), page)
        # all at once, where the browser would hear of each only from the one that imports it
        names = await asyncio.to_thread(files.ahead, request.query_params.get("view", "explore"))
        ahead = "".join(f'<link rel="modulepreload" href="{name}">' for name in names)
        page = _SHEETS.sub(f'<link rel="stylesheet" href="{_ALL_SHEETS}">\n'.encode(), page)
        page = _BEFORE_MODULES.sub(ahead.encode(), page)
        page = _OWN_FILE.sub(f"/static/{version}/".encode(), page)
        return Response(page, media_type="text/html", headers={"cache-control": "no-cache"})

    app.state.prepare_pages = prepare
    app.add_route(url, plotly, methods=["GET"])
    app.add_route("/", index, methods=["GET"])
    app.mount("/static/{version}", files)
