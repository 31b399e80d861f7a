"""Draw: a series that nobody chose is the same for the same numbers, and of all ways to spread a step."""

import pytest

from benchmarks.draw import FULLEST_FRAC, LONGEST_S, SHORTEST_S, drawn, steps_of, ways
from estimator.scenario.catalog import chip
from estimator.scenario.scenario import scenario_from_json
from runners.series_list import entries_of


@pytest.mark.parametrize("ranks", [1, 4])
def test_the_same_numbers_draw_the_same_steps_of_every_way_to_spread_them(ranks):
    count = max(6, len(ways(ranks)))
    found, again = (drawn(ranks, count, 3, "h200-sxm") for _ in range(2))
    assert [entry for entry, _ in found] == [entry for entry, _ in again]
    assert [entry for entry, _ in found] != [entry for entry, _ in drawn(ranks, count, 4, "h200-sxm")]
    entries = entries_of([entry for entry, _ in found])
    for (way, _), entry in zip(ways(ranks), entries, strict=False):
        assert entry.name.startswith(way)
        assert scenario_from_json(entry.scenario).plan.chips == ranks
    room = FULLEST_FRAC * chip("h200-sxm").memory_bytes
    for _, one in found:
        assert SHORTEST_S <= one.step_time_s <= LONGEST_S
        assert one.memory.peak_bytes <= room
        assert 8 <= steps_of(one.step_time_s) <= 60
