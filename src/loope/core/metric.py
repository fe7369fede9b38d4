"""torchmetrics' base class, or a placeholder that raises when a metric is created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from loope.core.errors import MissingPackageError

try:
    from torchmetrics import Metric as Metric
except ImportError:
    if not TYPE_CHECKING:

        class Metric:
            """Lets metric classes be defined and documented without torchmetrics."""

            def __init__(self, **_: Any):
                raise MissingPackageError(f"{type(self).__name__} needs torchmetrics: pip install 'loope[metrics]'.")
