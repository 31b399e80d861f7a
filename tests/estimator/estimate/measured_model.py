"""Three steps of the measured transformer as its scenario says, for a recorder: SCENARIO.json is the argument."""

import json
import sys
from pathlib import Path

from estimator.scenario.scenario import scenario_from_json
from runners.model.training import autocast, batch, loss_of, optimizer_of
from runners.model.transformer import build

scenario = scenario_from_json(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
model, training, plan = scenario.model, scenario.training, scenario.plan
module = build(model, training, plan, "cuda")
optimizer = optimizer_of(module, training)
tokens, targets = batch(model, training, plan, "cuda")
for _ in range(3):
    with autocast(training, "cuda"):
        loss = loss_of(module, tokens, targets)
    loss.backward()
    del loss
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
