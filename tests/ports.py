"""Ports for servers that are told theirs before they listen, which may be seconds later."""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path

_OUTGOING = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int) -> list[int]:
    """Ports where nobody listens, below those of which any connection that others open meanwhile may take one."""
    first = int(_OUTGOING.read_text().split()[0]) if _OUTGOING.exists() else 32768
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(10_000, max(first, 20_000))
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found = [*(one for one in found if one != port), port]
    return found
