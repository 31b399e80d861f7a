"""Attention on a grid: columns hold whole heads; where row parts outnumber sequences, keys and values are gathered."""

from itertools import product

import numpy as np
import pytest

from estimator.communication.grid import key_value_moves, received
from tests.simulation.attention import Rows, full, operands
from tests.simulation.machine import Machine

TOKENS, HEADS, KV_HEADS, WIDTH = 32, 8, 4, 3


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize(
    ("kind", "q", "depth", "batch"),
    [
        ("2d", 2, 1, 1),
        ("2d", 4, 1, 2),
        ("2d", 2, 1, 2),
        ("2d", 2, 1, 4),
        ("2.5d", 2, 4, 1),
        ("2.5d", 2, 4, 4),
        ("3d", 2, 2, 1),
        ("3d", 4, 4, 8),
        ("3d", 2, 2, 4),
    ],
)
def test_row_parts_of_a_sequence_gather_its_keys_and_values(kind, q, depth, batch, keep):
    """Rank (i, j, l): i in depth, j in its column, l in its row; row part i·q + j, heads l."""
    parts = depth * q
    sharing = max(parts // batch, 1)
    per_part = max(batch // parts, 1)
    sequences = [operands(TOKENS, HEADS, KV_HEADS, WIDTH) for _ in range(batch)]
    expected = [full(*qkv, dout) for qkv, dout in sequences]
    machine, ranks = Machine(), list(product(range(depth), range(q), range(q)))
    stretches = np.split(np.arange(TOKENS), sharing)

    def part(r):
        return r[0] * q + r[1]

    def own(r):
        """Which sequences and positions a rank has."""
        first = part(r) * per_part // sharing
        return range(first, first + per_part), stretches[part(r) % sharing]

    def heads(tensor, r):
        return np.split(tensor, q, axis=1)[r[2]]

    in_column = min(sharing, q)
    near, far = [], []
    for i, c in product(range(depth), range(q)):
        near += [[(i, j + s, c) for s in range(in_column)] for j in range(0, q, in_column)]
    through = sharing // in_column
    for j, c in product(range(q), range(q)):
        far += [[(i + s, j, c) for s in range(through)] for i in range(0, depth, through)]

    def gathered():
        blocks = {}
        for r in ranks:
            which, positions = own(r)
            blocks[r] = np.stack([[heads(t[positions], r) for t in sequences[n][0][1:]] for n in which])
        column = {r: np.concatenate(found, 2) for r, found in machine.all_gather("column", near, blocks).items()}
        return {r: np.concatenate(found, 2) for r, found in machine.all_gather("depth", far, column).items()}

    keys_values = gathered()
    everywhere = np.arange(TOKENS)
    rows = {}
    for r in ranks:
        which, positions = own(r)
        for place, n in enumerate(which):
            rows[r, n] = Rows(heads(sequences[n][0][0][positions], r), positions)
            rows[r, n].meet(*keys_values[r][place], everywhere)
            np.testing.assert_allclose(rows[r, n].output, heads(expected[n][0][positions], r))

    machine.phase = "backward"
    if not keep:
        keys_values = gathered()
    partial = {}
    for r in ranks:
        which, positions = own(r)
        pieces = []
        for place, n in enumerate(which):
            dq, *rest = rows[r, n].gradients(*keys_values[r][place], everywhere, heads(sequences[n][1][positions], r))
            np.testing.assert_allclose(dq, heads(expected[n][1][0][positions], r), atol=1e-12)
            pieces.append(rest)
        partial[r] = np.split(np.array(pieces), through, axis=2)
    column = machine.reduce_scatter("depth", far, partial)
    home = machine.reduce_scatter("column", near, {r: np.split(b, in_column, axis=2) for r, b in column.items()})
    for r in ranks:
        which, positions = own(r)
        for place, n in enumerate(which):
            for index in (0, 1):
                correct = heads(expected[n][1][1 + index][positions], r)
                np.testing.assert_allclose(home[r][place][index], correct, atol=1e-12)

    width = 2 * KV_HEADS * WIDTH
    moves = key_value_moves(kind, batch * TOKENS, width, side=q, depth=depth, micro_batch=batch, keep=keep)
    for phase in ("forward", "backward"):
        assert machine.received(phase) == pytest.approx(received(moves, phase), rel=1e-12)
