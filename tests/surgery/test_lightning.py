"""PyTorch Lightning trains, saves and restores attached models."""

import pytest
import timm
import torch
from torch.utils.data import DataLoader, TensorDataset

import loope
from tests.surgery.models import TIMM

lightning = pytest.importorskip("pytorch_lightning")


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.model = loope.attach(timm.create_model("vit_tiny_patch16_224", **TIMM), ["loope", "rope_mixed"])

    def training_step(self, batch, index):
        images, labels = batch
        return torch.nn.functional.cross_entropy(self.model(images), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def trainer(folder, **options):
    return lightning.Trainer(
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
        **options,
    )


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_training_is_saved_and_restored(tmp_path):
    images, labels = torch.randn(8, 3, 32, 32), torch.arange(8) % 4
    loader = DataLoader(TensorDataset(images, labels), batch_size=4)
    whole = Classifier()
    start = {name: each.clone() for name, each in whole.state_dict().items()}
    trainer(tmp_path, max_epochs=2, enable_checkpointing=False).fit(whole, loader)
    for name, each in whole.named_parameters():
        assert torch.equal(each, start[name]) == (not each.requires_grad), name
    half = Classifier()
    first = trainer(tmp_path, max_epochs=1, enable_checkpointing=False)
    first.fit(half, loader)
    first.save_checkpoint(tmp_path / "half.ckpt")
    again = Classifier()
    trainer(tmp_path, max_epochs=2, enable_checkpointing=False).fit(
        again, loader, ckpt_path=tmp_path / "half.ckpt", weights_only=True
    )
    for name, each in whole.state_dict().items():
        assert torch.equal(again.state_dict()[name], each), name
    shape = {name: value for name, value in TIMM.items() if name not in ("img_size", "num_classes")}
    saved = loope.load(loope.save(again.model, tmp_path / "model.safetensors", model_args=shape))
    assert torch.equal(saved.eval()(images), again.model.eval()(images))
