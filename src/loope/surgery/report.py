"""The report of what `attach` changed in a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import nn

from loope.surgery.find import sole_attachment, unwrapped
from loope.surgery.state import Attachment

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Report:
    """What was added to a model and what is unused; `print` or `rich.print` it.

    Attributes:
        model: class name of the model.
        encoders: names of the encoders.
        grids: the grid of each branch, as `14x14`.
        set_aside: names of the model's own parameters that are unused while attached.
        parameters_added: number of new parameters.
        parameters_set_aside: number of unused parameters.
        prefix_tokens: number of class, distillation, register and detection tokens.
        prefix: their positions: "none" or "learned".
        keep_own: whether the model's own encoding is active.
        explained: share of the own table's variance that the encoder explains, if it was fitted with `init="own"`.
        moved: how far the output moved on the images given to `attach`, relative to it.
        agreement: share of those images whose largest logit stayed the same.
        notes: further remarks.
    """

    model: str
    encoders: list[str]
    grids: list[str]
    set_aside: list[str]
    parameters_added: int
    parameters_set_aside: int
    prefix_tokens: int
    prefix: str
    keep_own: bool
    explained: float | None
    moved: float | None
    agreement: float | None
    notes: list[str]

    def rows(self) -> list[tuple[str, str]]:
        """Return the report as (key, value) rows."""
        policy = {"none": "no position", "learned": "a learned vector each"}[self.prefix]
        shown = self.set_aside if len(self.set_aside) < 5 else [*self.set_aside[:3], f"{len(self.set_aside) - 3} more"]
        own = "kept, encoders add to it" if self.keep_own else ", ".join(shown) or "the model has none"
        return [
            ("model", self.model),
            ("encoder", " + ".join(self.encoders)),
            ("grid", " and ".join(self.grids)),
            ("own encoding", own if self.keep_own or not self.set_aside else f"set aside: {own}"),
            ("parameters added", f"{self.parameters_added:,}"),
            ("parameters set aside", f"{self.parameters_set_aside:,}"),
            ("prefix tokens", f"{self.prefix_tokens}: {policy}" if self.prefix_tokens else "none in the blocks"),
            *([] if self.explained is None else [("own table explained", f"{self.explained:.1%}")]),
            *(
                []
                if self.moved is None
                else [
                    ("output moved", f"{self.moved:.2%}, with the same answer for {self.agreement:.1%} of the images")
                ]
            ),
            *(("note", note) for note in self.notes),
        ]

    def __str__(self) -> str:
        return "\n".join(f"{key:>20}  {value}" for key, value in self.rows())

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(title="loope.attach", show_header=False)
        for row in self.rows():
            table.add_row(*row)
        return table


# A model does not record whether it is pretrained, hence "if". One of these is given whenever the output changes.
SET_ASIDE = (
    "if the model is pretrained: near chance until fine-tuned, for its weights expect the encoding that was set aside; "
    "fine-tune it, or attach with init='own', which keeps what it knows"
)
FITTED = "fitted to the model's own table: close to the original; fine-tune as usual"
POORLY_FITTED = (
    "the model's own table could not be imitated well: much of what the model knew is lost until loope.transfer or "
    "fine-tuning; another encoder may fit better, or the model is not pretrained"
)
WELL = 0.8  # share of the table; encoders with more lost at most three points of top-1 in ViT-Tiny, one with 0.34 half
BESIDE = "the encoder has strength 0, so the output is the model's own; loope.transfer hands over to it"
KEPT = (
    "if the model is pretrained: less accurate until fine-tuned, with some encoders near chance, for its weights do "
    "not expect what is added; measure it, and fine-tune it"
)


def report(model: nn.Module) -> Report:
    """Return what `attach` changed in a model.

    Raises:
        LoopeError: if nothing is attached.
    """
    model = unwrapped(model)
    attachment = sole_attachment(model)
    added = [*attachment.encoders.parameters(), *attachment.prefixes.parameters()]
    host = attachment.host
    names = [name.replace("/", ".") for name in host.taken]
    encoders = attachment.encoders_of(0)
    notes = [host.note] if host.note else []
    if any(encoder.name == "irpe" and getattr(encoder, "mode", "") == "contextual" for encoder in encoders):
        notes.append(
            "contextual iRPE reads the queries: its bias is made anew for each image, which costs time and memory"
        )
    return Report(
        model=type(model).__name__,
        encoders=[encoder.name for encoder in encoders],
        grids=[str(branch.grid) for branch in attachment.branches],
        set_aside=names,
        parameters_added=sum(parameter.numel() for parameter in added),
        parameters_set_aside=sum(parameter.numel() for parameter in attachment.own.parameters()),
        prefix_tokens=attachment.branches[0].others,
        prefix=attachment.spec["prefix"],
        keep_own=attachment.spec["keep_own"],
        explained=min(host.explained, default=None),
        moved=None if host.moved is None else host.moved.relative,
        agreement=None if host.moved is None else host.moved.agreement,
        notes=notes,
    )


def start_note(attachment: Attachment, init: str | None) -> str | None:
    """Return a note on what the model needs; None if its output is as it was. `init` is that of `attach`."""
    if init is None:
        return SET_ASIDE if attachment.host.taken else KEPT
    if attachment.spec["keep_own"]:
        return BESIDE
    prefix = attachment.spec["prefix"] == "learned" or not any(
        branch.others and branch.table_prefix for branch in attachment.branches
    )
    explained = min(attachment.host.explained)
    if explained < WELL:
        return POORLY_FITTED
    return None if prefix and explained == 1 else FITTED
