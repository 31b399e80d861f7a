from __future__ import annotations

import pytest

from app.importers.text.values.layouts import degrees_said, sharding_said


@pytest.mark.parametrize(
    ("line", "sharding"),
    [
        ("trained with FSDP on 8 A100, bf16, seq 2048", "fsdp"),
        ("Strategy: FSDP2, 8x H100", "fsdp"),
        ("FSDP (ZeRO-3), 64 GPUs", "fsdp"),
        ("FSDP, SHARD_GRAD_OP, bf16", "zero3"),
        ("All runs use DeepSpeed ZeRO stage 2.", "zero2"),
        ("with ZeRO-3 and activation checkpointing", "zero3"),
        ("ZeRO 1, TP4", "zero1"),
        ("DistributedDataParallel on 4 GPUs", "ddp"),
        ("DDP. Larger models would need FSDP.", "ddp"),
        ("DDP, which is faster here than FSDP", ""),
        ("DDP, without FSDP", "ddp"),
        ("FSDP: off", ""),
        ("We compare DDP and FSDP.", ""),
        ("FSDP ran out of memory.", ""),
        ("FSDP with HYBRID_SHARD on 2 nodes", ""),
        ("after zero 3 warm-up steps", ""),
        ("see fsdp/train.py", ""),
        ("DDP vs FSDP: FSDP", ""),
    ],
)
def test_a_sentence_names_one_sharding_or_none(line, sharding):
    assert sharding_said([line]) == sharding


@pytest.mark.parametrize(
    ("line", "degrees"),
    [
        ("tensor parallel 4", {"tp": 4}),
        ("8-way tensor model parallelism, 2-way pipeline parallelism", {"tp": 8, "pp": 2}),
        ("TP=2, PP4, CP-2", {"tp": 2, "pp": 4, "cp": 2}),
        ("tp: 2 and dp = 4", {"tp": 2, "dp": 4}),
        ("data parallelism over 8 GPUs, sharded data parallel", {}),
        ("TP2 and TP4", {}),
        ("data parallel 10 steps", {}),
        ("tensor parallel 2 sequence length 2048, pipeline parallel 4 stages", {"tp": 2, "pp": 4}),
        ("without tensor parallel 4, pipeline parallel 2", {"pp": 2}),
        ("not 8-way tensor parallel", {}),
        ("http 2, step 4, tensor parallel 1.5 ms", {}),
    ],
)
def test_a_sentence_says_how_many_ranks_an_axis_has(line, degrees):
    assert degrees_said([line]) == degrees
