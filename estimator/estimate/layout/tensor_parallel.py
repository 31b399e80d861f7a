"""Tensor parallel: the list of one of the ranks that split linears by columns and rows, as ``parallelize_module`` does.

A column linear divides what it makes, a row linear what it takes; what lies between the two is divided along the same
features or heads. Row linears sum their output over the ranks in forward, column linears the gradient of their input in
backward, each its own: DTensor does not add those of q, k and v first (Shoeybi 2019, arXiv 1909.08053, section 3;
torch.distributed.tensor.parallel).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from estimator.estimate.layout.linear_split import (
    COLUMN,
    ROW,
    Plan,
    Split,
    is_linear,
    is_product,
    proposed_split,
    split_by,
    unpaired,
)
from estimator.estimate.layout.rewrite import Rewrite, divided
from estimator.estimate.layout.units import Shares, Units, alone, elements, unit_of, units_of
from estimator.scenario.aten_cost import is_by_length
from estimator.scenario.breakdown import MemoryKind, Phase
from estimator.scenario.op_list import NONE, Call, Operand, OpList, Signature, Storage, Weight
from estimator.scenario.problems import InputProblems, Problem, divisors_near
from estimator.schedule.queue import DEFAULT_STREAM

TAKEN_APART = 3
"""Ops that DTensor takes apart for each product of a split linear: the view, the transpose, the product."""


def with_tensor_parallel(
    ranks: int, plan: Plan | None = None, group: tuple[int, ...] = ()
) -> Callable[[OpList], OpList]:
    """The step of one of ``ranks`` that split linears by ``plan``, else by what their names propose."""

    def of(found: OpList) -> OpList:
        alone(found, "plan.tp")
        units = units_of(found, "plan.tp")
        if ranks < 2:
            return found
        split = split_by(found, plan) if plan else proposed_split(found)
        if not split.of:
            message = "needs linears to split; " + (
                "no pattern names one" if plan else "none of the repeated modules has names that say which"
            )
            remedy = "Name them, as in q_proj=column and o_proj=row."
            raise InputProblems([Problem(field="split" if plan else "plan.tp", message=message, remedy=remedy)])
        if apart := unpaired(found, split):
            message = f"leaves {apart[0]} without its other half: a row linear takes what column linears make"
            remedy = "Name both of each pair, as in q_proj=column and o_proj=row."
            raise InputProblems([Problem(field="split", message=message, remedy=remedy)])
        return _Splitting(units, split, ranks, group or tuple(range(ranks))).made()

    return of


def attends(s: Signature) -> bool:
    """Whether an op works on the scores of attention, or is all of it."""
    return "_scaled_dot_product" in s.op or is_by_length(s.op) or s.op.startswith("aten::_softmax")


@dataclass
class _Linear:
    """A split linear of so many features; ``dim`` of its weight is divided.

    ``past``: the way (forward, again, backward) in which it has already made its output, or its input's gradient.
    """

    how: str
    tokens: int
    takes: int
    makes: int
    weight: tuple[int, ...]
    past: str = ""
    gradients: int = 0

    @property
    def size(self) -> int:
        """The features that are divided."""
        return self.makes if self.how == COLUMN else self.takes

    @property
    def dim(self) -> int:
        """torch's Linear keeps (makes, takes), GPT-2's Conv1D (takes, makes)."""
        plain = self.weight == (self.makes, self.takes)
        return int(plain != (self.how == COLUMN))


class _Splitting:
    """One list under way to its split form."""

    def __init__(self, units: Units, split: Split, ranks: int, group: tuple[int, ...]) -> None:
        found = units.found
        self.found, self.units, self.split, self.ranks, self.group = found, units, split, ranks, group
        self.out = Rewrite(found)
        self.stream = len(found.streams)
        self.linears = self._linears()
        self.at = [self.linears.get(path) for path in found.modules]
        self.heads = self._heads()
        self.last_backward = max(
            (at for at, call in enumerate(found.calls) if call.phase == Phase.BACKWARD), default=-1
        )
        self.inside = self._inside()
        self.shares = Shares(found, lambda index: self._shape(found.weights[index]))

    def made(self) -> OpList:
        """Write the list."""
        for index, call in enumerate(self.found.calls):
            if call.kind != "kernel":
                self.out.keep()
                continue
            s = self.found.of(call)
            linear = self.at[call.module] if call.module != NONE else None
            if index > self.last_backward:
                done = self.shares.of(s) or s
                self.out.keep(done, **({"dtensor": 1} if call.phase == Phase.OPTIMIZER and done != s else {}))
            elif linear is not None and is_linear(s):
                self._linear(call, s, linear)
            elif linear is not None and is_product(s):
                self._product(call, s, linear)
            elif linear is not None:
                self.out.keep(self._beside(call, s, linear))
            elif index in self.inside:
                self.out.keep(self._between(s, self.inside[index]))
            else:
                self.out.keep()
        storages = [self._storage(one) for one in self.found.storages]
        plan = ", ".join(f"{name} {how}" for name, how in sorted(self.split.named.items()))
        return self.out.finish(
            storages,
            f"{self.ranks} ranks split linears, as parallelize_module does: {plan}.",
            streams=(*self.found.streams, "all-reduce of tensor parallel ranks"),
            groups=(*self.found.groups, self.group),
            weights=tuple(replace(one, shape=self._shape(one)) for one in self.found.weights),
            world_size=self.found.world_size * self.ranks,
        )

    # what is split

    def _linears(self) -> dict[str, _Linear]:
        """Split linears by path; torch's Linear keeps (makes, takes), GPT-2's Conv1D (takes, makes)."""
        own = {one.name.rpartition(".")[0]: one for one in self.found.weights if one.name.endswith(".weight")}
        products: dict[str, Signature] = {}
        for call in self.found.calls:
            if call.kind == "kernel" and call.module != NONE and call.phase == Phase.FORWARD:
                s = self.found.of(call)
                if is_product(s):
                    products.setdefault(self.found.modules[call.module], s)
        found: dict[str, _Linear] = {}
        for path, how in self.split.of.items():
            if path not in products:
                continue
            s, weight = products[path], own[path]
            first = s.inputs[0 if is_linear(s) else -2]
            tokens, takes = math.prod(first.shape[:-1]), first.shape[-1]
            one = _Linear(
                how=how, tokens=tokens, takes=takes, makes=elements(weight) // max(takes, 1), weight=weight.shape
            )
            if one.size % self.ranks:
                what = "makes" if how == COLUMN else "takes"
                message = f"is {self.ranks}, which does not divide the {one.size} features that {path} {what}"
                remedy = f"Choose {divisors_near(self.ranks, one.size)}."
                raise InputProblems([Problem(field="plan.tp", message=message, remedy=remedy)])
            found[path] = one
        return found

    def _heads(self) -> dict[str, set[int]]:
        """Heads of queries and of keys in the attention of each unit."""
        heads: dict[str, set[int]] = {}
        for call in self.found.calls:
            if call.kind != "kernel" or call.module == NONE:
                continue
            s = self.found.of(call)
            if call.phase != Phase.FORWARD or not attends(s):
                continue
            operands = s.inputs[:1] if s.op.startswith("aten::_softmax") else s.inputs[:3]
            by_length = is_by_length(s.op)
            sizes = {one.shape[-2 if by_length else 1] for one in operands if len(one.shape) == 4 or by_length}
            heads.setdefault(unit_of(self.found.modules[call.module]), set()).update(sizes)
        return heads

    def _refuse_heads(self, widths: _Widths) -> None:
        for count in sorted(widths.all_heads):
            if count % self.ranks:
                message = f"is {self.ranks}, which does not divide the {count} heads of attention"
                remedy = f"Choose {divisors_near(self.ranks, math.gcd(*widths.all_heads))}."
                raise InputProblems([Problem(field="plan.tp", message=message, remedy=remedy)])

    def _inside(self) -> dict[int, _Widths]:
        """Calls between a column linear and the row linear that takes what it makes, in forward and in backward."""
        found: dict[int, _Widths] = {}
        widths: _Widths | None = None
        waiting: list[int] = []
        before = ""
        for index, call in enumerate(self.found.calls):
            if call.kind != "kernel" or call.phase not in (Phase.FORWARD, Phase.BACKWARD):
                continue
            if (way := _way(call)) != before:
                widths, waiting, before = None, [], way
            linear = self.at[call.module] if call.module != NONE else None
            if linear is None:
                waiting.append(index)
            elif is_product(self.found.of(call)):
                back = way == BACK
                if linear.how == (ROW if back else COLUMN) and (back or widths is None):
                    unit = unit_of(self.found.modules[call.module])
                    widths, waiting = _Widths(linear.tokens, self.heads.get(unit, set())), []
                if widths is not None:
                    widths.attends |= any(attends(self.found.of(self.found.calls[at])) for at in waiting)
                    # In backward several column linears may follow: what lies before the last of them is between.
                    widths.sizes.add(linear.size)
                    found |= dict.fromkeys(waiting, widths)
                    if linear.how == COLUMN:
                        widths.made.add(linear.makes)
                    else:
                        widths.taken = linear.takes
                        self._refuse_heads(widths)
                waiting = []
                if linear.how == ROW and not back:
                    widths = None
        return found

    def _shape(self, one: Weight) -> tuple[int, ...]:
        """A parameter's shape on one rank."""
        linear = self.linears.get(one.name.rpartition(".")[0])
        if linear is None or not one.shape or (linear.how == ROW and len(one.shape) == 1):
            return one.shape
        dim = linear.dim if len(one.shape) > 1 else 0
        return tuple(length // self.ranks if at == dim else length for at, length in enumerate(one.shape))

    # calls

    def _product(self, call: Call, s: Signature, linear: _Linear) -> None:
        """Divide a product of a split linear; sum what only all ranks together know."""
        way, column = _way(call), linear.how == COLUMN
        first, second = s.inputs[-2:]
        made = (math.prod(first.shape[:-1]), second.shape[-1])
        of_weight = way == BACK and self._is_of_weight(made, linear)
        if of_weight:
            role = "m" if (linear.dim == 0) == (made == linear.weight) else "n"
        else:
            role = "n" if column != (way == BACK) else "k"
        a, b, c = first, second, s.outputs[:1]
        if role == "k":
            a, b = divided(a, len(a.shape) - 1, self.ranks), divided(b, len(b.shape) - 2, self.ranks)
        elif role == "n":
            b, c = divided(b, len(b.shape) - 1, self.ranks), tuple(divided(x, len(x.shape) - 1, self.ranks) for x in c)
        else:
            a, c = divided(a, len(a.shape) - 2, self.ranks), tuple(divided(x, len(x.shape) - 2, self.ranks) for x in c)
        bias = s.inputs[:-2]
        if role == "n":
            bias = tuple(divided(one, len(one.shape) - 1, self.ranks) if one.shape else one for one in bias)
        signature = replace(s, inputs=(*bias, a, b), outputs=(*c, *s.outputs[1:]))
        index = self.out.keep(signature, dispatches=call.dispatches + (way != BACK), dtensor=TAKEN_APART)
        if of_weight:
            return
        linear.past = way
        if column == (way == BACK):
            self._sum(call, index, s.outputs[0] if s.outputs else replace(first, shape=made, strides=None))

    def _linear(self, call: Call, s: Signature, linear: _Linear) -> None:
        """Divide x·Wᵀ + b, W (makes × takes), b beside what is made alone; a row linear's parts are summed."""
        (x, weight, *bias), made, column = s.inputs, s.outputs, linear.how == COLUMN
        if column:
            weight = divided(weight, 0, self.ranks)
            bias = [divided(one, 0, self.ranks) for one in bias]
            made = tuple(divided(one, len(one.shape) - 1, self.ranks) for one in made)
        else:
            x, weight = divided(x, len(x.shape) - 1, self.ranks), divided(weight, 1, self.ranks)
        signature = replace(s, inputs=(x, weight, *bias), outputs=made)
        index = self.out.keep(signature, dispatches=call.dispatches + 1, dtensor=TAKEN_APART)
        linear.past = _way(call)
        if not column:
            self._sum(call, index, s.outputs[0])

    @staticmethod
    def _is_of_weight(made: tuple[int, int], linear: _Linear) -> bool:
        """Whether a product of backward makes the weight's gradient; the first of two does where shapes do not tell."""
        if made not in (linear.weight, linear.weight[::-1]):
            return False
        if made != (linear.tokens, linear.takes):
            return True
        linear.gradients += 1
        return linear.gradients % 2 == 1

    def _sum(self, call: Call, made: int, whole: Operand) -> None:
        """Sum a tensor over the ranks, beside nothing: the next call waits for it."""
        phase = call.phase
        self.out.wait(self.stream, made, phase)
        signature = Signature(
            op="_c10d_functional::all_reduce", inputs=(whole,), outputs=(whole,),
            arguments={"group": len(self.found.groups)},
        )  # fmt: skip
        now = replace(call, kind="collective", stream=self.stream, dispatches=1, dtensor=0, waits_for=NONE,
                      measured_s=None, compiled=False)  # fmt: skip
        sent = self.out.add(now, signature)
        self.out.wait(DEFAULT_STREAM, sent, phase)

    def _beside(self, call: Call, s: Signature, linear: _Linear) -> Signature:
        """An op of a split linear beside its products: casts of its weight, sums for its bias, its input and output."""
        square = linear.makes == linear.takes
        past = linear.past == _way(call)
        # Before its product a column linear works on its whole input, a row linear on a part; in backward reversed.
        partly = past == (linear.how == COLUMN) if _way(call) != BACK else past == (linear.how == ROW)

        def of(one: Operand) -> Operand:
            if one.shape in (linear.weight, linear.weight[::-1]) and math.prod(one.shape[:-1]) != linear.tokens:
                return divided(one, linear.dim if one.shape == linear.weight else 1 - linear.dim, self.ranks)
            if not one.shape or one.shape[-1] != linear.size or (square and not partly):
                return one
            return divided(one, len(one.shape) - 1, self.ranks)

        return replace(s, inputs=tuple(map(of, s.inputs)), outputs=tuple(map(of, s.outputs)))

    def _between(self, s: Signature, widths: _Widths) -> Signature:
        """An op between a column and a row linear: divided along features or heads."""

        def of(one: Operand) -> Operand:
            dim = widths.of_package(one) if is_by_length(s.op) else widths.dim(one)
            return one if dim is None else divided(one, dim, self.ranks)

        return replace(s, inputs=tuple(map(of, s.inputs)), outputs=tuple(map(of, s.outputs)))

    def _storage(self, one: Storage) -> Storage:
        if one.weight == NONE or one.kind not in (MemoryKind.PARAMETERS, MemoryKind.GRADIENTS, MemoryKind.OPTIMIZER):
            return self.out.resized(one) or self.out.moved(one)
        weight = self.found.weights[one.weight]
        each, rest = divmod(one.bytes, max(elements(weight), 1))
        size = one.bytes if rest or not each else each * math.prod(self._shape(weight))
        return self.out.moved(one, bytes=size)


@dataclass
class _Widths:
    """What is divided between column linears and the row linear that takes what they make: features and heads."""

    tokens: int
    heads: set[int]
    attends: bool = False
    sizes: set[int] = field(default_factory=set)
    made: set[int] = field(default_factory=set)
    taken: int = 0

    @property
    def all_heads(self) -> set[int]:
        """Heads of queries, and of keys and values, which have as many features each; none where nothing attends."""
        if not self.attends:
            return set()
        wide = self.taken // max(self.heads, default=1) if self.heads else 0
        made = {*self.made, *((made - self.taken) // 2 for made in self.made if made > self.taken)}
        return self.heads | ({size // wide for size in made if size and size % wide == 0} if wide else set())

    def dim(self, one: Operand) -> int | None:
        """The dimension of a tensor along which ranks divide it, None where each holds all of it."""
        shape = one.shape
        if len(shape) >= 4:
            return next((at for at in (1, 2) if shape[at] in self.all_heads), None)
        if len(shape) > 1 and math.prod(shape[:-1]) == self.tokens and self._shared(shape[-1]):
            return len(shape) - 1
        if len(shape) == 3 and any(shape[0] % heads == 0 for heads in self.all_heads):
            return 0
        return None

    def by_length(self, one: Operand) -> int | None:
        """The same of attention by length: heads stand before their width, or before the rows of their sums."""
        at = len(one.shape) - 2
        return at if at >= 0 and one.shape[at] in self.all_heads else None

    def _shared(self, size: int) -> bool:
        """Whether so many features are those of a linear, or the keys or values of one that makes queries too."""
        return size in self.sizes or any(2 * size == made - self.taken for made in self.made)


BACK = "backward"


def _way(call: Call) -> str:
    """Forward, forward again, or backward."""
    return "again" if call.recomputed else BACK if call.phase == Phase.BACKWARD else "forward"
