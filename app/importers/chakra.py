"""Execution traces of PyTorch (Chakra's schema, ``ExecutionTraceObserver``): ops with their shapes, and no times; as an
op list, so that what they should take is predicted.
"""

from __future__ import annotations

import bisect
import re
import statistics
from collections import Counter
from typing import Any

import msgspec

from app.importers.imported import Imported, ImportRefused, Limits
from app.importers.kineto.aten_call import AtenCall, aten_call, kineto_dtype
from app.importers.kineto.aten_results import signature
from app.importers.kineto.called_ops import is_op
from app.importers.source import Source
from estimator.scenario.aten_cost import convolution_flops, flops_of
from estimator.scenario.breakdown import Category, Phase
from estimator.scenario.measurement import Measurement, Origin, Warning
from estimator.scenario.op_list import Call, Operand, OpList, Signature, to_json
from estimator.scenario.units import MIB
from runners.trace.kernel_category import category_of

_MOST_BYTES = 512 * MIB
_MOST_CALLS = 200_000
_DEEPEST = 200
_LONGEST_OP = 200
_MESSAGE = "record_param_comms"
_COMMUNICATES = ("c10d::", "_c10d_functional::", _MESSAGE)
_STEP = re.compile(r"ProfilerStep#\d{1,9}$")
_OPTIMIZER = "Optimizer.step#"
_MESSAGE_VALUES = 10
"""Arguments of a message that end with first rank, stride and count of its group."""
_REMEDY = "Record one step with torch.profiler.ExecutionTraceObserver, and upload what it wrote."


class Tensors(msgspec.Struct):
    """Arguments or results in order: a tensor's value holds its storage, a scalar's itself."""

    values: list[Any] = []
    shapes: list[Any] = []
    types: list[str] = []
    strides: list[Any] = []


class Attribute(msgspec.Struct):
    """One attribute of a node."""

    name: str
    value: Any = None


class Node(msgspec.Struct):
    """One range on the host: an op, a frame of autograd, a range of the program; ``ctrl_deps`` is the one around it.

    Schema 1.0.1 (PyTorch 2.0) calls that ``parent``, and lists of values, shapes and types stand beside one another.
    """

    id: int
    name: str
    ctrl_deps: int = 0
    parent: int = 0
    inputs: Tensors | list[Any] = msgspec.field(default_factory=Tensors)
    input_shapes: list[Any] = []
    input_types: list[str] = []
    attrs: list[Attribute] = []

    @property
    def around(self) -> int:
        """Its range around it, by number."""
        return self.ctrl_deps or self.parent

    @property
    def given(self) -> Tensors:
        """Its arguments."""
        if isinstance(self.inputs, Tensors):
            return self.inputs
        return Tensors(values=self.inputs, shapes=self.input_shapes, types=self.input_types)


class Document(msgspec.Struct):
    """The file."""

    nodes: list[Node]
    schema: str = ""


def read(source: Source, filename: str, limits: Limits) -> Imported:
    """Read the ops that have kernels of their own; raise ImportRefused where it is broken or has none."""
    data = source.read("execution trace", _MOST_BYTES)
    try:
        document = msgspec.json.decode(data, type=Document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"this is not an execution trace that can be read ({error})"
        raise ImportRefused("execution trace", "", message, _REMEDY) from None
    message = "An execution trace holds no times; its ops have their prediction"
    warnings = [Warning(code="no-times", message=message)]
    found = _op_list(document, _one_step(document, warnings), filename)
    if not found.calls:
        raise ImportRefused("execution trace", "nodes", "no op of PyTorch is in it", _REMEDY)
    if len(found.calls) == _MOST_CALLS:
        message = f"Ops after the first {_MOST_CALLS:,} were left out"
        warnings.append(Warning(code="ops-left-out", message=message))
    measurement = Measurement(
        label=filename[:200],
        origin=Origin(kind="upload", format="chakra", producer="ExecutionTraceObserver", version=document.schema[:40]),
        world_size=found.world_size,
        rows=tuple(_rows(found)[: limits.rows]),
        warnings=tuple(warnings),
    )
    return Imported(measurements=(measurement,), warnings=tuple(warnings), op_lists=(to_json(found),))


def _one_step(document: Document, warnings: list[Warning]) -> list[Node]:
    """The nodes of one step, in the order in which they began, as numbers count them over all threads.

    Of the steps that are marked it is the median by its ops; where none is, all are given.
    """
    nodes = sorted(document.nodes, key=lambda one: one.id)
    marks = [node for node in nodes if _STEP.match(node.name)]
    if not marks:
        updates = sum(node.name.startswith(_OPTIMIZER) for node in nodes)
        if updates > 1:
            message = f"The optimizer ran {updates} times and no step is marked, so the ops are those of all of it"
            warnings.append(Warning(code="whole-recording", message=message))
        return nodes
    begins = [bisect.bisect_left(nodes, mark.id, key=lambda one: one.id) for mark in marks]
    steps = [nodes[begin:end] for begin, end in zip(begins, [*begins[1:], len(nodes)], strict=True)]
    sizes = [len(step) for step in steps]
    chosen = sizes.index(statistics.median_high(sizes))
    if len(steps) > 1:
        message = f"Of {len(steps)} steps one is listed, as they repeat one another"
        warnings.append(Warning(code="one-step", message=message, where=marks[chosen].name))
    return steps[chosen]


def _op_list(document: Document, step: list[Node], filename: str) -> OpList:
    """Every op of a step that is in no other, in the order in which they began."""
    nodes = {node.id: node for node in document.nodes}
    messages = {node.around: node for node in document.nodes if node.name == _MESSAGE}
    numbers: dict[tuple[Signature, str], int] = {}  # arguments are no part of a hash
    groups: dict[tuple[int, ...], int] = {}
    calls: list[Call] = []
    dispatched = 0
    for node in step:
        dispatched += "::" in node.name
        around = _around(node, nodes)
        if not is_op(node.name) or any(is_op(name) for name in around) or len(calls) == _MOST_CALLS:
            continue
        collective = node.name.startswith(_COMMUNICATES)
        if not collective and category_of(node.name) == Category.HOST:
            continue
        made = _call(node)
        written = _collective(made, messages.get(node.id, node), groups) if collective else signature(made)
        number = numbers.setdefault((written, str(sorted(written.arguments.items()))), len(numbers))
        kind = "collective" if collective else "kernel"
        calls.append(Call(kind=kind, signature=number, phase=_phase(around), dispatches=dispatched))
        dispatched = 0
    return OpList(
        source="profile",
        program=filename[:200],
        calls=tuple(calls),
        signatures=tuple(one for one, _ in numbers),
        groups=tuple(groups),
        world_size=max((len(ranks) for ranks in groups), default=1),
    )


def _around(node: Node, nodes: dict[int, Node]) -> list[str]:
    """Names of the ranges around a node, the innermost first."""
    names: list[str] = []
    at = node
    while len(names) < _DEEPEST and at.around != at.id and (outer := nodes.get(at.around)) is not None:
        names.append(outer.name)
        at = outer
    return names


def _phase(around: list[str]) -> str:
    if any(name.startswith("Optimizer.step") for name in around):
        return Phase.OPTIMIZER
    backward = any(name.startswith("autograd::engine::evaluate_function") for name in around)
    return Phase.BACKWARD if backward else Phase.FORWARD


def _call(node: Node) -> AtenCall:
    """The call, in the words of the profiler's traces."""
    given = node.given
    kinds = [_kind(one) for one in given.types]
    texts = ["" if kind else _text(value) for kind, value in zip(kinds, given.values, strict=False)]
    parts = [msgspec.json.encode(part) for part in (given.shapes, kinds, texts, given.strides)]
    return aten_call(node.name[:_LONGEST_OP], parts)


def _kind(written: str) -> str:
    if written.startswith("Tensor("):
        return written[len("Tensor(") :].removesuffix(")")
    return "TensorList" if written.startswith("GenericList[Tensor(") else ""


def _text(value: Any) -> str:
    return "" if value == "<None>" else str(value)[:_LONGEST_OP]


def _collective(made: AtenCall, message: Node, groups: dict[tuple[int, ...], int]) -> Signature:
    """As the message within it says, in attributes or, before schema 1.1.0, among its arguments."""
    said = {one.name: one.value for one in message.attrs}
    values = message.given.values
    if "pg_size" not in said and message.name == _MESSAGE and len(values) == _MESSAGE_VALUES:
        said["pg_size"] = values[-1]
    name, ranks = str(said.get("collective_name") or ""), _count(said.get("pg_size"))
    dtype = kineto_dtype(str(said.get("dtype") or "")) or next((one.dtype for one in made.inputs if one.dtype), "uint8")
    sent, received = _count(said.get("in_msg_nelems")), _count(said.get("out_msg_nelems"))
    arguments: dict[str, Any] = {"group": groups.setdefault(tuple(range(ranks)), len(groups))} if ranks > 1 else {}
    if not name or not sent:
        return Signature(op=made.name, inputs=made.inputs, arguments=arguments)
    return Signature(
        op=f"c10d::{name[:60]}",
        inputs=(Operand(shape=(sent,), dtype=dtype),),
        outputs=(Operand(shape=(received,), dtype=dtype),),
        arguments=arguments,
    )


def _count(value: Any) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        return 0
    return number if 0 < number < 1 << 40 else 0


def _rows(found: OpList) -> list[dict[str, Any]]:
    """Calls and FLOPs by op, phase and shapes, the most FLOPs first."""
    counts = Counter((call.signature, call.phase) for call in found.calls)
    rows = []
    for (number, phase), calls in counts.items():
        one = found.signatures[number]
        shapes = [list(operand.shape) for operand in one.inputs]
        row: dict[str, Any] = {"op": one.op, "phase": phase, "calls": calls, "shapes": str(shapes)[:200]}
        if flops := _flops(one):
            row["flops"] = flops * calls
        rows.append(row)
    return sorted(rows, key=lambda row: -row.get("flops", 0.0))


def _flops(one: Signature) -> float | None:
    """A convolution's depend on its result, whose sizes its arguments gave."""
    said, inputs = one.arguments, [operand.shape for operand in one.inputs]
    if one.op == "aten::convolution_backward" and len(inputs) > 2 and not said.get("transposed"):
        return convolution_flops(inputs[0], inputs[2], sum((said.get("output_mask") or [True, True])[:2])) or None
    if one.op == "aten::convolution" and one.outputs and not said.get("transposed"):
        return convolution_flops(one.outputs[0].shape, inputs[1])
    return flops_of(one.op, [list(shape) for shape in inputs])
