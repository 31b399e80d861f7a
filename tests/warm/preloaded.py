"""What the server of tests/warm imports that runs are forked from."""

from __future__ import annotations

from importlib import import_module

from runners.uncollected import uncollected

with uncollected():
    for name in (
        "torch._subclasses.fake_tensor",
        "torch.distributed.fsdp",
        "torch.distributed.pipelining",
        "torch.distributed.tensor",
        "torch.testing._internal.distributed.fake_pg",
        "torch.utils.checkpoint",
        "runners.__main__",
        "runners.train_step",  # and with it what the first optimizer imports
    ):
        import_module(name)
