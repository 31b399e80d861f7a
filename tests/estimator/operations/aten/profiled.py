"""The ops of a profile as signatures, with the kernels that each really launched and their seconds."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path

from estimator.operations.aten import is_known
from estimator.scenario.aten_cost import torch_name
from estimator.scenario.op_list import Operand, Signature

TRACE = Path(__file__).parents[3] / "reference" / "h200" / "trace-short-1.trace.json.gz"
"""One step of two blocks of Llama 3.2 1B (4 × 2 048 tokens, autocast to bf16, sdpa, foreach AdamW) on one H200."""

MOST_BYTES = 1 << 31
"""Kernels that index with 32 bits run once for each part of a tensor that is larger."""


def ops() -> list[tuple[Signature, int, float]]:
    """(signature, kernels, seconds) of every op that launched any; a memset is none."""
    events = json.loads(gzip.decompress(TRACE.read_bytes()))["traceEvents"]
    of_id = {e["args"].get("External id"): e for e in events if e.get("cat") == "cpu_op"}
    parents = _parents([e for e in events if e.get("cat") == "cpu_op"])
    seconds: dict[int, list[float]] = defaultdict(list)
    found = {}
    for event in events:
        if event.get("cat") in ("kernel", "gpu_memcpy") and event["args"].get("External id") in of_id:
            op = _recorded(of_id[event["args"]["External id"]], parents)
            found[id(op)] = op
            seconds[id(op)].append(event["dur"] * 1e-6)
    return [(_signature(found[key]), len(taken), sum(taken)) for key, taken in seconds.items()]


def _parents(events):
    threads = defaultdict(list)
    for event in events:
        threads[event["tid"]].append(event)
    parents = {}
    for members in threads.values():
        stack = []
        for event in sorted(members, key=lambda e: (e["ts"], -e["dur"])):
            while stack and stack[-1]["ts"] + stack[-1]["dur"] <= event["ts"]:
                stack.pop()
            parents[id(event)] = stack[-1] if stack else None
            stack.append(event)
    return parents


COMPOSED = ("aten::linear", "aten::matmul", "aten::_to_copy", "aten::scaled_dot_product_attention", "aten::clone")
"""Ops that a profile shows around those that a recorder sees, or whose results it does not tell."""


def _recorded(op, parents):
    """The op that a recorder would see: the outermost one that the table has."""
    best, above = op, parents[id(op)]
    while above is not None:
        if is_known(above["name"]) and above["name"] not in COMPOSED:
            best = above
        above = parents[id(above)]
    return best


def _signature(op) -> Signature:
    arguments = op["args"]
    inputs = []
    columns = (arguments.get(key, []) for key in ("Input Dims", "Input type", "Input Strides"))
    for shape, kind, strides in zip(*columns, strict=True):
        if kind == "TensorList":
            inputs += [
                Operand(shape=tuple(one), dtype="float32", strides=tuple(step))
                for one, step in zip(shape, strides, strict=True)
            ]
        elif shape or torch_name(kind) in ("float32", "bfloat16"):
            inputs.append(Operand(shape=tuple(shape), dtype=torch_name(kind), strides=tuple(strides)))
    causal = {"is_causal": True} if "attention" in op["name"] else {}
    return Signature(op=op["name"], inputs=tuple(inputs), arguments=causal)
