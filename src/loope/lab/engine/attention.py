"""Choose the kernel of attention."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel


@contextmanager
def plain_attention(precision: str) -> Iterator[None]:
    """Attend without the fused kernel in bfloat16 on a CPU, where it takes twice as long on a few hundred tokens.

    Args:
        precision: that of the recipe; others than "bfloat16" keep their kernels.
    """
    if precision != "bfloat16" or torch.cuda.is_available():
        yield
        return
    # The switch is named after CUDA but holds on CPUs too: without it, scores are computed in float32.
    before = torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()  # type: ignore[no-untyped-call]
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(before)
