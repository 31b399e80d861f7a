"""Image models that transformers does not build, for benchmarks/trace.py: DiT-XL/2 and Stable Diffusion's UNet."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch


def dit() -> tuple[Any, dict[str, torch.Tensor]]:
    """DiT-XL/2 at 256 × 256 (Peebles 2023, table 1): 28 blocks of width 1152 on 256 patches of the latent."""
    model = import_module("diffusers").DiTTransformer2DModel(
        num_attention_heads=16, attention_head_dim=72, num_layers=28, sample_size=32
    )
    return model, {
        "hidden_states": torch.randn(8, 4, 32, 32),
        "timestep": torch.ones(8, dtype=torch.int64),
        "class_labels": torch.ones(8, dtype=torch.int64),
    }


def unet() -> tuple[Any, dict[str, torch.Tensor]]:
    """UNet of Stable Diffusion 1.5 at 512 × 512: latents of 64 × 64, text of 77 tokens."""
    model = import_module("diffusers").UNet2DConditionModel(sample_size=64, cross_attention_dim=768)
    return model, {
        "sample": torch.randn(2, 4, 64, 64),
        "timestep": torch.ones(2, dtype=torch.int64),
        "encoder_hidden_states": torch.randn(2, 77, 768),
    }
