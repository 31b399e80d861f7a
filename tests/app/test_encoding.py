"""JSON as it crosses the wire."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
import pytest

from app.encoding import encode_json


@dataclass(frozen=True, kw_only=True)
class Thing:
    name: str
    values: tuple[float, ...]


def test_dataclasses_and_numpy_become_plain_json():
    value = {"thing": Thing(name="µs", values=(1.0, 2.5)), "a": np.float64(0.1), "b": np.arange(3), "c": np.bool_(True)}
    found = json.loads(encode_json(value))
    assert found == {"thing": {"name": "µs", "values": [1.0, 2.5]}, "a": 0.1, "b": [0, 1, 2], "c": True}


def test_no_token_that_is_not_json_leaves():
    assert encode_json([math.nan, math.inf, -math.inf]) == b"[null,null,null]"


def test_numbers_keep_every_digit():
    for value in (0.1 + 0.2, 1e-300, 2**53 + 1, 1 / 3):
        assert json.loads(encode_json(value)) == value


def test_what_has_no_form_is_an_error_of_ours():
    with pytest.raises(NotImplementedError, match="object"):
        encode_json(object())
