"""The package's cross entropy: a kernel of Triton each way.

Recorded under their own names, as other kernels of Triton are: each tensor passes once.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from runners.program.flash_attn.launch import Launch, lacking, lain


class _CrossEntropy(torch.autograd.Function):
    """Keeps logits, logarithms of their sums and labels; gradients may take the logits' place."""

    @staticmethod
    def forward(ctx: Any, launch: Launch, logits: torch.Tensor, labels: torch.Tensor, inplace: bool) -> Any:
        with torch.enable_grad():
            seen = lain(logits)
            losses, sums, squares = (seen.new_empty((seen.shape[0],), dtype=torch.float32) for _ in range(3))
            launch("triton::cross_entropy_fwd_kernel", (seen, labels, losses, sums, squares))
        ctx.save_for_backward(seen, sums, labels)
        ctx.mark_non_differentiable(squares)
        ctx.launch, ctx.inplace = launch, inplace
        return losses, squares

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, _: Any) -> Any:
        logits, sums, labels = ctx.saved_tensors
        made = logits if ctx.inplace else torch.empty_like(logits)
        ctx.launch("triton::cross_entropy_bwd_kernel", (made, gradient, logits, sums, labels))
        return None, made, None, None


def functions(launch: Launch) -> dict[str, Any]:
    """``flash_attn.ops.triton.cross_entropy``, and the module of ``flash_attn.losses.cross_entropy``."""

    def cross_entropy_loss(
        logits: Any, labels: Any, precomputed_lse: Any = None, label_smoothing: float = 0.0, logit_scale: float = 1.0,
        lse_square_scale: float = 0.0, ignore_index: int = -100, inplace_backward: bool = False,
        process_group: Any = None,
    ) -> Any:  # fmt: skip
        if precomputed_lse is not None or process_group is not None:
            raise lacking("cross_entropy_loss with sums of its own, or spread over ranks")
        return _CrossEntropy.apply(launch, logits, labels, inplace_backward)  # type: ignore[no-untyped-call]

    class CrossEntropyLoss(nn.Module):
        """The loss, reduced as torch's own is."""

        def __init__(
            self, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0,
            logit_scale: float = 1.0, lse_square_scale: float = 0.0, inplace_backward: bool = False,
            process_group: Any = None, return_z_loss: bool = False,
        ) -> None:  # fmt: skip
            super().__init__()
            self.ignore_index, self.reduction, self.return_z_loss = ignore_index, reduction, return_z_loss
            self.inplace_backward, self.process_group = inplace_backward, process_group

        def _reduced(self, losses: Any, target: Any) -> Any:
            if self.reduction == "mean":
                return losses.sum() / (target != self.ignore_index).sum()
            return losses.sum() if self.reduction == "sum" else losses

        def forward(self, input: Any, target: Any, precomputed_lse: Any = None) -> Any:
            losses, squares = cross_entropy_loss(
                input, target, precomputed_lse, inplace_backward=self.inplace_backward, process_group=self.process_group
            )
            found = self._reduced(losses, target)
            return (found, self._reduced(squares, target)) if self.return_z_loss else found

    return {"cross_entropy_loss": cross_entropy_loss, "CrossEntropyLoss": CrossEntropyLoss}
