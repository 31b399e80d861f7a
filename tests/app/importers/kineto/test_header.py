from __future__ import annotations

import pytest

from app.importers.kineto.header import device, environment, ranks
from app.importers.kineto.trace_columns import CollectiveArgs, Trace


def test_ranks_in_the_order_of_trust():
    said = {"distributedInfo": {"rank": 3, "world_size": 8}}
    assert ranks(said, Trace(), "rank5.json") == (8, 3, "file")
    assert ranks({}, Trace(), "iteration_10/rank5_trace.json") == (6, 5, "name")
    assert ranks({}, Trace(collectives=[CollectiveArgs("allreduce", 1, 1, 16, "Float")]), "trace.json") == (16, 0, "")
    assert ranks({}, Trace(), "trace.json") == (1, 0, "")


@pytest.mark.parametrize(
    "said", [{"rank": 8, "world_size": 8}, {"rank": "0", "world_size": 8}, {"rank": -1}, [], None, "x"]
)
def test_ranks_that_cannot_be(said):
    assert ranks({"distributedInfo": said}, Trace(), "x") == (1, 0, "")


def test_environment_keeps_versions_and_drops_people():
    metadata = {
        "cuda_runtime_version": 12040,
        "with_stack": 1,
        "host_name": "box",
        "user": "me",
        "distributedInfo": {"backend": "nccl", "pg_config": [{"pg_size": 8, "pg_desc": "my project"}, 5]},
    }
    kept = environment(metadata)
    assert kept == {
        "cuda_runtime_version": 12040,
        "recorded": {"record_shapes": False, "with_stack": True, "profile_memory": False},
        "backend": "nccl",
        "process_group_sizes": [8],
    }


def test_no_kernels_means_the_cpu():
    assert device({"deviceProperties": [{"id": 0, "name": "NVIDIA H100"}]}, Trace()) == {"name": "cpu", "count": 1}
