"""torchmetrics' base class, or a stand-in that says what to install when a metric is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loope.core.errors import MissingPackageError

try:
    from torchmetrics import Metric as Metric
except ImportError:
    if not TYPE_CHECKING:

        class Metric:
            """So that the classes can be named, listed and documented without torchmetrics."""

            def __init__(self, **_: Any):
                raise MissingPackageError(f"{type(self).__name__} needs torchmetrics: pip install 'loope[metrics]'.")
