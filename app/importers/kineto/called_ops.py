"""Called ops: behind each kernel of a step the op that PyTorch's dispatcher sees below autograd, as a traced program
lists it. What only chooses or wraps others (linear, matmul, autograd's frames) is looked through, and so is an op of
somebody's own around ops that the table knows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.importers.kineto.intervals import Floats, Wholes, groups
from app.importers.kineto.launches import Launches
from app.importers.kineto.nesting import parents
from app.importers.kineto.steps import StepWindow
from app.importers.kineto.trace_columns import Trace
from estimator.operations.aten import is_known
from estimator.scenario.breakdown import Category
from runners.trace.kernel_category import category_of

_WRAPPERS = ("autograd::", "torch::", "torch.", "profiler::")
"""Namespaces of frames, not of ops."""

COMMUNICATES = ("c10d::", "record_param_comms", "_c10d_functional::")
"""What an exchange is called; all inside it is part of it."""


def _aten(names: str) -> frozenset[str]:
    return frozenset(f"aten::{name}" for name in names.split())


LOOKED_THROUGH = _aten(
    "_autocast_to_full_precision _autocast_to_reduced_precision _batch_norm_impl_index batch_norm "
    "_batch_norm_impl_index_backward _scaled_dot_product_attention_math absolute adaptive_avg_pool1d "
    "adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d argsort argwhere avg_pool1d bilinear "
    "broadcast_tensors broadcast_to cdist chunk clip clip_ concat concatenate contiguous conv1d conv2d conv3d "
    "conv_transpose1d conv_transpose2d conv_transpose3d cosine_embedding_loss cosine_similarity cross "
    "cross_entropy_loss diff divide divide_ dropout dropout_ einsum embedding_backward embedding_bag expand_as "
    "feature_dropout flatten greater greater_equal group_norm gru gru_cell hstack index_select_backward "
    "is_nonzero flatten_dense_tensors unflatten_dense_tensors inner instance_norm isclose isfinite item kl_div "
    "kron l1_loss layer_norm less less_equal linalg_matmul linalg_norm linear log_softmax lstm lstm_cell matmul "
    "max_pool1d max_pool2d max_pool3d meshgrid movedim moveaxis multiply multiply_ nanmean narrow negative "
    "nll_loss nll_loss2d nll_loss_nd not_equal numpy_T one_hot outer pad pad_sequence pairwise_distance prelu "
    "quantile ravel relu6 relu6_ requires_grad_ reshape reshape_as resolve_conj resolve_neg result_type rms_norm "
    "rnn_relu rnn_tanh row_stack rrelu scaled_dot_product_attention selu softmax square square_ stft subtract "
    "subtract_ sum_to_size swapaxes take_along_dim tensor_split tensordot thnn_conv2d tile to true_divide "
    "true_divide_ type_as unflatten unsafe_chunk view_as vstack"
)
"""Ops without a kernel of their own (``CompositeImplicitAutograd``): PyTorch runs them as others, which are listed."""


@dataclass(frozen=True, kw_only=True)
class StepOps:
    """The ops that the host went through in a step, by their start.

    ``index``: in the trace; ``parent``: place here of the op around it; ``owner``: place of the outermost op around it,
    itself included, that the table knows, else of the outermost one that the dispatcher sees; −1 for none.
    """

    index: Wholes
    parent: Wholes
    owner: Wholes

    def place(self, op: Wholes, ops: int) -> Wholes:
        """Place here of ops of the trace, −1 for those of other steps."""
        places = np.full(ops + 1, -1, dtype=np.int64)  # the last one answers for −1
        places[self.index] = np.arange(len(self.index))
        return np.asarray(places[op])


@dataclass(frozen=True, kw_only=True)
class Works:
    """What was run on the device, one entry for each op that launched anything, by the time of its first launch.

    ``op``: place among the step's ops, −1 where only the kernel is known; ``event``: its first device event, −1 on the
    host; ``longest``: that of its device events that took longest; ``at``: microseconds of the trace; ``seconds``: of
    all its kernels.
    """

    op: Wholes
    event: Wholes
    longest: Wholes
    at: Floats
    thread: Wholes
    seconds: Floats

    def __len__(self) -> int:
        return len(self.op)


def step_ops(trace: Trace, step: StepWindow) -> StepOps:
    """Find the ops of a step and how they nest."""
    starts = trace.ops.floats("ts")
    ends = starts + trace.ops.floats("dur")
    inside = np.flatnonzero((starts >= step.host_begin) & (starts <= step.host_end))
    index = inside[np.lexsort((-ends[inside], starts[inside]))]
    parent = np.full(len(index), -1, dtype=np.int64)
    for _, mine in groups(trace.ops.wholes("thread")[index]):
        enclosing = parents(starts[index[mine]], ends[index[mine]])
        parent[mine] = np.where(enclosing >= 0, mine[np.maximum(enclosing, 0)], -1)
    names = trace.ops.wholes("name")[index]
    seen = np.array([is_op(name) for name in trace.names], dtype=np.bool_)[names].tolist()
    whole = [is_known(name) or name.startswith(COMMUNICATES) for name in trace.names]
    known = np.array(whole, dtype=np.bool_)[names].tolist()
    owner = [-1] * len(index)
    for place, around in enumerate(parent.tolist()):
        outer = owner[around] if around >= 0 else -1
        own = seen[place] and (outer < 0 or (known[place] and not known[outer]))
        owner[place] = place if own else outer
    return StepOps(index=index, parent=parent, owner=np.array(owner, dtype=np.int64))


def is_op(name: str) -> bool:
    """Whether a range on the host is an op with a kernel of its own, not a frame around others."""
    return "::" in name and not name.startswith(_WRAPPERS) and name not in LOOKED_THROUGH


def device_works(trace: Trace, launched: Launches, step: StepWindow, ops: StepOps) -> Works:
    """Gather the step's device events by the op behind them; those without an op stand alone."""
    events = step.launched
    leaf = ops.place(launched.op[events], len(trace.ops))
    owner = np.where(leaf >= 0, ops.owner[np.maximum(leaf, 0)], -1) if len(ops.index) else leaf
    behind = np.where(owner >= 0, owner, leaf)
    key = np.where(behind >= 0, behind, len(ops.index) + np.arange(len(events)))
    order = np.argsort(launched.time[events], kind="stable")
    keys, first, group = np.unique(key[order], return_index=True, return_inverse=True)
    length = trace.device.floats("dur")[events[order]]
    seconds: Floats = np.bincount(group, weights=length, minlength=len(keys)).astype(np.float64) * 1e-6
    earliest = order[first]
    found = np.argsort(first, kind="stable")
    event = events[earliest]
    by_length = np.lexsort((-length, group))
    longest = events[order[by_length[np.searchsorted(group[by_length], np.arange(len(keys)))]]]
    return Works(
        op=behind[earliest][found],
        event=event[found],
        longest=longest[found],
        at=launched.time[event][found],
        thread=launched.thread[event][found],
        seconds=seconds[found],
    )


def host_works(trace: Trace, ops: StepOps) -> Works:
    """The step's ops on a CPU, each with the time inside it but for that of other works; views do no work."""
    names = trace.ops.wholes("name")[ops.index]
    works = np.array([category_of(name) != Category.HOST for name in trace.names], dtype=np.bool_)[names]
    op = np.flatnonzero((ops.owner == np.arange(len(ops.index))) & works)
    index = ops.index[op]
    length = trace.ops.floats("dur")[ops.index]
    around = ops.parent[op]
    outer = np.where(around >= 0, ops.owner[np.maximum(around, 0)], -1)
    inner = np.bincount(outer[outer >= 0], weights=length[op[outer >= 0]], minlength=len(length))
    none = np.full(len(op), -1, dtype=np.int64)
    return Works(
        op=op,
        event=none,
        longest=none,
        at=trace.ops.floats("ts")[index],
        thread=trace.ops.wholes("thread")[index],
        seconds=np.maximum(length[op] - inner[op], 0.0) * 1e-6,
    )


def dispatches(trace: Trace, ops: StepOps, works: Works) -> Wholes:
    """How many ops the host went through for each work, those since the work before included."""
    own = ops.index[ops.owner == np.arange(len(ops.index))]
    until = np.searchsorted(np.sort(trace.ops.floats("ts")[own]), works.at, side="right")
    return np.diff(until, prepend=0)
