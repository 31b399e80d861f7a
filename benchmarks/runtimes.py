"""Runtimes: what FSDP2 and DTensor took on every host whose probes are at hand, over what an op took there.

``python -m benchmarks.runtimes [FOLDER ...]``: a line a host (probes of one folder are of one host where their names
begin ``probes-``, else each file is one), then the mean over hosts, each weighed by what its visits leave open and by
what hosts differ by, times the family's op: what the catalogue ships.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from estimator.calibration.host import host_ranges
from estimator.calibration.runtimes import FAMILY_SPREAD_FRAC, RUNTIMES, Told, told_by_probes, weighed
from estimator.cost.efficiency import efficiencies
from estimator.scenario.measurement import Measurement
from runners.job import read_measurement

ROOT = Path(__file__).parents[1]
FAMILY = "hopper"


def hosts(folders: list[Path]) -> Iterator[tuple[str, list[Measurement]]]:
    """Probes of each host that have rows of runtimes."""
    for folder in folders:
        groups: dict[str, list[Path]] = {}
        for path in sorted(folder.rglob("*probes*.json")):
            own = path.name.startswith("probes-")
            groups.setdefault(str(path.parent if own else path), []).append(path)
        for name, paths in groups.items():
            found = [read_measurement(path) for path in paths]
            if any(row.get("ladder") == "runtime" and "layers" in row for one in found for row in one.rows):
                yield str(Path(name).relative_to(folder)), found


def main() -> int:
    """Print what each host's probes tell of each runtime, in ops of that host, and the weighted mean."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*", default=[ROOT / "tests" / "reference"])
    base = efficiencies(FAMILY)
    ratios: dict[str, list[Told]] = {name: [] for name in RUNTIMES}
    print(f"{'over host_forward_s':56s}", *(name[5:-2].rjust(22) for name in RUNTIMES))
    for name, measurements in hosts(parser.parse_args().folders):
        of_host = host_ranges(measurements, base)[0]
        forward, launch = of_host.get("host_forward_s"), of_host.get("host_launch_s")
        if forward is None or launch is None:
            continue
        rows = [
            row for one in measurements for row in one.rows
            if row.get("ladder") == "runtime" and row.get("status") == "ok"
        ]  # fmt: skip
        cells = []
        for runtime, told in told_by_probes(rows, base, launch.range.value).items():
            if not told:
                cells.append("-".rjust(22))
                continue
            one = weighed(told)
            ratio = Told(value=one.value / forward.range.value, error=one.error / forward.range.value)
            cells.append(f"{ratio.value:10.2f} ± {ratio.error:9.2f}")
            ratios[runtime].append(ratio)
        print(f"{name:56s}", *cells)
    for runtime, of in ratios.items():
        middle = weighed(of).value
        own_s = FAMILY_SPREAD_FRAC * middle
        whole = weighed([Told(value=one.value, error=math.hypot(one.error, own_s)) for one in of])
        print(
            f"{runtime}: {whole.value:.2f} ± {whole.error:.2f} times an op's forward, {len(of)} hosts: "
            f"{whole.value * base.host_forward_s * 1e6:.0f} µs; shipped {getattr(base, runtime) * 1e6:.0f}"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
