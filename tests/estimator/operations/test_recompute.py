"""Recomputation: what runs again in backward, where each framework stops, and what is still kept."""

from __future__ import annotations

import pytest

from estimator.operations.op import Op
from estimator.operations.rank_sizes import rank_sizes
from estimator.operations.transformer import network
from tests.estimator.examples import LLAMA, scenario
from tests.estimator.operations.shapes import ATTENTION, DEEPSEEK, FFN, MIXTRAL, blocks_of, flops, kept, named


def layer_of(recompute: str, *, model=LLAMA, framework="pytorch-eager", attention="eager") -> tuple[Op, ...]:
    one = scenario(model, plan={"recompute": recompute}, framework=framework, attention=attention)
    (block,) = network(rank_sizes(one)).blocks
    return block.ops


@pytest.mark.parametrize("framework", ["pytorch-eager", "megatron"])
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_recomputation_adds_to_backward_only_and_keeps_less(framework, attention):
    none, selective, full = (
        layer_of(recompute, framework=framework, attention=attention) for recompute in ("none", "selective", "full")
    )
    assert flops(none, "forward") == flops(selective, "forward") == flops(full, "forward")
    assert flops(none, "backward") < flops(selective, "backward") < flops(full, "backward")
    assert kept(full) < kept(selective) < kept(none)
    assert kept(full) == 128 * 256 * 2


def test_full_recomputation_runs_forward_again():
    none, full = layer_of("none", framework="megatron"), layer_of("full", framework="megatron")
    assert flops(full, "backward") - flops(none, "backward") == flops(none, "forward")


def test_a_region_packs_what_its_ops_save_whichever_of_them_run_again():
    full, by_op = (
        sum(op.packed * op.count for op in layer_of(recompute, framework="torchtitan", attention="sdpa"))
        for recompute in ("full", "selective")
    )
    assert by_op == full > 0


def test_pytorchs_checkpoint_stops_once_nothing_more_is_needed():
    none, full = layer_of("none"), layer_of("full")
    down = 2 * 128 * 704 * 256
    assert flops(full, "backward") - flops(none, "backward") == flops(none, "forward") - down


def again(model, recompute="full", **training):
    return {
        name: [op.name for op in block.ops if op.recomputed]
        for name, block in blocks_of(model, {"recompute": recompute}, **training).items()
    }


def test_full_recomputation_of_experts_repeats_router_and_experts():
    for block in blocks_of(DEEPSEEK, {"recompute": "full"}).values():
        assert flops(block.ops, "backward") - flops(block.plain, "backward") == flops(block.plain, "forward")
        assert kept(block.ops) == 128 * 256 * 2
    (ops,) = again(MIXTRAL).values()
    assert {"router", "expert permutation", "expert gate, up projections", "expert down projection"} <= set(ops)


def test_pytorchs_checkpoint_of_experts_stops_after_the_last_kept_tensor():
    (mixtral,) = again(MIXTRAL, framework="pytorch-eager").values()
    assert "expert down projection" in mixtral
    assert not {"expert combine", "ffn residual"} & set(mixtral)
    shared = again(DEEPSEEK, framework="pytorch-eager")["expert layer"]
    assert "expert combine" in shared
    assert "shared down projection" not in shared


def test_selective_recomputation_touches_the_core_only():
    for model in (MIXTRAL, DEEPSEEK, ATTENTION):
        for names in again(model, "selective", attention="eager").values():
            assert set(names) == {"scores", "softmax", "values", "head copies"}
    assert again(FFN, "selective") == {"layer": []}


@pytest.mark.parametrize("cp_kind", ["ulysses", "all-gather"])
def test_a_core_of_pieces_that_runs_again_keeps_its_output_once(cp_kind):
    def kept_of(cp: int, recompute: str) -> float:
        plan = {"cp": cp, "cp_kind": cp_kind, "recompute": recompute}
        found = network(rank_sizes(scenario(LLAMA, plan=plan, attention="sdpa", seq_len=512)))
        return float(kept(found.blocks[0].ops))

    # Half of the tokens keep half, and where nothing runs again attention's own output beside what the exchange made.
    assert kept_of(2, "selective") == kept_of(1, "selective") / 2
    assert kept_of(2, "none") > kept_of(1, "none") / 2


@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_bare_stacks_keep_less_when_they_recompute(recompute):
    for model in (ATTENTION, FFN):
        (block,) = blocks_of(model, {"recompute": recompute}, attention="eager").values()
        assert kept(block.ops) <= kept(block.plain)


def test_copies_of_weights_are_not_made_again():
    (block,) = blocks_of(MIXTRAL, {"recompute": "full"}, precision="fp8").values()
    assert "qkv projection weight quantisation" in named(block.plain)
    assert not [op.name for op in block.ops if op.recomputed and op.name.endswith("weight quantisation")]
