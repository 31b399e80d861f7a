"""Models of images that transformers does not build, in sizes of our own: diffusion transformers and UNets."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

Made = tuple[torch.nn.Module, dict[str, torch.Tensor]]


def dit_896(batch: int) -> Made:
    """Twelve blocks of 896 on the 256 patches of a latent of 32 × 32."""
    return _dit(batch, heads=14, width=64, layers=12, latent=32)


def dit_1152_deep(batch: int) -> Made:
    """Twenty-eight blocks of 1152, heads of 72, on the 256 patches of a latent of 32 × 32."""
    return _dit(batch, heads=16, width=72, layers=28, latent=32)


def dit_1152(batch: int) -> Made:
    """Nine blocks of 1152, heads of 72, on the 144 patches of a latent of 24 × 24."""
    return _dit(batch, heads=16, width=72, layers=9, latent=24)


def dit_1024(batch: int) -> Made:
    """Ten blocks of 1024 on the 256 patches of a latent of 32 × 32."""
    return _dit(batch, heads=16, width=64, layers=10, latent=32)


def dit_768(batch: int) -> Made:
    """Fourteen blocks of 768 on the 196 patches of a latent of 28 × 28."""
    return _dit(batch, heads=12, width=64, layers=14, latent=28)


def dit_832(batch: int) -> Made:
    """Eleven blocks of 832 on the 256 patches of a latent of 32 × 32."""
    return _dit(batch, heads=13, width=64, layers=11, latent=32)


def dit_1088(batch: int) -> Made:
    """Nine blocks of 1088 on the 256 patches of a latent of 32 × 32."""
    return _dit(batch, heads=17, width=64, layers=9, latent=32)


def dit_960(batch: int) -> Made:
    """Ten blocks of 960 on the 256 patches of a latent of 32 × 32."""
    return _dit(batch, heads=15, width=64, layers=10, latent=32)


def dit_704(batch: int) -> Made:
    """Thirteen blocks of 704 on the 324 patches of a latent of 36 × 36."""
    return _dit(batch, heads=11, width=64, layers=13, latent=36)


def unet_320_large(batch: int) -> Made:
    """Widths 320, 640 and 1280 on a latent of 64 × 64."""
    return _unet(batch, widths=(320, 640, 1280), latent=64)


def unet_192_wide(batch: int) -> Made:
    """Widths 192, 384 and 576 on a latent of 56 × 56."""
    return _unet(batch, widths=(192, 384, 576), latent=56)


def unet_352(batch: int) -> Made:
    """Widths 352, 704 and 1056 on a latent of 40 × 40."""
    return _unet(batch, widths=(352, 704, 1056), latent=40)


def unet_128(batch: int) -> Made:
    """Widths 128, 256 and 512 on a latent of 64 × 64."""
    return _unet(batch, widths=(128, 256, 512), latent=64)


def unet_160(batch: int) -> Made:
    """Widths 160, 320 and 640 on a latent of 64 × 64."""
    return _unet(batch, widths=(160, 320, 640), latent=64)


def unet_256_wide(batch: int) -> Made:
    """Widths 256, 512 and 1024 on a latent of 48 × 48."""
    return _unet(batch, widths=(256, 512, 1024), latent=48)


def unet_320(batch: int) -> Made:
    """Widths 320, 640 and 1280 on a latent of 48 × 48."""
    return _unet(batch, widths=(320, 640, 1280), latent=48)


def unet_256(batch: int) -> Made:
    """Widths 256, 512 and 768 on a latent of 64 × 64."""
    return _unet(batch, widths=(256, 512, 768), latent=64)


def unet_192(batch: int) -> Made:
    """Widths 192, 384 and 768 on a latent of 64 × 64."""
    return _unet(batch, widths=(192, 384, 768), latent=64)


def unet_224(batch: int) -> Made:
    """Widths 224, 448 and 896 on a latent of 56 × 56."""
    return _unet(batch, widths=(224, 448, 896), latent=56)


def unet_288(batch: int) -> Made:
    """Widths 288, 576 and 864 on a latent of 64 × 64."""
    return _unet(batch, widths=(288, 576, 864), latent=64)


def _dit(batch: int, *, heads: int, width: int, layers: int, latent: int) -> Made:
    model: Any = import_module("diffusers").DiTTransformer2DModel(
        num_attention_heads=heads, attention_head_dim=width, num_layers=layers, sample_size=latent
    )
    return model, {
        "hidden_states": torch.randn(batch, 4, latent, latent),
        "timestep": torch.arange(batch) * 7 + 1,
        "class_labels": torch.arange(batch) * 11 % 1000,
    }


def _unet(batch: int, *, widths: tuple[int, ...], latent: int) -> Made:
    blocks = len(widths)
    model: Any = import_module("diffusers").UNet2DConditionModel(
        sample_size=latent,
        cross_attention_dim=768,
        block_out_channels=widths,
        down_block_types=("CrossAttnDownBlock2D",) * (blocks - 1) + ("DownBlock2D",),
        up_block_types=("UpBlock2D",) + ("CrossAttnUpBlock2D",) * (blocks - 1),
    )
    return model, {
        "sample": torch.randn(batch, 4, latent, latent),
        "timestep": torch.arange(batch) * 7 + 1,
        "encoder_hidden_states": torch.randn(batch, 77, 768),
    }
