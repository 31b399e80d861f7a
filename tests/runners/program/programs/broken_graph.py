"""A compiled step under autocast: two layers share a mask, products follow, a line is logged before the loss.

As transformers turn a part of each head and leave the rest, what a layer makes is joined to a part of no size.
"""

import logging

import torch
import torch.nn.functional as F
from torch import nn

TOKENS, WIDTH, WORDS = 64, 64, 512


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(WORDS, WIDTH), nn.Linear(WIDTH, WORDS, bias=False)
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, tokens):
        x = self.words(tokens)[:, None]
        mask = torch.ones(len(tokens), 1, TOKENS, TOKENS, dtype=torch.bool, device=x.device).tril()
        for layer in self.layers:
            y = layer(x)
            y = torch.cat((y, y[..., WIDTH:]), dim=-1)
            x = x + F.scaled_dot_product_attention(y, y, y, attn_mask=mask)
        with torch.autocast("cuda", enabled=False):
            x = x @ x.mT @ x
        logits = self.head(x[:, 0])
        logging.getLogger("program").debug("before the loss")
        return logits, F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
step = torch.compile(model)
for _ in range(4):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits, loss = step(torch.randint(WORDS, (2, TOKENS), device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
