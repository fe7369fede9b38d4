"""Models, data and recipes of each preset, shared by the tables.

`paper` is the published protocol. `laptop` is sized for two cores: at most 20 minutes a run. `smoke` takes seconds, on
synthetic data: it only checks that a table can be computed.
"""

from __future__ import annotations

import dataclasses

from loope.lab.engine.recipe import Recipe
from loope.lab.experiments.names import DATA, MODELS, SMALL_MODELS, TINY_MODELS, TINY_VIT
from loope.lab.experiments.spec import Data, Encoder, Model, Options, Run

# "Adam, a cosine LR schedule (1e-3 to 2.5e-5), standard augmentations", 150 epochs; bfloat16 is ours.
PAPER = Recipe(
    epochs=150, batch_size=64, optimizer="adam", lr=1e-3, min_lr=2.5e-5, augment="crop", precision="bfloat16"
)
PAPER_PETS = dataclasses.replace(PAPER, batch_size=96)
SMOKE = Recipe(epochs=1, batch_size=8)
# The laptop's results of LOOPE used PyTorch's initialization, the default at that time, and keep it. The table of
# LOOPE's variants has a row for today's default.
LAPTOP_OPTIONS: dict[str, Options] = {"loope": {"initialization": "torch"}}


def _laptop_encoder(name: str, options: Options | None = None) -> Encoder:
    return Encoder(name=name, options={**LAPTOP_OPTIONS.get(name, {}), **(options or {})})


def image_run(
    preset: str,
    model: str,
    data: str,
    encoder: str,
    encoder_options: Options | None = None,
    *,
    size: int | None = None,
    scratch: bool = False,
) -> Run:
    """Create a run on photographs.

    Args:
        preset: one of `PRESETS`.
        model: the paper's name of the model.
        data: the paper's name of the data set.
        encoder: our name of the encoder.
        encoder_options: options of the encoder.
        size: image size, if not the model's default.
        scratch: train the whole network from random weights.
    """
    options = {} if size is None else {"image_size": size}
    if preset == "smoke":
        tiny = {} if size is None else {"image_size": 48 if size > 300 else 32}
        return Run(
            model=TINY_MODELS[model],
            encoder=Encoder(name=encoder, options=encoder_options or {}),
            data=Data(name="fake", options={"size": 40, "classes": 4, **tiny}),
            recipe=SMOKE,
        )
    weights = "scratch" if scratch else "pretrained"
    if preset == "laptop":
        return Run(
            model=Model(name=SMALL_MODELS[model], weights=weights),
            encoder=_laptop_encoder(encoder, encoder_options),
            data=Data(name=DATA[data], options={**LAPTOP_DATA[data], **options}),
            recipe=dataclasses.replace(LAPTOP_IMAGES, epochs=_laptop_epochs(model, data)),
        )
    return Run(
        model=Model(name=MODELS[model], weights=weights),
        encoder=Encoder(name=encoder, options=encoder_options or {}),
        data=Data(name=DATA[data], options={"split": "80-10-10", **options}),
        recipe=PAPER_PETS if data == "Oxford-IIIT" else PAPER,
    )


def swapped_run(preset: str, encoder: Encoder) -> Run:
    """Create a run on Pets with an encoder that starts from the pretrained model's own encoding."""
    run = image_run(preset, "ViT-Base", "Oxford-IIIT", encoder.name, encoder.options)
    if preset == "smoke":
        # There is no file of a model that was handed over.
        return dataclasses.replace(run, encoder=encoder if encoder.init == "own" else run.encoder)
    if preset == "laptop":
        # On all test images: a point is then more than noise. Half the epochs, as nothing has to be repaired.
        data = dataclasses.replace(run.data, options={**run.data.options, "test": "all"})
        run = dataclasses.replace(run, data=data).with_epochs(5)
    return dataclasses.replace(run, encoder=encoder)


# A common rate for short fine-tuning; the paper's is ten times higher.
LAPTOP_IMAGES = Recipe(
    epochs=10, batch_size=32, optimizer="adamw", lr=1e-4, min_lr=2.5e-6, warmup=1.0, weight_decay=0.05, clip=1.0,
    augment="crop", precision="bfloat16",
)  # fmt: skip
# A step of the smallest CaiT takes 2.8 times, of the smallest CrossViT 1.4 times as long as one of ViT-Tiny.
# One image per class of 1,000 is little training data, and much validation data.
LAPTOP_FEWER = {"CaiT": 3, "Cross-ViT": 7, "ImageNet-1k": 8}
# `per_class`: images per class for training and test; a quarter of that for validation.
LAPTOP_DATA: dict[str, dict[str, object]] = {
    "Oxford-IIIT": {"split": "official", "per_class": 30},
    "CIFAR-100": {"split": "official", "per_class": 10},
    "ImageNet-1k": {"split": "official", "per_class": 1},
    "ImageNet-100": {"split": "official", "per_class": 10},
}


def _laptop_epochs(model: str, data: str) -> int:
    return min(LAPTOP_FEWER.get(name, LAPTOP_IMAGES.epochs) for name in (model, data))


def three_cell_run(preset: str, encoder: str, options: Options | None = None, grid: int | None = None) -> Run:
    """Create a run of a transformer on Three-Cell; `grid` overrides that of the preset."""
    side = grid or {"smoke": 4, "laptop": 7, "paper": 14}[preset]
    data, recipe = _three_cell(preset, side)
    chosen = _laptop_encoder(encoder, options) if preset == "laptop" else Encoder(name=encoder, options=options or {})
    if preset == "paper":
        return Run(
            model=Model(name=MODELS["DeiT-Base"], weights="pretrained"), encoder=chosen, data=data, recipe=recipe
        )
    cell = data.options["cell"]
    shape = {"embed_dim": 96, "depth": 4, "num_heads": 4} if preset == "laptop" else {
        "embed_dim": 24, "depth": 2, "num_heads": 2}  # fmt: skip
    model = Model(name="vit_tiny_patch16_224", options={**shape, "img_size": side * cell, "patch_size": cell})
    return Run(model=model, encoder=chosen, data=data, recipe=recipe)


def three_cell_cnn(preset: str, name: str, small: str) -> Run:
    """Create a run of a convolutional network on Three-Cell: the paper's, or a small replacement."""
    data, recipe = _three_cell(preset, {"smoke": 5, "laptop": 7, "paper": 14}[preset])
    if preset == "smoke":  # Inception needs at least 75 pixels
        data = Data(name="three_cell", options={**data.options, "cell": 16})
    model = Model(name=name, weights="pretrained") if preset == "paper" else Model(name=small)
    return Run(model=model, encoder=Encoder(name="own"), data=data, recipe=recipe)


def _three_cell(preset: str, side: int) -> tuple[Data, Recipe]:
    if preset == "smoke":
        return Data(name="three_cell", options={"size": 40, "grid": side, "cell": 4}), SMOKE
    if preset == "paper":
        data = Data(name="three_cell", options={"size": 10_000, "grid": side, "cell": 16})
        return data, dataclasses.replace(PAPER, augment="none")
    # Cells of 4 pixels hold the same information as cells of 16, and are cheap to render.
    epochs = LAPTOP_EPOCHS[side]
    recipe = Recipe(
        epochs=epochs, batch_size=64, optimizer="adamw", lr=1e-3, min_lr=2.5e-5, warmup=epochs / 10, weight_decay=0.05,
        clip=1.0,
    )  # fmt: skip
    return Data(name="three_cell", options={"size": 10_000, "grid": side, "cell": 4}), recipe


# One core trains about 300 images of 7x7 cells a second and 68 of 14x14: 13 and 17 minutes.
LAPTOP_EPOCHS = {7: 30, 14: 8}

# The recipe under which encoders leave the plateau of Three-Cell, decided on 18 November 2026 before LOOPE was run
# with it: docs/results/plateau.md. A run costs about a tenth of one with the recipe above.
STUDY = Recipe(
    epochs=3, batch_size=64, optimizer="muon", lr=4e-3, min_lr=8e-5, warmup=0.3, weight_decay=0.05, clip=1.0,
    precision="bfloat16", start="equal", attention_gain=3.0, beta2=0.95,
)  # fmt: skip
# Read out by attention pooling: through a class token, encoders stay on the plateau several times as long.
STUDY_MODEL: Options = {
    "embed_dim": 64, "depth": 2, "num_heads": 4, "global_pool": "map", "class_token": False, "weight_init": "jax",
}  # fmt: skip
# 36,000 samples for training and 2,000 each for validation and test.
STUDY_DATA: Options = {"size": 40_000, "cell": 4, "fractions": [0.9, 0.05, 0.05]}
STUDY_GRIDS = {7: [5, 10, 14], 14: [7, 10, 20]}  # trained on -> also tested on


def study_run(preset: str, encoder: str, options: Options | None = None, grid: int = 7) -> Run:
    """Create a run on Three-Cell with the recipe of the study, tested on other grids too; `smoke` is a short one."""
    data: Options = {**STUDY_DATA, "grid": grid, "other_grids": STUDY_GRIDS[grid]}
    model: Options = {**STUDY_MODEL, "img_size": grid * 4, "patch_size": 4}
    recipe = STUDY
    if preset == "smoke":
        data = {"size": 60, "grid": 4, "cell": 4, "fractions": [0.6, 0.2, 0.2], "other_grids": [5]}
        model = {**model, "embed_dim": 16, "num_heads": 2, "img_size": 16}
        recipe = dataclasses.replace(STUDY, epochs=1, batch_size=8)
    return Run(
        model=Model(name="vit_tiny_patch16_224", options=model),
        encoder=Encoder(name=encoder, options=options or {}),
        data=Data(name="three_cell", options=data),
        recipe=recipe,
    )


def measured(preset: str, encoder: str, directions: tuple[int, ...] = (60,)) -> Run:
    """Create a measurement: PESI of an untrained encoder, at the paper's 14x14 and width 768 (6x6 for smoke).

    An untrained learned table would be noise, so it is taken from the pretrained model, with that model's width.
    """
    shape = {"grid": 14, "dim": 768, "heads": 12, "depth": 12, "patch_size": 16}
    if preset == "smoke":
        shape = {"grid": 6, "dim": 24, "heads": 2, "depth": 2, "patch_size": 4}
    name = (SMALL_MODELS if preset == "laptop" else MODELS)["ViT-Base"]
    return Run(
        model=TINY_MODELS["ViT-Base"] if preset == "smoke" else Model(name=name, weights="pretrained"),
        encoder=Encoder(name=encoder),
        data=Data(name="grid", options={**shape, "directions": list(directions)}),
    )


# "batch size of 64 and trained for 100 epochs ... learning rate of 0.0001 and an 80-20 train-validation split."
PAPER_SEGMENTATION = Recipe(
    epochs=100, batch_size=64, optimizer="adam", lr=1e-4, min_lr=1e-4, augment="scale-crop-flip", precision="bfloat16"
)
LAPTOP_SEGMENTATION = Recipe(
    epochs=12, batch_size=8, optimizer="adamw", lr=3e-4, min_lr=3e-6, warmup=1.0, weight_decay=0.05, clip=1.0,
    augment="scale-crop-flip", precision="bfloat16",
)  # fmt: skip
DECODERS = {"SETR": ("pup", "naive"), "Segmenter": ("mask", "linear")}  # for the paper preset, for the others


def segmentation_run(preset: str, model: str, encoder: str) -> Run:
    """Create a run of SETR or Segmenter."""
    large, small = DECODERS[model]
    if preset == "smoke":
        options = {"backbone": "vit_tiny_patch16_224", "decoder": small, "backbone_options": TINY_VIT}
        return Run(
            model=Model(name=model, options=options),
            encoder=Encoder(name=encoder),
            data=Data(name="fake_segmentation", options={"size": 20, "classes": 3, "image_size": [32, 48]}),
            recipe=Recipe(epochs=1, batch_size=4),
        )
    name, decoder = (SMALL_MODELS["ViT-Base"], small) if preset == "laptop" else (MODELS["DeiT-Base"], large)
    data = (
        Data(name="camvid", options={"image_size": [240, 320]})
        if preset == "laptop"
        else Data(name="cityscapes", options={"image_size": [512, 1024], "split": "80-20"})
    )
    return Run(
        model=Model(name=model, options={"backbone": name, "decoder": decoder}, weights="pretrained"),
        encoder=_laptop_encoder(encoder) if preset == "laptop" else Encoder(name=encoder),
        data=data,
        recipe=LAPTOP_SEGMENTATION if preset == "laptop" else PAPER_SEGMENTATION,
    )
