"""The measured transformer has the shape that the estimator prices and computes what its name says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from estimator.scenario import catalog
from estimator.scenario.model import Model
from estimator.scenario.parameters import linear_parameters_per_layer, parameters
from estimator.scenario.plan import Plan
from estimator.scenario.training import Training
from runners.model import layers as layers
from runners.model import training as trained
from runners.model import transformer as measured
from runners.model.attention import rotate
from runners.model.experts import Experts
from runners.refusals import model_refusals

CS336 = [
    (768, 3072, 12, 12, 128_625_408),
    (1024, 4096, 24, 16, 423_183_360),
    (1280, 5120, 36, 20, 969_411_840),
    (1600, 6400, 48, 25, 1_998_235_200),
    (2560, 10240, 32, 32, 3_406_809_600),
]
LLAMA = Model(layers=2, hidden=64, heads=4, kv_heads=2, ffn=128, vocab=97)
GPT2 = Model(
    layers=2,
    hidden=64,
    heads=4,
    ffn=256,
    vocab=97,
    gated_ffn=False,
    activation="gelu-tanh",
    norm="layer",
    position="learned",
    bias=True,
    tied_embedding=True,
)
SHAPES = {
    "llama": LLAMA,
    "gpt2": GPT2,
    "qwen": Model(layers=2, hidden=64, heads=4, kv_heads=1, head_dim=24, ffn=96, vocab=97, qk_norm=True, qkv_bias=True),
    "alibi": Model(layers=2, hidden=64, heads=4, ffn=96, vocab=97, position="alibi", activation="gelu"),
    "bare": Model(layers=2, hidden=64, heads=4, ffn=96, vocab=97, position="none", gated_ffn=False, activation="relu"),
    "biased": Model(layers=2, hidden=64, heads=4, ffn=96, vocab=97, bias=True, max_positions=50, position="learned"),
}


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def gradients(model: Model, recompute: str = "none", **training: Any) -> tuple[float, list[Tensor]]:
    chosen = Training(seq_len=32, global_batch=2, **{"precision": "fp32", **training})
    plan = Plan(micro_batch=2, recompute=recompute)
    torch.manual_seed(3)
    module = measured.build(model, chosen, plan, "cpu")
    tokens, targets = trained.batch(model, chosen, plan, "cpu")
    with trained.autocast(chosen, "cpu"):
        loss = trained.loss_of(module, tokens, targets)
    torch.autograd.backward(loss)
    return float(loss.detach()), [p.grad.float() for p in module.parameters() if p.grad is not None]


def saved_bytes(model: Model, training: Training) -> int:
    """Bytes of all storages but parameters that autograd keeps from forward to backward."""
    plan = Plan(micro_batch=2)
    module = measured.build(model, training, plan, "cpu")
    tokens, targets = trained.batch(model, training, plan, "cpu")
    own = {parameter.untyped_storage().data_ptr() for parameter in module.parameters()}
    kept: list[Tensor] = []
    with (
        torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t) or t, lambda t: t),
        trained.autocast(training, "cpu"),
    ):
        trained.loss_of(module, tokens, targets)
    sizes = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    return sum(size for pointer, size in sizes.items() if pointer not in own)


@pytest.fixture
def nothing_drawn(monkeypatch):
    """Of a model on ``meta`` that is only counted no weight is drawn, which takes most of the time to build it."""
    monkeypatch.setattr(nn.init, "normal_", lambda weight, **_: weight)


@pytest.mark.usefixtures("nothing_drawn")
@pytest.mark.parametrize(("hidden", "ffn", "layers", "heads", "expected"), CS336)
def test_cs336_sizes_have_the_published_parameters(hidden, ffn, layers, heads, expected):
    model = Model(layers=layers, hidden=hidden, heads=heads, ffn=ffn, vocab=10_000)
    training = Training(seq_len=256, global_batch=1)
    assert count(measured.build(model, training, Plan(), "meta")) == parameters(model) == expected


@pytest.mark.usefixtures("nothing_drawn")
@pytest.mark.parametrize("key", [e.key for e in catalog.entries("models") if not model_refusals(e.value)])
def test_every_catalogue_model_is_built_with_the_estimators_parameters(key):
    model = catalog.model(key)
    model = replace(model, layers=min(model.layers, model.dense_layers + 1)) if model.experts else model
    training = Training(seq_len=128, global_batch=1)
    assert count(measured.build(model, training, Plan(), "meta")) == parameters(model, 128)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_weights_are_drawn_once_and_what_is_drawn_needs_no_stack_of_its_caller(monkeypatch, device):
    drawn: list[Tensor] = []
    normal = nn.init.normal_
    monkeypatch.setattr(nn.init, "normal_", lambda weight, **given: drawn.append(weight) or normal(weight, **given))
    monkeypatch.delattr(nn.init, "kaiming_uniform_")
    monkeypatch.delattr(torch.cuda, "manual_seed_all")  # which would keep one while no GPU is in use
    model = replace(GPT2, experts=2, top_k=1, moe_ffn=32)
    module = measured.build(model, Training(seq_len=32, global_batch=2), Plan(), device)
    matrices = [tuple(parameter.shape) for parameter in module.parameters() if parameter.dim() == 2]
    tied = (model.vocab, model.hidden)
    assert sorted(tuple(weight.shape) for weight in drawn) == sorted([*matrices, tied])


@pytest.mark.parametrize("name", SHAPES)
def test_every_variant_has_the_estimators_parameters_and_gradients_for_all_of_them(name):
    model = SHAPES[name]
    _, found = gradients(model)
    assert sum(gradient.numel() for gradient in found) == parameters(model, 32)
    # The rows of positions that were never reached have none
    assert all(gradient.abs().sum() > 0 for gradient in found)


@pytest.mark.parametrize("name", SHAPES)
def test_eager_and_fused_attention_compute_the_same(name):
    eager_loss, eager = gradients(SHAPES[name], attention="eager")
    loss, fused = gradients(SHAPES[name], attention="sdpa")
    assert loss == pytest.approx(eager_loss, rel=1e-5)
    for one, other in zip(eager, fused, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_flash_computes_the_same_as_eager():
    eager_loss, _ = gradients(LLAMA, attention="eager")
    assert gradients(LLAMA, attention="flash")[0] == pytest.approx(eager_loss, rel=1e-5)


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recompute_changes_no_gradient(attention, recompute):
    _, plain = gradients(LLAMA, attention=attention)
    _, again = gradients(LLAMA, recompute, attention=attention)
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("precision", ["tf32", "fp16-amp", "bf16-amp", "bf16"])
def test_lower_precisions_stay_near_fp32(precision):
    exact, _ = gradients(LLAMA)
    assert gradients(LLAMA, precision=precision)[0] == pytest.approx(exact, rel=1e-2)


def test_parameters_are_bf16_only_for_pure_bf16():
    for precision, dtype in (("bf16", torch.bfloat16), ("bf16-amp", torch.float32), ("fp32", torch.float32)):
        module = measured.build(LLAMA, Training(seq_len=8, global_batch=1, precision=precision), Plan(), "meta")
        assert {parameter.dtype for parameter in module.parameters()} == {dtype}


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("name", SHAPES)
def test_no_token_sees_a_later_one(name, attention):
    model, training = SHAPES[name], Training(seq_len=16, global_batch=1, precision="fp32", attention=attention)
    torch.manual_seed(0)
    module = measured.build(model, training, Plan(), "cpu")
    tokens, _ = trained.batch(model, training, Plan(), "cpu")
    changed = tokens.clone()
    changed[0, 9] = (changed[0, 9] + 1) % model.vocab
    with torch.no_grad():
        before, after = module(tokens), module(changed)
    torch.testing.assert_close(before[:, :9], after[:, :9])
    assert not torch.allclose(before[:, 9:], after[:, 9:])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_dropout_draws_anew_in_every_step(attention):
    training = Training(seq_len=32, global_batch=2, precision="fp32", attention=attention, dropout=0.5)
    torch.manual_seed(0)
    module = measured.build(GPT2, training, Plan(micro_batch=2), "cpu")
    tokens, targets = trained.batch(GPT2, training, Plan(micro_batch=2), "cpu")
    with torch.no_grad():
        losses = {float(trained.loss_of(module, tokens, targets)) for _ in range(3)}
    assert len(losses) == 3


def test_rms_norm_and_gelu_equal_torchs_own():
    x = torch.randn(3, 5, 16)
    norm = layers.RMSNorm(16, {"device": "cpu", "dtype": torch.float32})
    torch.testing.assert_close(norm(x), F.rms_norm(x, (16,), norm.weight, 1e-6))
    torch.testing.assert_close(measured.gelu_tanh(x), F.gelu(x, approximate="tanh"))


def test_rotated_products_depend_on_distance_only():
    module = measured.build(LLAMA, Training(seq_len=16, global_batch=1, precision="fp32"), Plan(), "cpu")
    cos, sin = module.rotary(torch.zeros(1, 16, 64), 16)
    q, k = torch.randn(16), torch.randn(16)
    rotated_q, rotated_k = rotate(q.expand(16, 16), cos, sin), rotate(k.expand(16, 16), cos, sin)
    products = rotated_q @ rotated_k.T
    torch.testing.assert_close(products[5, 3], products[12, 10])
    torch.testing.assert_close(products[7, 7], q @ k)


def test_rotary_tables_are_fp32_under_autocast_and_bf16_in_pure_bf16():
    for precision, dtype in (("bf16-amp", torch.float32), ("bf16", torch.bfloat16)):
        training = Training(seq_len=8, global_batch=1, precision=precision)
        module = measured.build(LLAMA, training, Plan(), "cpu")
        with trained.autocast(training, "cpu"):
            hidden = module.embedding(torch.zeros(1, 8, dtype=torch.long))
            assert module.rotary(hidden, 8)[0].dtype == dtype


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_flops_are_those_of_the_matrices_and_the_full_score_square(name):
    model, training = SHAPES[name], Training(seq_len=32, global_batch=2, precision="fp32", attention="eager")
    plan = Plan(micro_batch=2)
    module = measured.build(model, training, plan, "cpu")
    tokens, targets = trained.batch(model, training, plan, "cpu")
    with FlopCounterMode(display=False) as counter:
        torch.autograd.backward(trained.loss_of(module, tokens, targets))
    ffn = (3 if model.gated_ffn else 2) * model.hidden * model.ffn
    matrices = model.layers * (model.hidden * (2 * model.query_width + 2 * model.kv_width) + ffn)
    square = 2 * 2 * model.layers * model.heads * 32 * 32 * model.dim * 2
    assert counter.get_total_flops() == 3 * (2 * 64 * (matrices + model.vocab * model.hidden) + square)


def test_loss_keeps_no_logits():
    training = Training(seq_len=16, global_batch=2, precision="fp32")
    plan = Plan(micro_batch=2)
    module = measured.build(LLAMA, training, plan, "cpu")
    tokens, targets = trained.batch(LLAMA, training, plan, "cpu")
    saved: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        trained.loss_of(module, tokens, targets)
    # Only the log-probabilities are kept, not the logits beside them
    assert len({t.data_ptr() for t in saved if t.numel() == 2 * 16 * LLAMA.vocab}) == 1


@pytest.mark.parametrize(
    ("name", "precision", "bytes_per_token"),
    [("llama", "bf16", 16), ("llama", "bf16-amp", 26), ("llama", "fp32", 24), ("gpt2", "bf16-amp", 12)],
)
def test_what_a_block_keeps_for_backward_is_what_eager_models_keep(name, precision, bytes_per_token):
    """Bytes per token and unit of width beside attention's own and the feed-forward's."""
    model, training = SHAPES[name], Training(seq_len=32, global_batch=2, precision=precision, attention="sdpa")
    kept = {layers: saved_bytes(replace(model, layers=layers), training) for layers in (1, 2)}
    compute = 4 if precision == "fp32" else 2
    tokens, weights = 64, 0
    if precision == "bf16-amp":
        weights = 2 * linear_parameters_per_layer(model)
    attention = compute * tokens * 2 * (model.query_width + model.kv_width) + 4 * 2 * model.heads * 32
    # Four tensors of a gated network; what the five steps of GPT-2's GELU keep in fp32, and its two bf16 neighbours
    ffn = (4 * compute if model.gated_ffn else 16) * tokens * model.ffn
    rest = kept[2] - kept[1] - weights - attention - ffn
    assert rest / (tokens * model.hidden) == pytest.approx(bytes_per_token, abs=0.5)


def test_optimizers_are_torchs_own():
    module = measured.build(LLAMA, Training(seq_len=8, global_batch=1, precision="fp32"), Plan(), "cpu")
    for name, cls in (("adamw", torch.optim.AdamW), ("sgd", torch.optim.SGD)):
        training = Training(seq_len=8, global_batch=1, optimizer=name)
        assert type(trained.optimizer_of(module, training)) is cls


EXPERTS = replace(LLAMA, layers=3, experts=4, top_k=2, moe_ffn=24, shared_experts=2, dense_layers=1, router_bias=True)
GATED = replace(EXPERTS, dense_layers=0, moe_every=2, shared_expert_gate=True, shared_experts=1)
LATENT = Model(
    layers=2,
    hidden=64,
    heads=4,
    head_dim=24,
    ffn=96,
    vocab=97,
    kv_lora_rank=16,
    q_lora_rank=12,
    qk_rope_head_dim=8,
    v_head_dim=20,
    bias=True,
)
SPECIAL = {"experts": EXPERTS, "gated": GATED, "latent": LATENT, "latent keys": replace(LATENT, q_lora_rank=0)}


@pytest.mark.parametrize("name", SPECIAL)
def test_experts_and_latents_have_the_estimators_parameters_and_train_them_all(name):
    model = SPECIAL[name]
    _, found = gradients(model)
    assert sum(gradient.numel() for gradient in found) == parameters(model, 32)
    assert all(gradient.abs().sum() > 0 for gradient in found)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "bf16-amp"])
def test_grouped_products_are_the_experts_one_by_one(precision):
    training = Training(seq_len=16, global_batch=1, precision=precision)
    losses, sizes = [], []
    for way in ("loop", "grouped"):
        torch.manual_seed(0)
        share = measured.Share(blocks=range(EXPERTS.layers), way=way)
        module = measured.build(EXPERTS, training, Plan(), "cpu", share)
        torch.manual_seed(1)
        with trained.autocast(training, "cpu"):
            loss = trained.loss_of(module, *trained.batch(EXPERTS, training, Plan(), "cpu"))
        torch.autograd.backward(loss)
        losses.append(float(loss.detach()))
        sizes.append([p.grad.abs().sum().item() for p in module.blocks["1"].attention.parameters()])
    assert losses[1] == pytest.approx(losses[0], rel=1e-6 if precision == "fp32" else 1e-2)
    if precision == "fp32":
        assert sizes[1] == pytest.approx(sizes[0], rel=1e-4)


def test_a_token_gets_its_experts_by_the_weights_that_its_router_gives():
    """Every expert over every token, weighed by the normed probabilities of the chosen ones."""
    torch.manual_seed(0)
    factory = {"device": "cpu", "dtype": torch.float32}
    experts = Experts(EXPERTS, "loop", range(4), F.silu, factory, seed=3)
    x = torch.randn(2, 5, 64)
    chances = F.softmax(experts.router(x), dim=-1)
    best, chosen = chances.topk(2, dim=-1)
    weights = torch.zeros_like(chances).scatter(-1, chosen, best / best.sum(-1, keepdim=True))
    expected = torch.zeros_like(x)
    for index in range(4):
        gate, up = (x @ experts.up[index]).chunk(2, dim=-1)
        expected += weights[..., index : index + 1] * ((F.silu(gate) * up) @ experts.down[index])
    torch.testing.assert_close(experts(x), expected)


@pytest.mark.parametrize("way", ["loop", "grouped"])
def test_experts_that_stayed_wide_take_narrow_rows_and_train_in_their_own_width(way):
    """Under FSDP2 in bf16, experts that no other rank has are not sharded, so that nothing narrows them."""
    factory = {"device": torch.device("cpu"), "dtype": torch.float32}
    experts = Experts(EXPERTS, way, range(4), F.silu, factory, seed=3)
    experts.router.to(torch.bfloat16)
    found = experts(torch.randn(2, 8, EXPERTS.hidden, dtype=torch.bfloat16))
    assert found.dtype == torch.bfloat16
    found.float().sum().backward()
    weights = [weight for name, weight in experts.named_parameters() if not name.startswith("router")]
    assert all(weight.grad is not None and weight.grad.dtype == torch.float32 for weight in weights)


def test_latent_attention_is_attention_of_what_its_latents_say():
    torch.manual_seed(0)
    training = Training(seq_len=8, global_batch=1, precision="fp32", attention="eager")
    module = measured.build(LATENT, training, Plan(), "cpu")
    part = module.blocks["0"].attention
    x = torch.randn(1, 8, 64)
    cos, sin = module.rotary(x, 8)
    q = part.q_up(part.q_norm(part.q_down(x))).view(1, 8, 4, 24).transpose(1, 2)
    latent, key = part.kv_down(x).split((16, 8), dim=-1)
    kv = part.kv_up(part.kv_norm(latent)).view(1, 8, 4, 36).transpose(1, 2)
    key = rotate(key, cos, sin)
    outputs = []
    for head in range(4):
        queries = torch.cat((q[0, head, :, :16], rotate(q[0, head, :, 16:], cos, sin)), dim=-1)
        keys = torch.cat((kv[0, head, :, :16], key[0]), dim=-1)
        outputs.append(
            F.scaled_dot_product_attention(queries[None], keys[None], kv[0, head, :, 16:][None], is_causal=True)
        )
    expected = part.o(torch.cat(outputs, dim=-1))
    torch.testing.assert_close(part(x, (cos, sin), module.score_bias(x, 8)), expected)


@pytest.mark.parametrize("name", ["experts", "latent"])
@pytest.mark.parametrize("recompute", ["selective", "full"])
def test_recomputing_experts_and_latents_changes_no_gradient(name, recompute):
    _, plain = gradients(SPECIAL[name])
    _, again = gradients(SPECIAL[name], recompute)
    for one, other in zip(plain, again, strict=True):
        torch.testing.assert_close(one, other)


def test_a_share_is_the_same_part_of_the_whole_on_whichever_rank_it_lies():
    training = Training(seq_len=8, global_batch=1, precision="fp32")

    def values(share=None):
        torch.manual_seed(5)
        return dict(measured.build(EXPERTS, training, Plan(), "cpu", share).named_parameters())

    whole = values()
    last = values(measured.Share(blocks=range(2, 3), embedding=False, experts=1, of=2))
    for name, value in last.items():
        words = name.split(".")
        if words[-2] in ("up", "down") and words[-1].isdigit():
            name = ".".join([*words[:-1], str(int(words[-1]) + 2)])
        assert torch.equal(value, whole[name]), name
