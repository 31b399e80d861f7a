"""Recorded collectives: what an op's name and tensors say of its exchange."""

from __future__ import annotations

import pytest

from estimator.communication.recorded import exchange_of, kind_of
from estimator.scenario.op_list import Operand, Signature


def tensor(count, dtype="bfloat16"):
    return Operand(shape=(count,), dtype=dtype)


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("c10d::allreduce_", "all-reduce"),
        ("c10d::_allgather_base_", "all-gather"),
        ("c10d::_reduce_scatter_base_", "reduce-scatter"),
        ("_c10d_functional::all_gather_into_tensor", "all-gather"),
        ("_c10d_functional::reduce_scatter_tensor", "reduce-scatter"),
        ("_c10d_functional::all_reduce", "all-reduce"),
        ("c10d::alltoall_base_", "all-to-all"),
        ("c10d::broadcast_", "all-gather"),
        ("c10d::send", "p2p"),
        ("c10d::recv_", "p2p"),
        ("c10d::barrier", "all-reduce"),
        ("mylib::mix", "all-reduce"),
    ],
)
def test_names(op, kind):
    assert kind_of(op) == kind


def exchange(op, given, made, **arguments):
    signature = Signature(op=op, inputs=given, outputs=made, arguments=arguments)
    return exchange_of(signature, (tuple(range(0, 16, 2)),), rank=2, chips_per_node=8, world=16)


def test_the_payload_is_the_whole_tensor_of_a_gather_and_a_ranks_own_of_a_sum():
    assert exchange("c10d::_allgather_base_", (tensor(100),), (tensor(800),)).payload_bytes == 1600
    assert exchange("c10d::_reduce_scatter_base_", (tensor(800),), (tensor(100),)).payload_bytes == 1600
    assert exchange("c10d::allreduce_", (tensor(100), tensor(20)), ()).payload_bytes == 240
    assert exchange("c10d::recv_", (), (tensor(100, "float32"),)).payload_bytes == 400


def test_a_group_is_known_by_its_index_and_parted_by_nodes():
    group = exchange("c10d::allreduce_", (tensor(1),), (), group=0).group
    assert (group.ranks, group.ranks_per_node) == (8, 4)
    everybody = exchange("c10d::allreduce_", (tensor(1),), ()).group
    assert (everybody.ranks, everybody.ranks_per_node) == (16, 8)
