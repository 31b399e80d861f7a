"""Training: the batch, the numbers' precision, and the software that runs the step."""

from __future__ import annotations

from dataclasses import dataclass

from estimator.scenario.codec import spec
from estimator.scenario.framework import FRAMEWORKS, Framework
from estimator.scenario.hardware import PEAK_FIELD

PRECISIONS = tuple(PEAK_FIELD)
OPTIMIZERS = ("adamw", "adamw-bf16", "adamw-8bit", "adafactor", "sgd")
OPTIMIZER_KERNELS = ("default", "foreach", "fused", "for-loop")
EXPERTS = ("default", "grouped", "loop", "fused")
ATTENTIONS = ("eager", "sdpa", "flash", "flash1")
MATH = "math"
"""What ``sdpa`` becomes where torch has no fused kernel: scores, guarded softmax and values; nobody chooses it."""
SCORES_KEPT = ("eager", MATH)
"""Attention whose scores lie in memory, unless kernels are fused."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """What is trained on and how; ``precision`` follows the words of the contract."""

    seq_len: int = spec(minimum=1, maximum=100_000_000, help="tokens per sequence")
    global_batch: int = spec(minimum=1, maximum=100_000_000, help="sequences per step over all ranks")
    precision: str = spec("bf16-amp", choices=PRECISIONS, help="numbers of compute and of the states")
    dropout: float = spec(0.0, minimum=0, maximum=0.99, help="dropout of attention weights and block outputs")
    optimizer: str = spec(
        "adamw",
        choices=OPTIMIZERS,
        help="optimizer; adamw-8bit keeps moments of a byte each, adamw-bf16 of two (under Megatron, with"
        " gradients of two), adafactor sums of rows and columns",
    )
    optimizer_kernel: str = spec(
        "default",
        choices=OPTIMIZER_KERNELS,
        help="which of PyTorch's kernels update AdamW and SGD: fused (one pass), foreach (op by op over all tensors),"
        " for-loop (op by op, tensor after tensor); default: foreach on a GPU, for-loop on a CPU. Other optimizers,"
        " Megatron and XLA have their own",
    )
    attention: str = spec(
        "sdpa",
        choices=ATTENTIONS,
        help="eager keeps the scores; sdpa: torch's best fused kernel; flash: FlashAttention-2; flash1: version 1",
    )
    experts: str = spec(
        "default",
        choices=EXPERTS,
        help="experts in grouped products or one after another; default: grouped where kernels are fused; fused:"
        " grouped, with activation and narrow copies in the same kernels (Transformer Engine on Blackwell)",
    )
    expert_imbalance: float = spec(
        1.0, minimum=1, maximum=1000, help="tokens of the fullest rank's experts, for which all wait, over the mean"
    )
    compile: bool = spec(False, help="torch.compile fuses element-wise kernels")
    framework: str = spec(
        "pytorch-eager",
        choices=tuple(FRAMEWORKS),
        labels={name: one.label for name, one in FRAMEWORKS.items()},
        help="whose kernel list and host time",
    )

    @property
    def traits(self) -> Framework:
        """What the framework does its own way."""
        return FRAMEWORKS[self.framework]

    def updates_together(self, *, cpu: bool) -> bool:
        """Whether an optimizer that can runs over all tensors at once: PyTorch's own choice on GPUs from 2.0 on."""
        if self.optimizer_kernel == "default":
            return self.traits.multi_tensor and not cpu
        return self.optimizer_kernel != "for-loop"

    @property
    def fused(self) -> bool:
        """Whether element-wise kernels are compiled into a few, by torch.compile or by the framework."""
        return self.compile or self.traits.fuses

    @property
    def fused_loss(self) -> bool:
        """Whether the loss is compiled, too."""
        return self.fused and self.traits.compiles_loss

    @property
    def groups_experts(self) -> bool:
        """Whether Python goes through all experts of a rank at once, not through one after another."""
        return self.fused if self.experts == "default" else self.experts in ("grouped", "fused")

    @property
    def multiplies_apart(self) -> bool:
        """Whether each expert's product is a kernel of its own."""
        return not self.groups_experts or (self.experts == "default" and self.traits.multiplies_apart)

    @property
    def multiplies_grouped(self) -> bool:
        """Whether torch's grouped kernel multiplies a rank's experts, or one like it."""
        asked = self.experts == "grouped" or self.traits.multiplies_grouped
        return asked and self.groups_experts and not self.fuses_experts and not self.multiplies_apart

    @property
    def fuses_experts(self) -> bool:
        """Whether products of experts also do what stands between them."""
        return self.experts == "fused"
