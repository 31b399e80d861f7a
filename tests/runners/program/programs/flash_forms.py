"""What flash_attn has beside its plain attention: packed tensors and sequences, rotary embedding, norms, the loss."""

import importlib.util

import torch
from torch import nn

assert importlib.util.find_spec("flash_attn") is None, "who asks is told that it is not installed"

from flash_attn import (  # noqa: E402
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
)
from flash_attn.bert_padding import pad_input, unpad_input  # noqa: E402
from flash_attn.layers.rotary import RotaryEmbedding, apply_rotary_emb  # noqa: E402
from flash_attn.losses.cross_entropy import CrossEntropyLoss  # noqa: E402
from flash_attn.ops.triton.layer_norm import RMSNorm, layer_norm_fn  # noqa: E402


def attended(kind, qkv, starts):
    q, k, v = qkv.unbind(2)
    if kind == "packed":
        return flash_attn_qkvpacked_func(qkv, causal=True)
    if kind == "window":
        return flash_attn_kvpacked_func(q, qkv[:, :, 1:], window_size=(64, 0))
    if kind == "sums":
        out, sums, chances = flash_attn_func(q, k, v, return_attn_probs=True)
        assert (sums.shape, chances.shape) == ((1, 2, 1024), (0,))
        return out
    if kind == "narrow":
        return torch.cat((flash_attn_func(q[..., :60], k[..., :60], v[..., :60]), q[..., 60:]), -1)
    longest = starts.diff().max()
    return flash_attn_varlen_func(q[0], k[0], v[0], starts, starts, longest, longest, causal=True)[None]


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.norm = RMSNorm(128)
        self.qkv = nn.Linear(128, 3 * 128)
        self.turn = RotaryEmbedding(64)

    def forward(self, x, residual, starts):
        x, residual = self.norm(x, residual, prenorm=True)
        qkv = self.turn(self.qkv(x).view(1, 1024, 3, 2, 64))
        return attended(self.kind, qkv, starts).flatten(2), residual


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(map(Block, ("packed", "window", "sums", "narrow", "several")))
        self.norm = nn.LayerNorm(128)

    def forward(self, x, mask):
        starts = torch.tensor((0, 100, 400, 1024), dtype=torch.int32, device="cuda")
        residual = None
        for block in self.blocks:
            x, residual = block(x, residual, starts)
        x = layer_norm_fn(x, self.norm.weight, self.norm.bias, residual)
        angles = torch.ones(1024, 32, device="cuda", dtype=x.dtype)
        x = apply_rotary_emb(x[:, :, None], angles, angles)[:, :, 0]
        rows, places, *_ = unpad_input(x, mask)
        return pad_input(rows, places, 1, 1024)


model = Model().to("cuda", torch.bfloat16)
loss = CrossEntropyLoss(inplace_backward=True)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
for _ in range(3):
    x = torch.randn(1, 1024, 128, device="cuda", dtype=torch.bfloat16)
    mask = torch.ones(1, 1024, dtype=torch.int32).cuda()
    loss(model(x, mask)[0], torch.zeros(1024, dtype=torch.int64).cuda()).backward()
    assert all(one.grad.shape == one.shape for one in model.parameters())
    optimizer.step()
    optimizer.zero_grad()
