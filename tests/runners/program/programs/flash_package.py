"""A block of shared heads whose attention is that of flash_attn, or torch's of the same backend."""

import sys

import torch
from torch import nn
from torch.nn import functional

HEADS, SHARED, WIDTH, TOKENS = 8, 2, 64, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(512, (HEADS + 2 * SHARED) * WIDTH, bias=False)
        self.out = nn.Linear(HEADS * WIDTH, 512, bias=False)

    def forward(self, x):
        q, k, v = self.qkv(x).view(2, TOKENS, -1, WIDTH).split((HEADS, SHARED, SHARED), 2)
        if sys.argv[1] == "package":
            from flash_attn import flash_attn_func

            out = flash_attn_func(q, k, v, dropout_p=0.1, causal=True)
        else:
            q, k, v = (one.transpose(1, 2) for one in (q, k, v))
            out = functional.scaled_dot_product_attention(q, k, v, None, 0.1, is_causal=True, enable_gqa=True)
            out = out.transpose(1, 2)
        return x + self.out(out.flatten(2))


torch.backends.cuda.enable_cudnn_sdp(False)
model = nn.Sequential(Block(), Block()).to("cuda", torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(3):
    x = torch.randn(2, TOKENS, 512, device="cuda", dtype=torch.bfloat16)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
