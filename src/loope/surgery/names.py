"""The names of an attachment's weights in the state dict of its model."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")
# Prefixes of the names of our weights, and of the model's own encoding among them.
OURS, OWN = "loope.", "loope.own."
# An empty buffer whose name is a message: torch lists it among the unexpected keys when a state dict with encoders is
# loaded into a model without them, where no other code of ours runs.
HINT = "read_with_loope_load_or_call_loope_attach_first"


def as_if_detached(named: dict[str, T], part: str = "") -> dict[str, T]:
    """Rename the entries of a state dict as if detached: the own encoding at its old place, nothing of ours.

    `part` is the prefix of the names of the attached model, if it is a part of another.
    """
    own, ours = part + OWN, part + OURS
    back = {
        part + name.removeprefix(own).replace("/", ".") if name.startswith(own) else name: named[name] for name in named
    }
    return {name: value for name, value in back.items() if not name.startswith(ours)}
