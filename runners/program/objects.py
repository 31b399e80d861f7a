"""What ranks hand one another as objects: all have the same, but for what one sends to another or to all."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable
from typing import Any

import torch.distributed as dist

from runners.program.peers import Peers


def answers(peers: Peers) -> dict[str, Callable[..., Any]]:
    """What stands in the place of the functions of torch.distributed that pass objects, by name."""
    return {
        "all_gather_object": _same,
        "gather_object": _gathered,
        "scatter_object_list": _scattered,
        "send_object_list": functools.partial(_send, peers),
        "recv_object_list": functools.partial(_receive, peers),
        "broadcast_object_list": functools.partial(_broadcast, peers),
    }


def rank_of(rank: int | None, group: Any, in_group: int | None) -> int:
    """A rank among all, which may be named by its place in a group."""
    return rank if rank is not None else _ranks(group)[in_group or 0]


def _ranks(group: Any) -> list[int]:
    return dist.get_process_group_ranks(group or dist.group.WORLD)


def _same(found: list[Any], own: Any, group: Any = None, **_: Any) -> None:
    found[:] = [own] * len(found)


def _gathered(own: Any, found: list[Any] | None = None, *_: Any, **__: Any) -> None:
    if found is not None:
        found[:] = [own] * len(found)


def _scattered(found: list[Any], given: list[Any] | None = None, *_: Any, **__: Any) -> None:
    if given:
        found[0] = given[0]


def _send(
    peers: Peers, objects: list[Any], dst: Any = None, group: Any = None, device: Any = None, group_dst: Any = None,
    **_: Any,
) -> None:  # fmt: skip
    peers.send("objects", rank_of(dst, group, group_dst), objects)


def _receive(
    peers: Peers, objects: list[Any], src: Any = None, group: Any = None, device: Any = None, group_src: Any = None,
    **_: Any,
) -> int:  # fmt: skip
    source = rank_of(src, group, group_src)
    objects[:] = peers.receive("objects", source)
    return source


def _broadcast(
    peers: Peers, objects: list[Any], src: Any = None, group: Any = None, device: Any = None, group_src: Any = None
) -> None:
    source = rank_of(src, group, group_src)
    to = f"group{zlib.crc32(repr(sorted(_ranks(group))).encode())}"
    if source == dist.get_rank():
        peers.send("objects", to, objects)
    elif all(one is None for one in objects):  # else it holds what it would be sent, or something like it
        objects[:] = peers.receive("objects", source, to)
