from __future__ import annotations

import time

import pytest

from app.importers.text.values.devices import candidates, quoted


def test_steps_that_tell_nothing_of_a_chip_are_not_held_against_each():
    telling = {"catalogue_model": "gpt2", "batch": 8, "seq_len": 1024, "precision": "bf16", "step_s": 0.2}
    rows = [{"step": at, "loss": 3.2, "step_s": 0.23} for at in range(20_000)]
    begin_s = time.process_time()
    assert candidates([*rows, telling], []) == candidates([telling], [])
    assert candidates(rows, []) == []
    assert time.process_time() - begin_s < 2


@pytest.mark.parametrize("behind", ["", " of 40 GB", f" of 40 GB{', and again' * 9}"])
def test_a_chip_behind_a_word_that_is_longer_than_a_quotation_is_quoted(behind):
    (one,) = candidates([{"step_s": 0.2}], [], [f"{'runs/' * 30}A100-40GB{behind}"])[:1]
    assert "the text names it: … A100-40GB" in one["why"]
    assert quoted(f"{'runs/' * 30}A100{behind}", "A100").startswith("… A100")
