import sys

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel

batch, length, devices = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


class Gpt(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = GPT2LMHeadModel(GPT2Config())

    def training_step(self, pair, index):
        loss = self.net(input_ids=pair[0], labels=pair[0]).loss
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


data = DataLoader(TensorDataset(torch.randint(0, 50257, (4000, length))), batch_size=batch, shuffle=True)
pl.Trainer(
    max_steps=60,
    precision="bf16-mixed",
    devices=devices,
    accelerator="gpu",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    strategy="ddp" if devices > 1 else "auto",
    gradient_clip_val=1.0,
).fit(Gpt(), data)
