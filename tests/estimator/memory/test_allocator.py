"""Allocator: what a large tensor's block keeps, against the allocator followed block by block."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.memory.allocator import LARGE_BYTES, rest_bytes
from estimator.memory.timeline import served
from estimator.scenario.units import MIB


@given(st.integers(LARGE_BYTES // 512, 2**17).map(lambda granules: granules * 512))
def test_a_fresh_block_is_as_the_allocator_serves_it(size):
    blocks, _ = served(np.array([size]), np.array([0]), np.array([9]))
    assert blocks[0] == size + rest_bytes(float(size))


@pytest.mark.parametrize(("mib", "rest"), [(25, 1), (39.0625, 0.9375), (48.75, 0), (100, 0), (9, 0), (30, 0)])
def test_rests_by_hand(mib, rest):
    # 1 280 x 5 120 and 1 600 x 6 400 numbers of 4 bytes are the first two.
    assert rest_bytes(mib * MIB) == rest * MIB
