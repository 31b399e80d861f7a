"""Attention in float64, whose whole score matrix is in memory: what the flash kernels are checked against."""

from __future__ import annotations

import math

import torch


def exact(q, k, v, dout, causal, scale):
    """Output, natural logarithm of the softmax's denominator, dQ, dK and dV of the same rounded inputs."""
    q, k, v = (x.detach().double().requires_grad_() for x in (q, k, v))
    groups = q.shape[1] // k.shape[1]
    scores = q @ k.repeat_interleave(groups, 1).transpose(-1, -2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).triu(1), -math.inf)
    out = scores.softmax(-1) @ v.repeat_interleave(groups, 1)
    gradients = torch.autograd.grad(out, (q, k, v), dout.double())
    return out.detach(), scores.detach().logsumexp(-1), *gradients


def relative_error(found, expected):
    assert found.shape == expected.shape
    return float((found.double() - expected).norm() / expected.norm())


def random_inputs(batch, heads, key_heads, length, key_length, dim, dtype, device="cpu"):
    """q, k, v and the gradient of the output."""
    generator = torch.Generator(device).manual_seed(length + dim)
    shapes = [(batch, heads, length, dim), (batch, key_heads, key_length, dim), (batch, key_heads, key_length, dim)]
    return [
        torch.randn(shape, generator=generator, device=device).to(dtype)
        for shape in (*shapes, (batch, heads, length, dim))
    ]


def errors(kernels, inputs, causal):
    """Relative errors of output, lse, dQ, dK and dV of a module with ``forward`` and ``backward``."""
    q, k, v, dout = inputs
    scale = q.shape[-1] ** -0.5
    out, lse = kernels.forward(q, k, v, causal, scale)
    gradients = kernels.backward(q, k, v, out, lse, dout, causal, scale)
    found = (out, lse * math.log(2), *gradients)
    return dict(
        zip(("out", "lse", "dq", "dk", "dv"), map(relative_error, found, exact(*inputs, causal, scale)), strict=True)
    )
