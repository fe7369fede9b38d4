"""Finding: how often LOOPE's one-channel map is zero everywhere before training starts.

A map that the ReLU sets to zero for every image gets no gradient, so X_C remains the same for all images.
"""

import torch

import loope

SEEDS = 200
STARTS = (("relu", "torch"), ("gelu", "torch"), ("relu", "live"))


def dead_share(activation: str, initialization: str) -> float:
    """Compute the share of seeds for which the generator's map is the same at all patches of all images."""
    images = torch.rand(8, 3, 224, 224, generator=torch.Generator().manual_seed(0)) * 2 - 1
    dead = 0
    for seed in range(SEEDS):
        torch.manual_seed(seed)
        encoder = loope.create_encoder(
            "loope", 16, 14, patch_size=16, activation=activation, initialization=initialization, mixer="none"
        ).eval()
        with torch.no_grad():
            offsets = encoder.offsets(images)
        dead += bool((offsets == offsets[0, 0]).all())
    return dead / SEEDS


if __name__ == "__main__":
    for start in STARTS:
        print(f"{start[0]}, {start[1]} initialization: {dead_share(*start):.1%} of {SEEDS} seeds start dead")
