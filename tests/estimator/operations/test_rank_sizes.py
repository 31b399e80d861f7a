"""Dims: one rank's share of widths and tokens, and how wide each number is."""

import numpy as np
import pytest

from estimator.operations.rank_sizes import rank_sizes
from estimator.scenario.grid_shape import grid_of
from tests.estimator.examples import GPT, LLAMA, scenario
from tests.estimator.operations.shapes import DEEPSEEK, dims_of


def test_widths_are_divided_by_tp():
    d = rank_sizes(scenario({**LLAMA, "kv_heads": 4}, plan={"tp": 4, "micro_batch": 3}))
    assert (d.heads, d.query_width, d.kv_width, d.ffn) == (2, 64, 32, 176)
    assert (d.tokens, d.sequences, d.hidden) == (3 * 128, 3, 256)


def test_a_rank_holds_at_least_one_key_value_head():
    # Llama 3 405B on 16 ranks: 8 key/value heads, so that two ranks hold a copy of each.
    d = rank_sizes(scenario("llama3-405b", plan={"tp": 16}))
    assert d.kv_width == d.head_dim == 128
    assert d.query_width == 8 * 128
    spread = rank_sizes(scenario("llama3-405b", plan={"tp": 8}), tp=np.array([1.0, 8.0, 16.0, 64.0]))
    assert spread.kv_width.tolist() == [1024, 128, 128, 128]


def test_sequence_parallelism_splits_the_stream_only():
    d = rank_sizes(scenario(LLAMA, plan={"tp": 2, "sequence_parallel": True}))
    assert (d.tokens, d.stream_tokens) == (128, 64)
    assert rank_sizes(scenario(LLAMA, plan={"tp": 2})).stream_tokens == 128


@pytest.mark.parametrize(("framework", "vocab"), [("megatron", 256), ("xla", 256), ("pytorch-eager", 1024)])
def test_only_vocabulary_parallel_frameworks_split_the_vocabulary(framework, vocab):
    assert rank_sizes(scenario(LLAMA, plan={"tp": 4}, framework=framework)).vocab == vocab


def test_positions_are_learned_rows_only_where_learned():
    assert rank_sizes(scenario(GPT)).positions == 128
    assert rank_sizes(scenario({**GPT, "max_positions": 512})).positions == 512
    assert rank_sizes(scenario(LLAMA)).positions == 0


def test_context_parallelism_splits_tokens_and_nothing_else():
    d = dims_of(LLAMA, {"cp": 4})
    assert (d.tokens, d.stream_tokens, d.seq_len, d.heads, d.query_width) == (32, 32, 128, 8, 256)
    assert d.scores == 8 * 128 * 128 / 4


GRIDS = [("2d", 4, 1, 2, 2), ("2d", 64, 1, 8, 8), ("2.5d", 8, 2, 2, 4), ("2.5d", 48, 3, 4, 12), ("3d", 8, 1, 2, 4),
         ("3d", 64, 1, 4, 16)]  # fmt: skip


@pytest.mark.parametrize(("kind", "tp", "depth", "side", "rows"), GRIDS)
def test_a_grid_splits_rows_and_columns_of_every_tensor(kind, tp, depth, side, rows):
    d = dims_of({**LLAMA, "kv_heads": 8}, {"tp": tp, "tp_kind": kind, "tp_depth": depth, "micro_batch": rows})
    assert d.grid_side == side
    assert (d.hidden_width, d.query_width, d.ffn, d.vocab) == (256 / side, 256 / side, 704 / side, 1024 / side)
    assert d.tokens == rows * 128 / rows
    assert d.sequences == 1
    assert d.tokens * d.hidden_width == d.stream_tokens * d.hidden == rows * 128 * 256 / tp


def test_the_side_of_a_grid_is_whole_for_arrays_too():
    assert grid_of("3d", np.array([1.0, 8.0, 27.0, 64.0, 125.0, 512.0]), 1).tolist() == [1, 2, 3, 4, 5, 8]
    assert [grid_of("3d", n**3, 1) for n in range(1, 30)] == list(range(1, 30))
    assert [grid_of("2.5d", 3 * n * n, 3) for n in range(1, 30)] == list(range(1, 30))


def test_latent_attention_has_keys_and_values_of_different_widths():
    d = dims_of(DEEPSEEK, {"tp": 4})
    assert (d.key_width, d.value_width, d.kv_width, d.core_width) == (4 * 48, 4 * 32, 4 * 40, 4 * 32)


def test_experts_are_divided_by_their_own_degrees():
    d = dims_of(DEEPSEEK, {"tp": 4, "ep": 8, "expert_tp": 2})
    assert (d.local_experts, d.expert_ffn, d.shared_ffn, d.routed_tokens) == (2, 48, 48, 32)
