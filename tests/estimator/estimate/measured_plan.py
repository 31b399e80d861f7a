"""Two steps under a plan as ``runners step`` measures them, for a recorder: SCENARIO.json is the argument."""

import json
import sys
from pathlib import Path

from estimator.scenario.scenario import scenario_from_json
from runners.ranks import join
from runners.train_step import one_step, prepare

trainer = prepare(scenario_from_json(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))), join("cuda"), 0)
for _ in range(2):
    one_step(trainer, lambda name: None)
