"""Does a model treat positions right? Wiring only: no weights are judged."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from loope.core.errors import LoopeError
from loope.diagnostics import attention_checks, data_checks, table_checks
from loope.diagnostics.findings import Finding
from loope.diagnostics.subject import Subject
from loope.surgery.adapters.base import adapter_for
from loope.surgery.find import unwrapped

CHECKS = {
    "each patch reaches its own token": table_checks.patches_in_order,
    "a batch is its images one by one": table_checks.batch_agrees,
    "each row of the table reaches its own patch": table_checks.table_in_order,
    "a table at another size is the right way round": table_checks.table_resampled,
    "another shape is not the same grid": table_checks.shape_matters,
    "two sizes in turn do not leak": table_checks.sizes_in_turn,
    "patches and positions move together": data_checks.positions_are_data,
    "a batch of several sizes is its images one by one": data_checks.padded_agrees,
    "a packed row is its images one by one": data_checks.packed_agrees,
    "scores depend on offsets": attention_checks.offsets_only,
    "positions are distinct in half precision": attention_checks.half_precision,
}


class AuditReport(NamedTuple):
    """What an audit found; prints well.

    Attributes:
        model: class of the model.
        findings: what is wrong; empty for a model that treats positions right.
        passed: checks without a finding.
        skipped: checks that do not apply, with the reason.
    """

    model: str
    findings: list[Finding]
    passed: list[str]
    skipped: dict[str, str]

    @property
    def ok(self) -> bool:
        """Return whether nothing was found."""
        return not self.findings

    def __str__(self) -> str:
        lines = [f"{self.model}: {len(self.findings)} findings, {len(self.passed)} checks passed"]
        for each in self.findings:
            lines += [f"- {each.check}", f"  seen: {each.seen}", f"  effect: {each.effect}", f"  where: {each.where}"]
        lines += [f"  passed: {name}" for name in self.passed]
        lines += [f"  does not apply: {name} ({reason})" for name, reason in self.skipped.items()]
        return "\n".join(lines)


@torch.no_grad()
def audit(model: nn.Module) -> AuditReport:
    """Check that a model treats positions right: wiring only, on copies of the model with random weights.

    Each patch and each row of the position table must reach its own token; a table at another size must be the right
    way round; a grid of another shape must not be taken for the own one; sizes in turn must not leak caches; a batch
    must agree with its images one by one, also of several sizes with padding, or packed into one row; attention between
    equal tokens must depend on offsets only; positions must stay distinct in half precision; patches that move together
    with their positions must change nothing else.

    Args:
        model: a model that `loope.attach` supports, with or without encoders; it stays as it is.

    Raises:
        LoopeError: if the model is not supported, or no check applies to it.

    Examples:
        >>> import timm, loope
        >>> report = loope.audit(timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2))
        >>> report.ok
        True
    """
    findings: list[Finding] = []
    passed: list[str] = []
    skipped: dict[str, str] = {}
    branches = adapter_for(unwrapped(model)).branches()
    for number, branch in enumerate(branches):
        subject = Subject(model, number)
        for title, check in CHECKS.items():
            name = title if len(branches) == 1 else f"{branch.name}: {title}"
            try:
                found = check(subject)
            except LoopeError as reason:
                skipped[name] = str(reason)
                continue
            if found is None:
                passed.append(name)
            else:
                findings.append(found._replace(check=name))
    name = type(unwrapped(model)).__name__
    if not findings and not passed:
        raise LoopeError(f"No check applies to {name}: {next(iter(skipped.values()))}")
    return AuditReport(name, findings, passed, skipped)
