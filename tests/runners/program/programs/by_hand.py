"""A recurrent network whose program makes no optimizer: it clips and updates its parameters itself, as old ones do."""

import torch
from torch import nn

torch.manual_seed(0)
device = torch.device(0)
embedding, recurrent, head = nn.Embedding(50, 32), nn.LSTM(32, 24, num_layers=2), nn.Linear(24, 50)
network = nn.ModuleList((embedding, recurrent, head)).to(device)
places = torch.arange(7)  # on the host, which indexes what is on the device
for _ in range(6):
    tokens = torch.randint(0, 50, (7, 4), device=device)
    made, _ = recurrent(embedding(tokens))
    nn.utils.rnn.pack_padded_sequence(made, torch.tensor([7, 5, 3, 2]))
    scores = head(made[places]).log_softmax(-1)
    lengths = torch.full((4,), 7)
    loss = nn.functional.ctc_loss(scores, tokens.t()[:, :3], lengths, torch.full((4,), 3))
    for parameter in network.parameters():
        parameter.grad = None
    loss.backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 0.25)
    for parameter in network.parameters():
        parameter.data.add_(parameter.grad, alpha=-0.1)
