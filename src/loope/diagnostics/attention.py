"""See queries, keys and weights of attention, whatever code computes it, and measure how far heads look."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.core.metric import Metric
from loope.diagnostics.tokens import Tokens, Watched
from loope.surgery.adapters.branch import Branch

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
T = TypeVar("T")


class Seen(NamedTuple):
    """One call of attention: scaled scores before the softmax, `(B, heads, T, T)`, and queries `(B, heads, T, d)`."""

    scores: Tensor
    queries: Tensor | None


class Spy(TorchFunctionMode):
    """Calls `found(seen)` for every attention that is computed by a fused kernel or by a softmax of T x T scores."""

    def __init__(self, found: Callable[[Seen], None]):
        super().__init__()
        self.found = found
        self.queries: Tensor | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            self.found(_of_kernel(*args, **kwargs))
        elif func in SOFTMAX and _is_scores(args[0]):
            self.found(Seen(args[0].detach(), self.queries))
        result = func(*args, **kwargs)
        if func in (torch.matmul, Tensor.matmul, Tensor.__matmul__) and _is_scores(result):
            self.queries = args[0].detach()
        return result


class AttentionDistances(NamedTuple):
    """How far the heads of a model look.

    Attributes:
        distance: `(blocks, heads)` float64, mean distance in cells between a patch and those it attends to.
        prefix: `(blocks, heads)`, share of the attention of patches that goes to class and register tokens.
        uniform: the distance if every patch attended to all patches alike.
        grid: the grid of patches.
        images: number of images.
    """

    distance: Tensor
    prefix: Tensor
    uniform: float
    grid: Grid
    images: int


def attention_distance(model: nn.Module, images: Iterable[Any], *, branch: int = 0) -> AttentionDistances:
    """Measure the mean distance in cells that each head looks over.

    With weights a[i, j] of patch i on patch j, renormalized over patches, and d[i, j] their distance in cells:

        distance = mean over images and i of sum_j a[i, j] d[i, j].

    Args:
        model: a model that `loope.attach` supports, with or without encoders.
        images: batches `(B, C, H, W)`, or tuples that start with one.
        branch: number of the sequence of patches, for models with several.

    Raises:
        LoopeError: if attention is computed in a way that cannot be seen (flash attention, compiled code), or not
            between all patches.

    Examples:
        >>> import timm, torch, loope
        >>> model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2)
        >>> found = loope.attention_distance(model, [torch.rand(2, 3, 64, 64)])
        >>> found.distance.shape, round(found.uniform, 2)
        (torch.Size([2, 3]), 2.01)
    """
    watched = Watched(model, branch)
    attention = AttentionCollector(watched)
    for batch in watched.batches(images):
        attention.run(batch)
    return attention.found()


class AttentionCollector:
    """Adds up how far the heads of a model look, in forward passes that it runs.

    Weights are reduced as soon as they are seen: those of all blocks together would be larger than the model.

    Args:
        watched: the model.
    """

    def __init__(self, watched: Watched):
        self._watched = watched
        self._total: Tensor | None = None
        self._images = 0

    def run(self, batch: Tensor) -> Tokens:
        """Run the model on a batch, add its attention, and return its tokens."""
        with spying(self._watched, self._sums) as seen:
            tokens = self._watched.run(batch)
        here = torch.stack(blocks(seen))
        self._total = here if self._total is None else self._total + here
        self._images += len(batch)
        return tokens

    def found(self) -> AttentionDistances:
        """Return the means over all images."""
        if self._total is None:
            raise LoopeError("There are no images: pass a list or loader of batches.")
        return distances_of(self._total, self._images, self._watched.grid)

    def _sums(self, seen: Seen) -> Tensor:
        return sums(seen.scores.softmax(-1), self._watched.grid, self._watched.branch.others)


def sums(weights: Tensor, grid: Grid, prefix: int) -> Tensor:
    """Return the sums over a batch of distance and of attention to prefix tokens, `(2, heads)` float64.

    Args:
        weights: `(B, heads, P + N, P + N)`, rows that add up to 1.
        grid: the grid of the N patches.
        prefix: number P of prefix tokens.
    """
    require_all_pairs(weights, grid, prefix)
    require(bool(weights.isfinite().all()), "Attention has NaN or infinite weights; check the weights and the images.")
    patches = weights[..., prefix:, prefix:].double()
    inside = patches.sum(-1)
    apart = cell_distances(grid).to(patches)
    distance = torch.einsum("bhij,ij->bhi", patches, apart) / inside.clamp(min=torch.finfo(torch.float32).tiny)
    return torch.stack((distance.mean(-1).sum(0), (1 - inside).mean(-1).sum(0))).cpu()


def require_all_pairs(scores: Tensor, grid: Grid, prefix: int) -> None:
    """Check that scores or weights are `(B, heads, P + N, P + N)`, between all tokens."""
    length = prefix + grid.size
    require(
        scores.dim() == 4 and tuple(scores.shape[-2:]) == (length, length),
        f"Expected attention between {prefix} prefix tokens and {grid} patches, got {tuple(scores.shape)}: this model "
        "attends within windows or pools tokens.",
    )


def distances_of(total: Tensor, images: int, grid: Grid) -> AttentionDistances:
    """Return the means that follow from sums `(blocks, 2, heads)` over images."""
    require(images > 0, "There are no images.")
    distance, prefix = (total / images).unbind(1)
    return AttentionDistances(distance, prefix, float(cell_distances(grid).mean()), grid, images)


def cell_distances(grid: Grid) -> Tensor:
    """Return the Euclidean distance of every pair of cells, `(N, N)` float64."""
    places = torch.stack(grid.coordinates(), dim=-1).double()
    return torch.cdist(places, places)


class AttentionDistance(Metric):
    """`attention_distance` as a metric that accumulates over batches and processes.

    Args:
        blocks: number of blocks.
        heads: attention heads.
        grid: the grid of patches.
        prefix: number of class and register tokens before the patches.
        options: options of `torchmetrics.Metric`.
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False
    total: Tensor
    images: Tensor

    def __init__(self, blocks: int, heads: int, grid: Grid, prefix: int = 0, **options: Any):
        super().__init__(**options)
        self.grid, self.prefix = grid, prefix
        self.add_state("total", torch.zeros(blocks, 2, heads, dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("images", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, weights: Sequence[Tensor]) -> None:
        """Add the attention weights of a batch, `(B, heads, P + N, P + N)` for each block."""
        here = torch.stack([sums(each, self.grid, self.prefix) for each in weights])
        self.total = self.total + here.to(self.total)
        self.images = self.images + len(weights[0])

    def compute(self) -> AttentionDistances:
        """Return the means over all images seen."""
        return distances_of(self.total, int(self.images), self.grid)


@contextmanager
def spying(watched: Watched, keep: Callable[[Seen], T]) -> Iterator[list[list[T]]]:
    """Collect what `keep` returns of the attention that each block of the branch computes, in one forward pass.

    Tokens after the patches are moved before them.
    """
    seen: list[list[T]] = [[] for _ in watched.branch.attentions]
    spies: list[Spy] = []

    def enter(number: int) -> Callable[..., None]:
        def hook(module: nn.Module, args: Any) -> None:
            spies.append(Spy(lambda found: seen[number].append(keep(_patches_last(found, watched.branch)))))
            spies[-1].__enter__()  # type: ignore[no-untyped-call]

        return hook

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        if spies:
            spies.pop().__exit__(None, None, None)  # type: ignore[no-untyped-call]

    hooks = []
    for number in range(len(seen)):
        for module in watched.branch.attentions_of(number):
            hooks += [
                module.register_forward_pre_hook(enter(number)),
                module.register_forward_hook(leave, always_call=True),
            ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def blocks(seen: Sequence[Sequence[T]]) -> list[T]:
    """Return what was kept of the attention of each block.

    Raises:
        LoopeError: if a block's attention was not seen.
    """
    for number, each in enumerate(seen):
        require(
            len(each) == 1,
            f"Expected one attention to be seen in block {number + 1}, got {len(each)}; use a model that is not "
            "compiled, with 'sdpa' or 'eager' attention, and one attention in each block.",
        )
    return [each[0] for each in seen]


def _patches_last(seen: Seen, branch: Branch) -> Seen:
    if not branch.suffix or seen.scores.shape[-1] <= branch.others:
        return seen
    order = torch.arange(seen.scores.shape[-1], device=seen.scores.device)
    order = torch.cat((order[: branch.prefix], order[branch.prefix :].roll(branch.suffix)))
    queries = None if seen.queries is None else seen.queries[..., order, :]
    return Seen(seen.scores[..., order[:, None], order], queries)


def _is_scores(x: Any) -> bool:
    return isinstance(x, Tensor) and x.dim() == 4 and x.shape[-1] == x.shape[-2]


def _of_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Seen:
    """Return the scores of `F.scaled_dot_product_attention`, whose arguments these are."""
    if enable_gqa:
        key = key.repeat_interleave(query.shape[1] // key.shape[1], dim=1)
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    return Seen(scores.detach(), query.detach())
