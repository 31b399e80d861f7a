"""An op list survives its JSON, and what does not fit is refused by its field."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator.scenario.op_list import (
    CALLS,
    NONE,
    Call,
    Operand,
    OpList,
    Signature,
    Storage,
    Weight,
    from_json,
    is_op_list,
    to_json,
)
from estimator.scenario.problems import InputProblems

PRODUCT = Signature(
    op="aten::mm",
    inputs=(
        Operand(shape=(8, 4), dtype="bfloat16"),
        Operand(shape=(4, 2), dtype="bfloat16", strides=(1, 4)),
    ),
    outputs=(Operand(shape=(8, 2), dtype="bfloat16"),),
    arguments={"tf32": False},
)


@st.composite
def op_lists(draw) -> OpList:
    calls: list[Call] = []
    for index in range(draw(st.integers(0, 12))):
        kind = draw(st.sampled_from(CALLS))
        calls.append(
            Call(
                kind=kind,
                signature=0 if kind in ("kernel", "collective") else NONE,
                phase=draw(st.sampled_from(("", "forward", "backward", "optimizer"))),
                dispatches=draw(st.integers(0, 9)),
                recomputed=draw(st.booleans()),
                compiled=draw(st.booleans()),
                waits_for=draw(st.integers(NONE, index - 1)),
                measured_s=draw(st.none() | st.floats(0, 1)),
                varies=draw(st.integers(0, 9)),
            )
        )
    storages = draw(st.lists(st.builds(Storage, bytes=st.integers(0, 1 << 40), born=st.integers(NONE, len(calls)),
                                       died=st.integers(NONE, len(calls))), max_size=5))  # fmt: skip
    return OpList(
        source="trace",
        program="train.py",
        calls=tuple(calls),
        signatures=(PRODUCT,),
        storages=tuple(storages),
        modules=("blocks.0",),
        groups=((0, 1),),
        weights=(Weight(name="head.weight", shape=(2, 2), dtype="bfloat16", trains=False),),
        world_size=2,
        versions={"torch": "2"},
        assumptions=("the loss is 1",),
    )


@given(op_lists())
def test_json_and_back(found):
    document = json.loads(json.dumps(to_json(found)))
    assert is_op_list(document)
    assert from_json(document) == found


CALL = {"count": 1, "kind": ["kernel"], "signature": [0]}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"format": "other"}, "format"),
        ({"schema_version": 99}, "schema_version"),
        ({"moduls": []}, "moduls"),
        ({"world_size": 0}, "world_size"),
        ({"loop_s": -1}, "loop_s"),
        ({"groups": [[-1]]}, "groups[0]"),
        ({"signatures": [{"op": 1}]}, "signatures[0]"),
        ({"signatures": [{"op": "aten::mm", "inputs": [[[2, 2], "float32", [1]]]}]}, "signatures[0].inputs[0]"),
        ({"signatures": [{"op": "aten::mm", "outputs": [[[-2], "float32"]]}]}, "signatures[0].outputs[0]"),
        ({"calls": {"count": 1, "kind": ["dance"]}}, "calls.kind[0]"),
        ({"calls": {**CALL, "signature": [7]}}, "calls.signature"),
        ({"calls": {"count": 1, "kind": ["kernel"]}}, "calls.signature[0]"),
        ({"calls": {**CALL, "waits_for": [0]}}, "calls.waits_for[0]"),
        ({"calls": {**CALL, "phase": ["bubbles"]}}, "calls.phase[0]"),
        ({"calls": {**CALL, "colour": ["red"]}}, "calls.colour"),
        ({"calls": {**CALL, "stream": [0, 0]}}, "calls.stream"),
        ({"weights": [["head.weight", [2, 2], "float32"]]}, "weights[0]"),
        ({"weights": [["head.weight", [-2], "float32", True]]}, "weights[0][0]"),
        ({"storages": {"count": 1, "bytes": [8], "weight": [0]}}, "storages.weight"),
        ({"storages": {"count": 1, "bytes": [1.5]}}, "storages.bytes"),
        ({"storages": {"count": 1, "bytes": [8], "born": [40]}}, "storages.born"),
        ({"storages": {"count": 9_000_000}}, "storages.bytes"),
        ({"calls": {"count": 9_000_000}}, "calls.kind"),
        ({"signatures": [{"op": "aten::mm", "inputs": [[[1 << 40, 1 << 40], "float32"]]}]}, "signatures[0].inputs[0]"),
    ],
)
def test_what_does_not_fit_is_refused_by_its_field(change, field):
    whole = to_json(OpList(source="trace", program="p", calls=(), signatures=(PRODUCT,)))
    with pytest.raises(InputProblems) as refused:
        from_json(whole | change)
    assert [problem.field for problem in refused.value.problems] == [field]
    assert all(problem.remedy for problem in refused.value.problems)
