"""Whether the page keeps what it says: bars of the waterfall add to the difference, remedies are what Try then shows.

    python -m benchmarks.promises [--pairs 200] [--seed 17]

Random pairs of legal scenarios, and all bundled measurements among each other and beside their predictions: the causes
that the server sends, and the bars that the page makes of them (by Node.js, from the page's own module), add to B − A
within 1e-9 of the longer step. The remedies of both plans of a pair, and of the plans of the measurements: time, memory
and throughput are those of the estimate of the scenario that Try opens, to the last bit. Prints what was tried and the
worst of it; exits with 1 where one promise is broken.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shutil
import subprocess
import sys
import time
from itertools import permutations
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from estimator.estimate.compare import Item, compare, of_estimate, of_measurement
from estimator.estimate.estimate import estimate
from estimator.scenario.breakdown import SHOWN_CATEGORIES
from estimator.scenario.codec import decode, encode
from estimator.scenario.measurement import Measurement
from estimator.scenario.scenario import Scenario, scenario_from_json
from estimator.search.remedies import remedies
from tests.properties.scenarios import scenarios

ROOT = Path(__file__).parent.parent
BUNDLED = sorted((ROOT / "app" / "samples").glob("*.json")) + sorted((ROOT / "tests/reference/h200").glob("*-*.json"))
TOLERANCE = 1e-9
AT_ONCE = 40
"""Scenarios of one draw: Hypothesis keeps what one example may hold in bounds."""
BARS = """
import { readFileSync } from "node:fs";
const { waterRows } = await import(process.argv[1]);
const { names, asked } = JSON.parse(readFileSync(0, "utf8"));
const answers = asked.map(({ causes, step_s, from_s }) => {
    const rows = waterRows({ causes, step_s, from_s, names, degrees: {} });
    const last = rows.at(-1);
    return { rows: rows.length, end_s: last ? last.from_s + last.seconds : from_s };
});
console.log(JSON.stringify(answers));
"""


def main() -> int:
    """Try all of it and print a line for each promise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200, help="random pairs of scenarios")
    parser.add_argument("--seed", type=int, default=17)
    given_ = parser.parse_args()
    begun = time.perf_counter()
    drawn = drawn_scenarios(2 * given_.pairs, given_.seed)
    items = [of_estimate(estimate(one, interval=False), one, "") for one in drawn]
    timed, plans = bundled()
    broken = waterfalls("random pairs", list(zip(items[::2], items[1::2], strict=True)))
    broken += waterfalls("measurements and their predictions", list(permutations(timed, 2)))
    broken += promises("random scenarios", drawn)
    broken += promises("plans of measurements", plans)
    print(f"{time.perf_counter() - begun:.0f} s; seed {given_.seed}; {broken} broken")
    return int(broken > 0)


def drawn_scenarios(count: int, number: int) -> list[Scenario]:
    """Different legal scenarios of every kind that is modelled."""
    found: dict[str, Scenario] = {}

    @given(st.lists(scenarios(), min_size=AT_ONCE, max_size=AT_ONCE))
    @settings(max_examples=4 + 2 * count // AT_ONCE, deadline=None, database=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @seed(number)
    def draw(some: list[Scenario]) -> None:
        found.update({repr(one): one for one in some})

    draw()
    assert len(found) >= count, f"{len(found)} different scenarios were drawn, {count} are wanted"
    return random.Random(number).sample(list(found.values()), count)


def bundled() -> tuple[list[Item], list[Scenario]]:
    """Every bundled measurement with a step time and its prediction, and the scenarios of these."""
    items, plans = [], []
    for path in BUNDLED:
        document = json.loads(path.read_text(encoding="utf-8"))
        if "steps_s" not in document:
            continue
        measurement = decode(Measurement, document)
        items.append(of_measurement(measurement))
        if measurement.scenario:
            plans.append(scenario_from_json(measurement.scenario))
            items.append(of_estimate(estimate(plans[-1], interval=False), plans[-1], ""))
    return [one for one in items if one.step_time_s], plans


def waterfalls(what: str, pairs: list[tuple[Item, Item]]) -> int:
    """Hold causes and bars of every pair against its difference; return how many are off."""
    asked, untold = [], 0
    for a, b in pairs:
        delta = compare([a, b]).deltas[1]
        if delta.step_time_s is None:  # a disturbed measurement is set against nothing
            untold += 1
            continue
        longest = max(a.step_time_s, b.step_time_s)
        asked.append((delta, a.step_time_s, b.step_time_s, longest))
    bars = bars_of(
        [
            {"causes": [encode(one) for one in delta.causes], "step_s": longest, "from_s": a_s}
            for delta, a_s, _, longest in asked
        ]
    )
    causes_off = [
        abs(math.fsum(one.seconds for one in delta.causes) - (b_s - a_s)) / longest
        for delta, a_s, b_s, longest in asked
    ]
    bars_off = [abs(bar["end_s"] - b_s) / longest for bar, (_, _, b_s, longest) in zip(bars, asked, strict=True)]
    broken = sum(not max(both) <= TOLERANCE for both in zip(causes_off, bars_off, strict=True))
    worst = f"{max(causes_off):.1e} (causes) and {max(bars_off):.1e} (bars)"
    count = sum(one["rows"] for one in bars)
    print(
        f"{what}: {len(asked)} waterfalls of {len(pairs)} pairs ({untold} disturbed), {count} bars; off by {worst} of"
        f" the longer step at most; {broken} broken",
        flush=True,
    )
    return broken if asked else 1


def bars_of(asked: list[dict[str, object]]) -> list[dict[str, float]]:
    """What the page's own module makes of causes."""
    node = shutil.which("node")
    if node is None:
        sys.exit("Node.js is not there, whose part the page's module is: make setup-test brings it.")
    names = [encode(one) | {"key": key} for key, one in SHOWN_CATEGORIES.items()]
    module = (ROOT / "static/js/figures/waterRows.js").as_uri()
    command = [node, "--input-type=module", "--eval", BARS, module]
    done = subprocess.run(
        command, input=json.dumps({"names": names, "asked": asked}), text=True, capture_output=True, check=True
    )
    return json.loads(done.stdout)


def promises(what: str, plans: list[Scenario]) -> int:
    """Hold every remedy against the estimate of what Try opens; return how many are not the same."""
    made = broken = too_large = 0
    for plan in plans:
        found = remedies(encode(plan))
        too_large += found.over_bytes > 0
        for one in found.best:
            there = estimate(scenario_from_json(json.loads(json.dumps(one.scenario))))
            memory = there.memory
            kept = (there.step_time_s, memory.peak_bytes, memory.reserved_bytes, there.tokens_per_s)
            made += 1
            broken += kept != (one.step_time_s, one.peak_bytes, one.reserved_bytes, one.tokens_per_s)
    print(f"{what}: {made} remedies of {len(plans)} plans ({too_large} do not fit); {broken} broken", flush=True)
    return broken if made else 1


if __name__ == "__main__":
    sys.exit(main())
