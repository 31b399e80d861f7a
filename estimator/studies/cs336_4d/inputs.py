"""Inputs of the 4D parallelism study: a stack of feed-forward blocks, its precision, and a mesh of chips."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.codec import spec


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """What can be changed; the defaults are the reference's."""

    layers: int = spec(126, minimum=1, maximum=10**5, help="blocks of two linears")
    d: int = spec(16_384, minimum=1, maximum=10**7, help="hidden size")
    f: int = spec(53_248, minimum=1, maximum=10**8, help="inner size of a block")
    master_bytes: float = spec(4.0, minimum=0, maximum=64, help="master weights, bytes of a parameter")
    gradient_bytes: float = spec(4.0, minimum=0, maximum=64, help="accumulated gradients, bytes of a parameter")
    optimizer_bytes: float = spec(8.0, minimum=0, maximum=64, help="optimizer state, bytes of a parameter; Adam: 8")
    activation_bytes: float = spec(2.0, minimum=0, maximum=64, help="an element of what is kept for backward")
    gpu_bytes: float = spec(80e9, minimum=1e6, help="memory of the chip of (a); H100: 80e9")
    chip_bytes: float = spec(95e9, minimum=1e6, help="memory of the chip of (b); TPU v5p: 95e9")
    sharded_activation_frac: float = spec(0.5, minimum=0, maximum=1, help="share of activations that is sharded")
    tokens_per_device: int = spec(4096, minimum=0, maximum=10**9, help="tokens of a device in (b)")
    chip_flops_per_s: float = spec(4.6e14, minimum=1, help="C: peak of a chip; TPU v5p: 4.6e14")
    axis_bytes_per_s: float = spec(1.8e11, minimum=1, help="W: one mesh axis, both directions; TPU v5p: 2·9e10")
    sent_bytes: float = spec(2.0, minimum=0.01, maximum=64, help="an element of weights and activations on the links")
    X: int = spec(16, minimum=1, maximum=10**6, help="FSDP degree of (c)")
    Y: int = spec(4, minimum=1, maximum=10**6, help="tensor parallel degree of (c)")
    M_X: int = spec(2, minimum=1, maximum=16, help="mesh axes of FSDP")
    M_Y: int = spec(1, minimum=1, maximum=16, help="mesh axes of tensor parallelism")
    chips: int = spec(64, minimum=1, maximum=10**6, help="chips to split in (d)")
    pipeline: int = spec(4, minimum=1, maximum=10**5, help="pipeline stages of the lever in (d)")
    micro_batches: int = spec(16, minimum=1, maximum=10**6, help="m: micro-batches of a step over these stages")

    @property
    def parameters(self) -> int:
        """Two linears for each block: 2·layers·d·f."""
        return 2 * self.layers * self.d * self.f

    @property
    def state_bytes(self) -> float:
        """Master weights, gradients and optimizer state."""
        return self.parameters * (self.master_bytes + self.gradient_bytes + self.optimizer_bytes)

    @property
    def token_bytes(self) -> float:
        """Activations of a token that are kept: the inputs of both linears of every block."""
        return self.activation_bytes * (self.d + self.f) * self.layers

    @property
    def intensity(self) -> float:
        """α = C/W for elements of two bytes: FLOPs of a chip for each byte of a mesh axis; more bytes, more of it."""
        return self.chip_flops_per_s / self.axis_bytes_per_s * self.sent_bytes / 2
