"""Dims: one rank's share of widths and tokens, and how wide each number is."""

import numpy as np
import pytest

from estimator.networks.dims import dims, numbers
from estimator.plan import Plan
from estimator.training import Training
from tests.estimator.examples import GPT, LLAMA, scenario


def test_widths_are_divided_by_tp():
    d = dims(scenario({**LLAMA, "kv_heads": 4}, plan={"tp": 4, "micro_batch": 3}))
    assert (d.heads, d.query_width, d.kv_width, d.ffn) == (2, 64, 32, 176)
    assert (d.tokens, d.sequences, d.hidden) == (3 * 128, 3, 256)


def test_a_rank_holds_at_least_one_key_value_head():
    # Llama 3 405B on 16 ranks: 8 key/value heads, so that two ranks hold a copy of each.
    d = dims(scenario("llama3-405b", plan={"tp": 16}))
    assert d.kv_width == d.head_dim == 128
    assert d.query_width == 8 * 128
    spread = dims(scenario("llama3-405b", plan={"tp": 8}), tp=np.array([1.0, 8.0, 16.0, 64.0]))
    assert spread.kv_width.tolist() == [1024, 128, 128, 128]


def test_sequence_parallelism_splits_the_stream_only():
    d = dims(scenario(LLAMA, plan={"tp": 2, "sequence_parallel": True}))
    assert (d.tokens, d.stream_tokens) == (128, 64)
    assert dims(scenario(LLAMA, plan={"tp": 2})).stream_tokens == 128


@pytest.mark.parametrize(("framework", "vocab"), [("megatron", 256), ("xla", 256), ("pytorch-eager", 1024)])
def test_only_vocabulary_parallel_frameworks_split_the_vocabulary(framework, vocab):
    assert dims(scenario(LLAMA, plan={"tp": 4}, framework=framework)).vocab == vocab


def test_positions_are_learned_rows_only_where_learned():
    assert dims(scenario(GPT)).positions == 128
    assert dims(scenario({**GPT, "max_positions": 512})).positions == 512
    assert dims(scenario(LLAMA)).positions == 0


STATES = [
    # precision, framework, sharding, bytes per parameter of (parameter, gradient, both moments and master), autocast
    ("fp32", "pytorch-eager", "ddp", (4, 4, 8), False),
    ("tf32", "pytorch-compile", "fsdp", (4, 4, 8), False),
    ("bf16", "pytorch-eager", "ddp", (2, 2, 4), False),
    ("bf16-amp", "pytorch-eager", "zero1", (4, 4, 8), True),
    ("fp16-amp", "pytorch-eager", "ddp", (4, 4, 8), True),
    ("bf16-amp", "pytorch-eager", "fsdp", (4, 4, 8), False),
    # Korthikanti 2022 and Narayanan 2021 count 18 bytes: fp16 parameter, fp32 gradient, fp32 master and moments.
    ("bf16", "megatron", "ddp", (2, 4, 12), False),
    ("fp16-amp", "megatron", "zero1", (2, 4, 12), False),
    ("bf16", "xla", "fsdp", (2, 4, 12), False),
]


@pytest.mark.parametrize(("precision", "framework", "sharding", "widths", "autocast"), STATES)
def test_bytes_of_states(precision, framework, sharding, widths, autocast):
    training = Training(seq_len=1, global_batch=1, precision=precision, framework=framework)
    n = numbers(training, Plan(sharding=sharding))
    assert (n.parameter, n.gradient, n.optimizer) == widths
    assert n.autocast == autocast
    assert n.compute == (4 if precision in ("fp32", "tf32") else 2)
    assert n.residual == (4 if autocast else n.compute)
    assert n.peak == precision
