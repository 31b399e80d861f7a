"""Ulysses, ring and all-gather attention over ranks that hold parts of a sequence: results, words and balance."""

import numpy as np
import pytest

from estimator.communication.context import context_messages
from estimator.cost.collectives import TRAFFIC
from tests.simulation.attention import Rows, full, operands
from tests.simulation.machine import Machine

TOKENS, HEADS, WIDTH = 48, 12, 5


def places(cp, *, zigzag):
    """Positions of every rank's tokens: rank r has chunks r and 2·cp − 1 − r in zigzag order, else one stretch."""
    if not zigzag:
        return np.split(np.arange(TOKENS), cp)
    chunks = np.split(np.arange(TOKENS), 2 * cp)
    return [np.concatenate([chunks[r], chunks[2 * cp - 1 - r]]) for r in range(cp)]


def counted(cp_kind, cp, kv_heads, phase, **options):
    """Elements that a rank receives by the formulas."""
    key_width = max(kv_heads, cp) * WIDTH if cp_kind == "ulysses" else kv_heads * WIDTH
    lines = context_messages(
        cp_kind=cp_kind, cp=cp, tokens=TOKENS // cp, query_width=HEADS * WIDTH, key_width=key_width,
        value_width=key_width, output_width=HEADS * WIDTH, element_bytes=1, **options,
    )  # fmt: skip
    return sum(
        x.payload_bytes * x.count * TRAFFIC[x.kind] * (1 if x.kind == "p2p" else (cp - 1) / cp)
        for x in lines
        if x.phase == phase
    )


def whole(parts, positions):
    """Put the tokens of all ranks back into order."""
    found = np.empty((TOKENS, *parts[0].shape[1:]))
    for part, own in zip(parts, positions, strict=True):
        found[own] = part
    return found


@pytest.mark.parametrize(
    ("cp", "kv_heads"), [(1, 12), (2, 12), (3, 12), (6, 12), (12, 12), (1, 3), (3, 3), (6, 3), (12, 3), (2, 6), (4, 1)]
)
def test_ulysses(cp, kv_heads):
    (q, k, v), dout = operands(TOKENS, HEADS, kv_heads, WIDTH)
    out, gradients = full(q, k, v, dout)
    copies = -(-cp // kv_heads) if cp > kv_heads else 1
    # Where heads are fewer than ranks, each is copied before it travels, and its gradients are added after.
    k, v = np.repeat(k, copies, axis=1), np.repeat(v, copies, axis=1)
    machine, ranks, positions = Machine(), list(range(cp)), places(cp, zigzag=False)

    def to_heads(tensor):
        parts = {r: np.split(tensor[positions[r]], cp, axis=1) for r in ranks}
        return {r: np.concatenate(found) for r, found in machine.all_to_all("cp", ranks, parts).items()}

    def to_tokens(blocks):
        found = machine.all_to_all("cp", ranks, {r: np.split(b, cp) for r, b in blocks.items()})
        return [np.concatenate(found[r], axis=1) for r in ranks]

    qs, ks, vs = to_heads(q), to_heads(k), to_heads(v)
    assert qs[0].shape == (TOKENS, HEADS // cp, WIDTH)
    local = {r: full(qs[r], ks[r], vs[r], np.zeros_like(qs[r]))[0] for r in ranks}
    np.testing.assert_allclose(whole(to_tokens(local), positions), out)

    machine.phase = "backward"
    douts = to_heads(dout)
    found = {r: full(qs[r], ks[r], vs[r], douts[r])[1] for r in ranks}
    for index, expected in enumerate(gradients):
        gradient = whole(to_tokens({r: found[r][index] for r in ranks}), positions)
        if index:
            gradient = gradient.reshape(TOKENS, kv_heads, copies, WIDTH).sum(2)
        np.testing.assert_allclose(gradient, expected, atol=1e-12)
    for phase in ("forward", "backward"):
        assert machine.received(phase) == pytest.approx(counted("ulysses", cp, kv_heads, phase), rel=1e-12)


def pass_on(machine, pieces):
    """Send every rank's arrays to the next rank, as one message."""
    cp = len(pieces)
    if cp == 1:
        return pieces
    packed = machine.round("cp", [(r, (r + 1) % cp, np.stack(pieces[r])) for r in range(cp)])
    return [list(packed[r]) for r in range(cp)]


@pytest.mark.parametrize("zigzag", [True, False])
@pytest.mark.parametrize("kv_heads", [12, 3])
@pytest.mark.parametrize("cp", [1, 2, 3, 4])
def test_ring(cp, kv_heads, zigzag):
    (q, k, v), dout = operands(TOKENS, HEADS, kv_heads, WIDTH)
    out, (dq, dk, dv) = full(q, k, v, dout)
    machine, ranks, positions = Machine(), range(cp), places(cp, zigzag=zigzag)
    rows = [Rows(q[own], own) for own in positions]
    held = [[k[own], v[own]] for own in positions]
    for step in range(cp):
        if step:
            held = pass_on(machine, held)
        for r in ranks:
            rows[r].meet(*held[r], positions[(r - step) % cp])
    np.testing.assert_allclose(whole([found.output for found in rows], positions), out)

    machine.phase = "backward"
    held = [[k[own], v[own]] for own in positions]
    own_part, dqs = [], []
    for r in ranks:
        first, *rest = rows[r].gradients(*held[r], positions[r], dout[positions[r]])
        dqs.append(first)
        own_part.append(rest)
    travelling = [[np.zeros_like(a) for a in held[r]] for r in ranks]
    for step in range(1, cp):
        # The gradients of a piece follow it one rank behind, from the first rank it visits back to its home.
        held = pass_on(machine, held)
        if step > 1:
            travelling = pass_on(machine, travelling)
        for r in ranks:
            source = (r - step) % cp
            first, *rest = rows[r].gradients(*held[r], positions[source], dout[positions[r]])
            dqs[r] = dqs[r] + first
            travelling[r] = [a + b for a, b in zip(travelling[r], rest, strict=True)]
    if cp > 1:
        travelling = pass_on(machine, travelling)
    np.testing.assert_allclose(whole(dqs, positions), dq, atol=1e-12)
    for index, expected in enumerate((dk, dv)):
        total = [own_part[r][index] + travelling[r][index] for r in ranks]
        np.testing.assert_allclose(whole(total, positions), expected, atol=1e-12)

    for phase in ("forward", "backward"):
        assert machine.received(phase) == pytest.approx(counted("ring", cp, kv_heads, phase), rel=1e-12)
    # A rank's work: unmasked pairs. The mask's diagonal adds half a row per token to what blocks would give.
    pairs = [found.pairs for found in rows]
    assert sum(pairs) == TOKENS * (TOKENS + 1) // 2
    imbalance = max(pairs) / (sum(pairs) / cp)
    if zigzag:
        assert len(set(pairs)) == 1
    # Tokens in plain order: the last rank meets cp − ½ of cp blocks, the mean is cp/2 (Brandon 2023, arXiv 2311.09431).
    assert imbalance == pytest.approx(1.0 if zigzag else 2.0 - 1.0 / cp, rel=1.0 / TOKENS)


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("kv_heads", [12, 3])
@pytest.mark.parametrize("cp", [1, 2, 4])
def test_all_gather(cp, kv_heads, keep):
    (q, k, v), dout = operands(TOKENS, HEADS, kv_heads, WIDTH)
    out, (dq, dk, dv) = full(q, k, v, dout)
    machine, ranks, positions = Machine(), list(range(cp)), places(cp, zigzag=True)
    order = np.concatenate(positions)

    def gathered():
        found = machine.all_gather("cp", [ranks], {r: np.stack([k[own], v[own]]) for r, own in enumerate(positions)})
        return {r: np.concatenate(parts, axis=1) for r, parts in found.items()}

    rows, keys_values = [Rows(q[own], own) for own in positions], gathered()
    for r in ranks:
        rows[r].meet(*keys_values[r], order)
    np.testing.assert_allclose(whole([found.output for found in rows], positions), out)

    machine.phase = "backward"
    if not keep:
        keys_values = gathered()
    found = [rows[r].gradients(*keys_values[r], order, dout[positions[r]]) for r in ranks]
    np.testing.assert_allclose(whole([f[0] for f in found], positions), dq, atol=1e-12)
    partial = {r: np.split(np.stack(found[r][1:]), cp, axis=1) for r in ranks}
    home = machine.reduce_scatter("cp", [ranks], partial)
    np.testing.assert_allclose(whole([home[r][0] for r in ranks], positions), dk, atol=1e-12)
    np.testing.assert_allclose(whole([home[r][1] for r in ranks], positions), dv, atol=1e-12)
    for phase in ("forward", "backward"):
        expected = counted("all-gather", cp, kv_heads, phase, keep=keep)
        assert machine.received(phase) == pytest.approx(expected, rel=1e-12)
