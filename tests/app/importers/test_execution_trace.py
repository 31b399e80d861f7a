"""Execution traces of PyTorch, which become op lists."""

from __future__ import annotations

import collections
import gzip
import json

from estimator.scenario.op_list import from_json
from tests.app.importers.reading import REFERENCE, codes, one, read, refusal


def test_an_execution_trace_becomes_an_op_list(tmp_path):
    imported = read(tmp_path, REFERENCE.joinpath("tools", "execution_trace.json.gz").read_bytes())
    found = one(imported)
    (ops,) = imported.op_lists
    assert codes(found) == {"no-times"}
    # two MLPs of 64 and 256 on 32 rows: four products forward; the first one's input has no gradient
    products = sum(row["flops"] for row in found.rows if "flops" in row)
    assert products == (4 + 7) * 2 * 32 * 64 * 256
    phases = [from_json(ops).calls[at].phase for at in (1, -1)]
    assert phases == ["forward", "optimizer"]
    assert [row["calls"] for row in found.rows if row["op"] == "aten::relu"] == [2]
    assert refusal(tmp_path, {"schema": "1.1", "nodes": [{"id": 1, "name": "x"}]}).format == "execution trace"


def test_execution_traces_of_schema_1_0_1_are_the_same(tmp_path):
    document = json.loads(gzip.decompress(REFERENCE.joinpath("tools", "execution_trace.json.gz").read_bytes()))
    kept = [
        {
            "id": node["id"], "name": node["name"], "parent": node["ctrl_deps"], "inputs": node["inputs"]["values"],
            "input_shapes": node["inputs"]["shapes"], "input_types": node["inputs"]["types"],
        }
        for node in document["nodes"]
    ]  # fmt: skip
    new, old = (one(read(tmp_path, {"schema": name, "nodes": some})) for name, some in (
        ("1.1.1-chakra.0.0.4", document["nodes"]), ("1.0.1", kept),
    ))  # fmt: skip
    sums = []
    for found in (new, old):  # which has no strides, by which the newer tells calls apart
        counts = collections.Counter()
        for row in found.rows:
            counts[row["op"], row["phase"], row.get("flops", 0.0) / row["calls"]] += row["calls"]
        sums.append(counts)
    assert len(sums[0]) > 5
    assert sums[0] == sums[1]


def step_of_an_execution_trace(first, ranks):
    """A product, a convolution of 8 images of 3 × 32 × 32 by 16 kernels of 3 × 3, its backward and an all-reduce."""
    image, kernel, result, none = [8, 3, 32, 32], [16, 3, 3, 3], [8, 16, 32, 32], "<None>"
    tensors = {"types": ["Tensor(float)", "Tensor(float)", "None", "GenericList[Int]", "GenericList[Int]",
                         "GenericList[Int]", "Bool", "GenericList[Int]", "Int"]}  # fmt: skip
    back = ["Tensor(float)", "Tensor(float)", "Tensor(float)", "GenericList[Int]", "GenericList[Int]",
            "GenericList[Int]", "GenericList[Int]", "Bool", "GenericList[Int]", "Int", "GenericList[Bool]"]  # fmt: skip
    message = [[], 3, ["0", "default_pg"], 0, "allreduce", [], [], 0, 1, ranks]
    ones = [1, 1]
    return [
        {"id": first, "name": f"ProfilerStep#{first}", "ctrl_deps": 1},
        {"id": first + 1, "name": "aten::mm", "ctrl_deps": first,
         "inputs": {"values": [[], []], "shapes": [[4, 8], [8, 2]], "types": ["Tensor(float)"] * 2}},
        {"id": first + 2, "name": "aten::convolution", "ctrl_deps": first,
         "inputs": {"values": [[], [], none, ones, ones, ones, False, [0, 0], 1],
                    "shapes": [image, kernel, *[[]] * 7], **tensors}},
        {"id": first + 3, "name": "aten::convolution_backward", "ctrl_deps": 2,  # on a thread of autograd's own
         "inputs": {"values": [[], [], [], [0], ones, ones, ones, False, [0, 0], 1, [False, True, False]],
                    "shapes": [result, image, kernel, *[[]] * 8], "types": back}},
        {"id": first + 4, "name": "c10d::allreduce_", "ctrl_deps": 2,
         "inputs": {"values": [[]], "shapes": [[[432]]], "types": ["GenericList[Tensor(float)]"]}},
        {"id": first + 5, "name": "record_param_comms", "ctrl_deps": first + 4,
         "inputs": {"values": message, "shapes": [[]] * 10, "types": ["Int"] * 10}},
    ]  # fmt: skip


def test_of_the_steps_of_an_execution_trace_one_is_listed(tmp_path):
    frames = [{"id": 1, "name": "thread", "ctrl_deps": 1}, {"id": 2, "name": "thread", "ctrl_deps": 1}]
    nodes = [*frames, *(node for first in (10, 20, 30) for node in step_of_an_execution_trace(first, 2))]
    imported = read(tmp_path, {"schema": "1.0.3-chakra.0.0.4", "nodes": nodes[:-3]})  # the last is cut off
    found = one(imported)
    assert codes(found) == {"no-times", "one-step"}
    assert found.world_size == from_json(imported.op_lists[0]).world_size == 2
    flops = 2 * 8 * 16 * 32 * 32 * 3 * 9
    assert {(row["op"], row["calls"], row.get("flops")) for row in found.rows} == {
        ("aten::mm", 1, 128.0), ("aten::convolution", 1, flops), ("aten::convolution_backward", 1, flops),
        ("c10d::allreduce_", 1, None),
    }  # fmt: skip
    unmarked = [node | {"name": node["name"].replace("ProfilerStep", "Optimizer.step#SGD")} for node in nodes]
    assert "whole-recording" in codes(read(tmp_path, {"schema": "1.1.0", "nodes": unmarked}))
