from __future__ import annotations

import pytest

from app.importers.text.values.models import assigned_batch, catalogue_key, common_name, model_of


def test_names():
    assert common_name("sm") == "small"
    assert common_name("xl") == "xl"


def test_parameter_counts_find_the_catalogue_entry():
    assert catalogue_key(128_625_408, "small") == "cs336-small"
    assert catalogue_key(3_406_809_600, "2.7B") == "cs336-2.7b"
    assert catalogue_key(128_625_409, "small") == ""


def test_only_the_course_has_a_batch():
    assert assigned_batch(["cs336-small", "cs336-xl"]) == 4
    assert assigned_batch(["cs336-small", "gpt2"]) is None
    assert assigned_batch([]) is None


@pytest.mark.parametrize(
    ("row", "key"),
    [
        ({"model": "gpt2-medium", "parameters": 350_000_000}, "gpt2-medium"),
        ({"model": "gpt2-medium", "parameters": 774_000_000}, ""),
        ({"model": "7b", "parameters": 6_658_859_008, "seq_len": 2048}, "mpt-7b"),
    ],
)
def test_a_count_that_is_rounded_confirms_a_name_and_learned_positions_count(row, key):
    assert model_of(row) == key
