"""Slow, obvious definitions, in loops."""

import torch


def variances(tokens):
    """Position, image and local variance of tokens (B, N, D), as `position_share` defines them."""
    images, places, _ = tokens.shape
    tokens = tokens.double()
    mean = tokens.mean((0, 1))
    local = image = between = 0.0
    for b in range(images):
        for n in range(places):
            rest = tokens[b, n] - tokens[:, n].mean(0) - tokens[b].mean(0) + mean
            local += float(rest @ rest) / (places * (images - 1))
    for b in range(images):
        image += float((tokens[b].mean(0) - mean).norm() ** 2) / (images - 1)
    for n in range(places):
        between += float((tokens[:, n].mean(0) - mean).norm() ** 2) / places
    return between - local / images, image, local


def ridge(features, targets, strength):
    """Mean and weights of the regression of `position_probe`, by least squares on an extended system."""
    x, y = features.double(), targets.double()
    mean, scale = x.mean(0), x.std(0, correction=0)
    x = (x - mean) / torch.where(scale > 0, scale, 1.0)
    more = (strength * len(x)) ** 0.5 * torch.eye(x.shape[1], dtype=torch.float64)
    rows = torch.cat((x, more)), torch.cat((y, torch.zeros(x.shape[1], 2, dtype=torch.float64)))
    return mean, torch.linalg.lstsq(*rows).solution / torch.where(scale > 0, scale, 1.0)[:, None]
