"""Protobuf: the fields of a message by their numbers, without its definition (protobuf.dev, "Encoding")."""

from __future__ import annotations

from collections.abc import Iterator

Field = tuple[int, int | bytes]


def text(value: int | bytes) -> str:
    """What a field says, as text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def fields(message: bytes, *, cut: bool = False) -> Iterator[Field]:
    """Yield number and value of each field, fixed ones as bytes; raise ValueError where the message breaks off."""
    at, end = 0, len(message)
    while at < end:
        tag, at = varint(message, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = varint(message, at)
            yield number, value
            continue
        length = {1: 8, 5: 4}.get(wire, -1)
        if wire == 2:
            length, at = varint(message, at)
        if length < 0 or (at + length > end and not cut):
            raise ValueError(wire)
        yield number, message[at : at + length]
        at += length


def varint(message: bytes, at: int) -> tuple[int, int]:
    """Read a whole number of seven bits a byte; return it and the place after it."""
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError(shift)
