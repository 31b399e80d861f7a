"""A training loop that loads its samples with as many workers as it is told, compiled, of which the loss is not all."""

import sys

import torch
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        sample = torch.ones(64)
        for _ in range(100):
            sample = sample + index
        return sample


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 512))

    def forward(self, batch):
        found = self.layers(batch)
        return found, found.square().mean()


model = Model().cuda()
model = torch.compile(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in DataLoader(Samples(), batch_size=16, num_workers=int(sys.argv[1]), pin_memory=True):
    logits, loss = model(batch.cuda(non_blocking=True))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
