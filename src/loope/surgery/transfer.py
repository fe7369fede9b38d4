"""Hand a pretrained model over from its own position encoding to another, without labels."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from itertools import count
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, require, shown
from loope.core.grid import as_positive, as_size
from loope.surgery.adapters.base import adapter_for
from loope.surgery.align import align
from loope.surgery.attach import detach
from loope.surgery.batches import images_of, repeated
from loope.surgery.find import sole_attachment
from loope.surgery.own import evaluating, first_output
from loope.surgery.watch import watched

# Only the first half of the blocks is trained, on its tokens: it finds the positions again, and the rest, which reads
# them there, keeps what it knows. In a minute of one core (`alibi2d` in ViT-Tiny), answers came to agree on 49, 63, 70
# and 68 % with 2, 3, 6 and 8 of 12 blocks, on 56 % with all blocks and the answers.
DEPTH = 0.5
# Where the encoder disturbs the other half more than this, all blocks are trained: the mean squared error of normalized
# tokens after the last block. In ViT-Tiny rotary encoders have 0.3 to 0.5, in the new basis 0.02; `lookhere` has 0.55.
DISTURBED = 0.2
# Tokens after every trained block are compared, each brought to mean 0 and variance 1. Beside the answers, where these
# are compared too, they weigh this much.
TOKENS = 36.0
WARMUP = 0.05  # share of the steps in which the learning rate rises
BETA2 = 0.95  # of AdamW
CLIP = 1.0  # largest norm of the gradient
# A quick fade is better: a slow one spends its steps on a model that is neither. When all blocks were trained, with the
# own encoding out after 50, 25 and 5 % of three minutes, answers agreed on 30, 39 and 43 % (`rope_axial` in ViT-Tiny).
FADE = 0.05
LR = 1e-3  # in a minute (`alibi2d`) 70 %; 5e-4: 68 %, 2e-3: 62 %

T = TypeVar("T")


class Agreement(NamedTuple):
    """How much a model agrees with its teacher.

    Attributes:
        answers: share of the images with the same largest logit; with `multi_label`, of the logits with the same sign.
        tokens: mean cosine of the last block's tokens.
    """

    answers: float
    tokens: float


class HandOver:
    """A model and its teacher, by default a copy with its own encoding.

    While the share of steps done grows from 0 to `fade`, the own encoding goes out and the encoder comes in. An encoder
    that was fitted to the model's own table acts from the start; it only learns to agree better.

    Args:
        model: a model attached with `init="own"`.
        fade: the share of the steps after which the own encoding is out.
        depth: the share of the blocks that are trained, from the first on. 1 trains everything, on the answers too.
            None is half of them, or all if the encoder disturbs the others, or if the model's own encoding is in them
            too, such as rotations or a bias. What comes before the blocks is trained as well.
        freeze_backbone: train the encoder only, in all blocks. The teacher then shares the backbone's weights;
            otherwise it is a copy.
        teacher: another model to agree with, with the same outputs.
        multi_label: the logits are independent, yes above 0, instead of classes of which one is right.

    Raises:
        LoopeError: if nothing is attached, nothing would be trained or come in, or the model drops patches.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        fade: float = FADE,
        depth: float | None = None,
        freeze_backbone: bool = False,
        teacher: nn.Module | None = None,
        multi_label: bool = False,
    ):
        self.model = model
        self.multi_label = multi_label
        self.attachment = sole_attachment(model)
        require(not self.attachment.baked, "A baked model cannot be trained; transfer before loope.bake.")
        require(
            all(branch.patch_drop is None for branch in self.attachment.branches),
            "The model drops or shuffles patches at random, so its tokens cannot be compared with a teacher's; create "
            "a timm model with patch_drop_rate=0, or load a masked autoencoder's weights into its plain ViT.",
        )
        self.fade = as_positive(fade, "fade")
        require(fade <= 1, f"`fade` must be a share of the steps, above 0 and at most 1, got {fade!r}.")
        self.chooses, depth = depth is None, DEPTH if depth is None else as_positive(depth, "depth")
        require(depth <= 1, f"`depth` must be a share of the blocks, above 0 and at most 1, got {depth!r}.")
        branches = self.attachment.branches
        if self.chooses and any(slot.value is not None for branch in branches for slot in branch.own):
            depth = 1  # its own encoding is in the later blocks, too
        blocks = math.ceil(round(depth * sum(len(branch.blocks) for branch in branches), 6))
        self.freeze_backbone = freeze_backbone
        self.blocks = None if depth == 1 or freeze_backbone else blocks  # None: all
        self.fades = self.attachment.spec["keep_own"]
        require(
            self.fades or float(self.attachment.strengths[0]) > 0,
            "The encoder has strength 0 and there is no encoding of the model's own to fade out, so nothing would come "
            "in; raise it with loope.set_strength.",
        )
        ours = list(self.attachment.parameters())
        self.trained = [each for each in (ours if freeze_backbone else model.parameters()) if each.requires_grad]
        require(
            bool(self.trained),
            f"Nothing would be trained: the {'encoder' if freeze_backbone else 'model'} has no trainable parameters.",
        )
        self.own_teacher = teacher is None
        self.teacher = _own_teacher(model, freeze_backbone) if teacher is None else _checked(teacher, model)

    def prepare(self, images: Tensor) -> None:
        """Check a teacher of the user's, make room for rotations in the weights (`align`), and choose the depth.

        Args:
            images: the first batch, before any step.
        """
        if not self.own_teacher:
            self.agreement([images])
        if not self.fades or self.freeze_backbone:
            return
        with torch.autocast(images.device.type, enabled=False):
            align(self.model, self.attachment, images)
            if self.chooses and self.blocks is not None and not self._disturbance(images) <= DISTURBED:
                self.blocks = None

    @torch.no_grad()
    def _disturbance(self, images: Tensor) -> float:
        """Return how far the tokens of the last block move if the encoder acts in the blocks that are not trained."""
        entered = count()

        def enter(*_: Any) -> None:
            if next(entered) < (self.blocks or 0):
                return
            self.attachment.set_strengths(1.0, 1.0)
            for place in self.attachment.host.places:
                place.keep(place.positions, None)  # a bias that blocks share

        strengths = self.attachment.strengths
        hooks = [
            block.register_forward_pre_hook(enter) for branch in self.attachment.branches for block in branch.blocks
        ]
        try:
            self.attachment.set_strengths(0.0, 1.0)
            with evaluating(self.model), watched(self.model) as ours:
                self.model(images)
            with evaluating(self.teacher), watched(self.teacher) as theirs:
                self.teacher(images)
        finally:
            for hook in hooks:
                hook.remove()
            self.attachment.set_strengths(*strengths)
        return float(_error(ours[-1], theirs[-1]))

    def set_progress(self, share: float) -> None:
        """Set the strengths for the share of the steps that is done."""
        if self.fades:
            strength = min(1.0, share / self.fade)
            self.attachment.set_strengths(strength, 1 - strength)

    def loss(self, images: Tensor) -> Tensor:
        """Return how far the model is from its teacher on a batch, a scalar in float32.

        The squared error of the tokens after each trained block, each token normalized on its own. Where all blocks are
        trained, plus the Kullback-Leibler divergence of the answers, if the model has classes.
        """
        given = wanted = None
        with watched(self.model, self.blocks) as ours:
            given = first_output(self.model(images))
        with torch.no_grad(), evaluating(self.teacher), watched(self.teacher, self.blocks) as theirs:
            wanted = first_output(self.teacher(images))
        _check_fit(ours, theirs, given, wanted)
        total = torch.zeros((), device=images.device)
        if given is not None and wanted is not None and given.dim() == 2:
            total = total + _divergence(given.float(), wanted.float(), self.multi_label)
        for one, other in zip(ours, theirs, strict=True):
            total = total + TOKENS / len(ours) * _error(one, other)
        return total

    @torch.no_grad()
    def agreement(self, batches: Iterable[Any]) -> Agreement:
        """Return how much the model agrees with its teacher, over batches of images."""
        same = seen = cosine = tokens = 0.0
        for batch in batches:
            images = images_of(batch)
            with evaluating(self.teacher), watched(self.teacher) as theirs:
                wanted = first_output(self.teacher(images))
            with evaluating(self.model), watched(self.model) as ours:
                given = first_output(self.model(images))
            _check_fit(ours, theirs, given, wanted)
            if self.multi_label:
                same += float(((wanted > 0) == (given > 0)).flatten(1).float().mean(-1).sum())
            else:
                same += float((wanted.flatten(1).argmax(-1) == given.flatten(1).argmax(-1)).sum())
            seen += len(images)
            alike = F.cosine_similarity(ours[-1].float(), theirs[-1].float(), dim=-1)
            cosine, tokens = cosine + float(alike.sum()), tokens + alike.numel()
        require(seen > 0, "There are no images to compare the answers on.")
        return Agreement(same / seen, cosine / tokens)

    def finish(self) -> None:
        """Set the model's own encoding aside for good; the encoder acts alone."""
        if self.fades:
            self.attachment.retire_own()
        self.model.eval()


def transfer(
    model: nn.Module,
    images: Iterable[Any],
    *,
    steps: int = 1000,
    lr: float = LR,
    fade: float = FADE,
    depth: float | None = None,
    freeze_backbone: bool = False,
    teacher: nn.Module | None = None,
    multi_label: bool = False,
    progress: bool = False,
) -> Agreement:
    """Hand a model over from its own position encoding to the attached one, on images without labels.

    The model was attached with `init="own"`. Its own encoding fades out and the attached one fades in, while the patch
    embedding and the first half of the blocks learn to reproduce the original tokens. For a rotary encoder, the basis
    of queries and keys first changes so that rotations disturb them least, which alone changes no output. The model
    ends in eval mode, with the encoder alone. If anything goes wrong on the way, it is as it was before.

    Args:
        model: an attached model, on any device; trained in place.
        images: batches `(B, C, H, W)`, or tuples that start with one; repeated from the start as often as needed.
        steps: number of batches to train on.
        lr: largest learning rate, of AdamW with warmup and cosine decay.
        fade: the share of the steps after which the own encoding is out.
        depth: the share of the blocks that are trained, from the first on. 1 trains everything, on the logits too. By
            default half of them; all if the encoder disturbs the others, or if the own encoding is in them too.
        freeze_backbone: train the encoder only, in all blocks.
        teacher: another model to agree with; by default the model as it is, with its own encoding.
        multi_label: the logits are independent, yes above 0, instead of classes of which one is right.
        progress: show a progress bar.

    Returns:
        The agreement with the teacher on the last batch.

    Examples:
        >>> import loope, timm
        >>> model = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=2, num_classes=5)
        >>> model = loope.attach(model, "rope_axial", init="own")
        >>> batches = [torch.rand(2, 3, 32, 32) for _ in range(2)]
        >>> result = loope.transfer(model, batches, steps=4)
        >>> loope.report(model).keep_own
        False

    Raises:
        LoopeError: if nothing is attached, nothing would be trained or come in, the model drops patches, there are no
            images or they do not fit, the teacher does not fit, or the loss is not finite.
    """
    from rich.progress import track

    require(torch.is_grad_enabled(), "Gradients are off here: call transfer outside of torch.no_grad.")
    steps, lr = as_size(steps, "steps"), as_positive(lr, "lr")
    work = HandOver(
        model,
        fade=fade,
        depth=depth,
        freeze_backbone=freeze_backbone,
        teacher=teacher,
        multi_label=multi_label,
    )
    resting = {each for each in model.parameters() if each.requires_grad} - set(work.trained)
    before = [(each, each.detach().clone()) for each in (*work.trained, *model.buffers())]
    modes = [(module, module.training) for module in model.modules()]
    strengths, last = work.attachment.strengths, None
    optimizer = torch.optim.AdamW(work.trained, lr=lr, weight_decay=0.0, betas=(0.9, BETA2))
    try:
        for each in resting:
            each.requires_grad_(False)  # their gradients would take time and memory, and stay
        model.train()
        batches = repeated(images, steps)
        for step, batch in enumerate(track(batches, "Transfer", total=steps, disable=not progress)):
            for group in optimizer.param_groups:
                group["lr"] = lr * rate(step, steps)
            if step == 0:
                _fitting(work.prepare, images_of(batch))
                torch.clear_autocast_cache()
            work.set_progress((step + 1) / steps)
            loss = _fitting(work.loss, images_of(batch))
            require(
                loss.requires_grad,
                f"Nothing can be trained in the first {work.blocks} blocks, on whose tokens it would learn: unfreeze "
                "parameters there, use checkpointing that is not reentrant, or pass depth=1.",
            )
            optimizer.zero_grad()
            torch.autograd.backward(loss)
            norm = nn.utils.clip_grad_norm_(work.trained, CLIP)
            require(
                bool(loss.isfinite() & norm.isfinite()),
                f"The loss or its gradient is not finite in step {step + 1}: {loss.item():g} and {norm.item():g}; the "
                "model is as it was. Check the images for NaN, or try a smaller lr.",
            )
            optimizer.step()
            torch.clear_autocast_cache()  # within autocast, weights of the first step would be used in all
            last = batch
        result = work.agreement([last])
        require(
            math.isfinite(result.tokens),
            "The last step made tokens that are not finite; the model is as it was. Try a smaller lr.",
        )
    except BaseException:
        with torch.no_grad():
            for tensor, value in before:
                tensor.copy_(value)
        work.attachment.set_strengths(*strengths)
        for module, mode in modes:
            module.training = mode
        raise
    finally:
        optimizer.zero_grad()
        for each in resting:
            each.requires_grad_()
    work.finish()
    return result


def _fitting(work: Callable[[Tensor], T], images: Tensor) -> T:
    """Call `work` on images, which may not fit the model."""
    try:
        return work(images)
    except (LoopeError, torch.OutOfMemoryError):
        raise
    except (RuntimeError, TypeError, ValueError, AssertionError) as error:
        raise LoopeError(f"The images do not fit the model, or the teacher: {str(error)[:300]}") from error


def _check_fit(ours: list[Tensor], theirs: list[Tensor], given: Tensor | None, wanted: Tensor | None) -> None:
    """Check that model and teacher have the same blocks, tokens and, if both were computed, outputs."""
    require(len(theirs) == len(ours), f"The teacher does not fit: it has {len(theirs)} blocks, the model {len(ours)}.")
    require(
        all(one.shape == other.shape for one, other in zip(ours, theirs, strict=True)),
        "The teacher does not fit: its tokens have another shape.",
    )
    require(
        given is None or wanted is None or wanted.shape == given.shape,
        "The teacher does not fit: its output has another shape than the model's.",
    )


def _error(ours: Tensor, theirs: Tensor) -> Tensor:
    """Return the mean squared error of tokens, each normalized on its own."""
    mine, expected = (F.layer_norm(each.float(), each.shape[-1:]) for each in (ours, theirs))
    return F.mse_loss(mine, expected)


def _divergence(given: Tensor, wanted: Tensor, multi_label: bool) -> Tensor:
    """Return the Kullback-Leibler divergence of `(B, C)` logits from the wanted ones, averaged over the batch."""
    if multi_label:  # a softmax would not see all logits move together, which turns no into yes
        share = wanted.sigmoid()
        apart, least = (F.binary_cross_entropy_with_logits(each, share, reduction="sum") for each in (given, wanted))
        return (apart - least) / len(given)
    mine, expected = (F.log_softmax(each, dim=-1) for each in (given, wanted))
    return F.kl_div(mine, expected, reduction="batchmean", log_target=True)


def rate(step: int, steps: int) -> float:
    """Return the factor of the learning rate in a step: a linear warmup, then a cosine to a twentieth."""
    warm = min(1.0, (step + 1) / max(1.0, WARMUP * steps))
    return warm * (0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2)


def _checked(teacher: nn.Module, model: nn.Module) -> nn.Module:
    """Return a teacher of the user's after a look at it."""
    require(isinstance(teacher, nn.Module), f"The teacher must be a model, got {shown(teacher)}.")
    require(teacher is not model, "The teacher is the model itself; leave teacher out to teach it what it was.")
    try:
        adapter_for(teacher)
    except LoopeError as error:
        raise LoopeError(f"The teacher cannot be compared with: {error}") from error
    return teacher


def _own_teacher(model: nn.Module, shared: bool) -> nn.Module:
    """Return the model with its own encoding, as a copy that may share the backbone's weights."""
    attachment = sole_attachment(model)
    kept = {id(each) for part in (attachment.own, attachment.encoders) for each in part.parameters()}
    tensors = [*model.parameters(), *model.buffers()] if shared else []
    memo = {id(each): each for each in tensors if id(each) not in kept}
    twin = copy.deepcopy(model, memo)
    trainable = [(each, each.requires_grad) for each in tensors]
    detach(twin)
    for each, wanted in trainable:  # `detach` restores what `freeze_backbone` froze, in the shared weights too
        each.requires_grad_(wanted)
    return twin.eval()
