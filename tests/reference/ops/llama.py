"""Two layers as Llama's, in bf16, with AdamW: what llama.json is traced from.

python -m runners trace tests/reference/ops/llama.py --chip h200-sxm --out tests/reference/ops/llama.json
"""

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB, BATCH, SEQUENCE = 2, 1024, 16, 4, 2816, 32000, 2, 1024
WIDE = HIDDEN // HEADS


def rotate(x, cos, sin):
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k = nn.Linear(HIDDEN, KV_HEADS * WIDE, bias=False)
        self.v = nn.Linear(HIDDEN, KV_HEADS * WIDE, bias=False)
        self.o = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        q, k, v = (f(x).unflatten(-1, (-1, WIDE)).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o(found.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(HIDDEN, FFN, bias=False)
        self.up = nn.Linear(HIDDEN, FFN, bias=False)
        self.down = nn.Linear(FFN, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.attention = Norm(), Attention()
        self.mlp_norm, self.mlp = Norm(), FeedForward()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.mlp_norm(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, HIDDEN)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = Norm()
        self.head = nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens):
        angles = torch.arange(tokens.shape[1], device=tokens.device)[:, None] / 10000 ** (
            torch.arange(0, WIDE, 2, device=tokens.device) / WIDE
        )
        angles = torch.cat((angles, angles), dim=-1)
        x = self.embedding(tokens)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))


if __name__ == "__main__":
    model = Llama().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(10):
        tokens = torch.randint(0, VOCAB, (BATCH, SEQUENCE + 1), device="cuda")
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
