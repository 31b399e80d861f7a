"""Breakdown: the words of the contract, complete and in order."""

import pytest

from estimator.scenario.breakdown import CATEGORIES, MEMORY_KINDS, PHASES, complete


def test_the_names_are_those_of_the_contract():
    assert PHASES == ("forward", "backward", "optimizer", "exposed_communication", "bubble", "host_wait")
    assert set(CATEGORIES) == {
        "matmul", "attention", "elementwise", "communication", "optimizer", "bubble", "host", "other"
    }  # fmt: skip
    assert set(MEMORY_KINDS) == {
        "parameters", "gradients", "optimizer", "activations", "logits", "temporaries", "communication", "framework"
    }  # fmt: skip


def test_missing_names_become_zeros_in_order():
    found = complete({"bubble": 2, "forward": 1}, PHASES)
    assert list(found) == list(PHASES)
    assert found["forward"] == 1.0
    assert found["bubble"] == 2.0
    assert sum(found.values()) == 3.0


def test_a_name_that_does_not_exist_is_our_mistake():
    with pytest.raises(AssertionError, match="froward"):
        complete({"froward": 1.0}, PHASES)
