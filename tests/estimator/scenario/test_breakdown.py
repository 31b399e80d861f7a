"""Breakdown: the words of the contract, complete and in order."""

import pytest

from estimator.operations.op import KINDS
from estimator.scenario.breakdown import (
    ARITHMETIC,
    CATEGORIES,
    MEMORY_KINDS,
    PHASES,
    SHOWN_CATEGORIES,
    WAITING,
    WORK_CATEGORIES,
    WORK_PHASES,
    complete,
)


def test_the_names_are_those_of_the_contract():
    assert PHASES == ("forward", "backward", "optimizer", "exposed_communication", "bubble", "host_wait")
    assert set(CATEGORIES) == {
        "matmul", "attention", "elementwise", "communication", "optimizer", "bubble", "host", "other"
    }  # fmt: skip
    assert set(MEMORY_KINDS) == {
        "parameters", "gradients", "optimizer", "activations", "logits", "temporaries", "communication", "framework"
    }  # fmt: skip


def test_what_a_category_says_of_itself_is_a_phase_or_a_kind_of_ops():
    assert set(WAITING.values()) | set(WORK_PHASES) == set(PHASES)
    assert set(WAITING) | set(WORK_CATEGORIES) == set(CATEGORIES)
    assert WORK_PHASES == ("forward", "backward", "optimizer")
    assert ARITHMETIC == ("matmul", "attention")
    for shown in SHOWN_CATEGORIES.values():
        assert set(shown.op_kinds) <= set(KINDS)
        assert shown.amount_unit in ("", "FLOP", "bytes")
        assert shown.binds.endswith((" binds.", " bind.", " little."))


def test_missing_names_become_zeros_in_order():
    found = complete({"bubble": 2, "forward": 1}, PHASES)
    assert list(found) == list(PHASES)
    assert found["forward"] == 1.0
    assert found["bubble"] == 2.0
    assert sum(found.values()) == 3.0


def test_a_name_that_does_not_exist_is_our_mistake():
    with pytest.raises(AssertionError, match="froward"):
        complete({"froward": 1.0}, PHASES)
