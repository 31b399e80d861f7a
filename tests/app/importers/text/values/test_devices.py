from __future__ import annotations

import time

from app.importers.text.values.devices import candidates


def test_steps_that_tell_nothing_of_a_chip_are_not_held_against_each():
    telling = {"catalogue_model": "gpt2", "batch": 8, "seq_len": 1024, "precision": "bf16", "step_s": 0.2}
    rows = [{"step": at, "loss": 3.2, "step_s": 0.23} for at in range(20_000)]
    begin_s = time.process_time()
    assert candidates([*rows, telling], []) == candidates([telling], [])
    assert candidates(rows, []) == []
    assert time.process_time() - begin_s < 2
