"""JSON that every reader takes: it has no NaN and no infinity, so such numbers are null."""

import json
import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """`value` with None in place of each number that is NaN or infinite."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_json(value: Any, indent: int | None = 2) -> str:
    """`value` as JSON, in one compact line if `indent` is None.

    Examples:
        >>> to_json({"mean": float("nan"), "count": 0}, indent=None)
        '{"mean":null,"count":0}'
    """
    separators = (",", ":") if indent is None else None
    return json.dumps(plain(value), indent=indent, separators=separators, allow_nan=False)
