"""Collectives and their sizes."""

from __future__ import annotations

import pytest

from tests.app.importers.kineto import made
from tests.app.importers.reading import one, read


@pytest.fixture
def document():
    return made.trace()


def test_collectives(tmp_path, document):
    (collective,) = one(read(tmp_path, document)).collectives
    assert (collective.kind, collective.bytes, collective.ranks) == ("all-reduce", 2000.0, 4)
    assert collective.seconds == pytest.approx(1500e-6)
    assert collective.bus_bytes_per_s == pytest.approx(2000 / 1500e-6 * 1.5)
