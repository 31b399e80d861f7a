"""Source: the bytes of an uploaded file, decompressed as they are read and never more than the limits allow."""

from __future__ import annotations

import codecs
import itertools
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from app.importers.imported import Headers, ImportRefused, Limits
from estimator.scenario.units import MIB

GZIP_MAGIC = b"\x1f\x8b"
_BLOCK_BYTES = 1 * MIB
_SALVAGE_BYTES = 512
_RATIO_FROM_BYTES = 32 * MIB
"""Below this size even a file of zeros is harmless, and small real files may compress very well."""

_MANY_MEMBERS, _MEMBER_BYTES = 1000, 1024
"""So many members of a gzip file hold so much each on average; block-wise compression puts 64 KiB into one."""


class Source:
    """A file that can be read from its start any number of times; ``damage`` says how the last reading ended."""

    def __init__(
        self,
        path: Path,
        limits: Limits,
        opened: Callable[[], IO[bytes]] | None = None,
        file_bytes: int = 0,
        headers: Headers | None = None,
    ) -> None:
        """Read ``path``, or what ``opened`` gives each time: a file of so many bytes inside it."""
        self.path, self.limits = path, limits
        self.headers = headers or {}
        self.damage = ""
        if not path.is_file():
            raise ImportRefused("file", "", "this is not a regular file", "Give the path of a file.")
        self.open: Callable[[], IO[bytes]] = opened or (lambda: path.open("rb"))
        self.file_bytes = file_bytes if opened else path.stat().st_size
        if self.file_bytes == 0:
            raise ImportRefused("file", "byte 0", "the file is empty", "Export it again and check its size.")
        if self.file_bytes > limits.file_bytes:
            raise ImportRefused(
                "file",
                "",
                f"the file has {self.file_bytes:,} bytes, more than the limit of {limits.file_bytes:,}",
                "Profile fewer steps (2 or 3 are enough) or compress the file with gzip.",
            )
        with self.open() as file:
            self.compressed = file.read(2) == GZIP_MAGIC
        self.head = next(self.chunks(_BLOCK_BYTES), b"")

    def chunks(self, size: int) -> Iterator[bytes]:
        """Yield the content in pieces of ``size`` bytes, the last shorter; raise ImportRefused beyond the limits."""
        self.damage = ""
        waiting: list[bytes] = []
        length = 0
        for piece in _as_utf8(self._decompressed(size) if self.compressed else self._plain(size)):
            waiting.append(piece)
            length += len(piece)
            if length >= size:
                yield b"".join(waiting)
                waiting, length = [], 0
        if waiting:
            yield b"".join(waiting)

    def read(self, format: str, most: int | None = None) -> bytes:
        """Return the whole content, for formats that cannot be read in pieces; raise ImportRefused if too large."""
        limit = self.limits.document_bytes if most is None else most
        pieces, total = [], 0
        for piece in self.chunks(_BLOCK_BYTES):
            total += len(piece)
            if total > limit:
                raise ImportRefused(
                    format,
                    f"byte {limit}",
                    f"the content is larger than the limit of {limit:,} bytes for this format",
                    "Cut it to the part with the results.",
                )
            pieces.append(piece)
        return b"".join(pieces)

    def _plain(self, size: int) -> Iterator[bytes]:
        with self.open() as file:
            while block := file.read(size):
                yield block

    def _decompressed(self, size: int) -> Iterator[bytes]:
        given, taken, members = 0, 0, 1
        with self.open() as file:
            data = file.read(_BLOCK_BYTES)
            taken = len(data)
            inflate = zlib.decompressobj(wbits=31)
            while True:
                before = inflate.copy()
                try:
                    piece = inflate.decompress(data, size)
                except zlib.error:
                    yield from _salvaged(before, data, size)
                    self.damage = "corrupt"
                    return
                given += len(piece)
                self._check(given, taken)
                if piece:
                    yield piece
                data = inflate.unconsumed_tail
                if inflate.eof:
                    data = inflate.unused_data or file.read(_BLOCK_BYTES)
                    taken += 0 if inflate.unused_data else len(data)
                    if not data.startswith(GZIP_MAGIC):  # the end, or padding after it
                        return
                    inflate = zlib.decompressobj(wbits=31)
                    members += 1
                    if members > _MANY_MEMBERS and given < members * _MEMBER_BYTES:
                        raise ImportRefused(
                            "gzip",
                            f"byte {given} of the content",
                            f"it is cut into more than {_MANY_MEMBERS:,} pieces with next to nothing in each",
                            "Unpack it, compress it again and upload that.",
                        )
                elif not data:
                    data = file.read(_BLOCK_BYTES)
                    taken += len(data)
                    if not data:
                        self.damage = "truncated"
                        return

    def _check(self, given: int, taken: int) -> None:
        limits = self.limits
        if given > limits.content_bytes:
            raise ImportRefused(
                "gzip",
                f"byte {given} of the content",
                f"the content is larger than the limit of {limits.content_bytes:,} bytes",
                "Profile fewer steps; 2 or 3 are enough.",
            )
        if given > _RATIO_FROM_BYTES and given > limits.ratio * taken:
            raise ImportRefused(
                "gzip",
                f"byte {given} of the content",
                f"it unpacks to more than {limits.ratio:g} times its size, which no real trace does",
                "Unpack it and upload the content.",
            )


def _as_utf8(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Give UTF-16 that says so at its start, as what Windows PowerShell redirects, as UTF-8; all else as it is."""
    first = next(pieces, b"")
    pieces = itertools.chain(filter(None, [first]), pieces)
    if not first.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        yield from pieces
        return
    decoder = codecs.getincrementaldecoder("utf-16")("replace")
    for piece in pieces:
        yield decoder.decode(piece).encode()
    yield decoder.decode(b"", final=True).encode()


def _salvaged(inflate: zlib._Decompress, data: bytes, most: int) -> Iterator[bytes]:
    """What can still be unpacked before the place where the data are damaged."""
    given = 0
    while given < most:
        try:
            piece = inflate.decompress(data, _SALVAGE_BYTES)
        except zlib.error:
            return
        given += len(piece)
        data = inflate.unconsumed_tail
        if not piece:
            return
        yield piece
