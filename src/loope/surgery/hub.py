"""Attached models on the Hugging Face hub, or in a local folder with the same layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from loope.core.errors import MissingPackageError
from loope.surgery.checkpoint import load, save

try:
    from huggingface_hub import ModelHubMixin, hf_hub_download
except ImportError:
    raise MissingPackageError("The hub needs huggingface_hub: pip install huggingface_hub.") from None

FILE = "model.safetensors"


class HubModel(nn.Module, ModelHubMixin, library_name="loope", tags=["positional-encoding"]):
    """Add `save_pretrained`, `push_to_hub` and `from_pretrained` to an attached model.

    Examples:
        `HubModel(model).push_to_hub("me/vit-with-loope")`, then `HubModel.from_pretrained("me/vit-with-loope").model`.
    """

    def __init__(self, model: nn.Module, model_args: dict[str, Any] | None = None):
        super().__init__()
        self.model = model
        self.model_args = model_args

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.model(*args, **kwargs)

    def _save_pretrained(self, save_directory: Path) -> None:
        save(self.model, save_directory / FILE, model_args=self.model_args)

    @classmethod
    def _from_pretrained(cls, *, model_id: str, **arguments: Any) -> HubModel:
        local = Path(model_id) / FILE
        if local.is_file():
            return cls(load(local))
        known = {"revision", "cache_dir", "force_download", "token", "local_files_only"}
        fetched = hf_hub_download(model_id, FILE, **{key: value for key, value in arguments.items() if key in known})
        return cls(load(fetched))
