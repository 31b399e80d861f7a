"""Two layers as GPT-2's, under autocast to bf16, with dropout, clipping and a fused AdamW: what gpt2.json is traced from.

python -m runners trace tests/reference/ops/gpt2.py --chip h200-sxm --out tests/reference/ops/gpt2.json
"""

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HIDDEN, HEADS, VOCAB, BATCH, SEQUENCE = 2, 768, 12, 50304, 4, 1024


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.c_attn, self.c_proj = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.mlp = nn.Sequential(
            nn.Linear(HIDDEN, 4 * HIDDEN), nn.GELU(approximate="tanh"), nn.Linear(4 * HIDDEN, HIDDEN), nn.Dropout(0.1)
        )
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.c_attn(self.ln_1(x)).chunk(3, dim=-1))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.dropout(self.c_proj(found.transpose(1, 2).flatten(2)))
        return x + self.mlp(self.ln_2(x))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQUENCE, HIDDEN)
        self.dropout = nn.Dropout(0.1)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(HIDDEN)
        self.lm_head = nn.Linear(HIDDEN, VOCAB, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.dropout(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


if __name__ == "__main__":
    model = GPT2().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = torch.utils.data.TensorDataset(torch.randint(0, VOCAB, (64, SEQUENCE + 1)))
    for (batch,) in torch.utils.data.DataLoader(data, batch_size=BATCH, num_workers=2, pin_memory=True):
        batch = batch.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"{loss.item():.4f}")
