"""Batches of images: what they hold, and that nothing but seed, epoch and step decides it."""

import multiprocessing
import pickle
import random
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from torchvision import transforms

from loope.core.seeds import derive
from loope.lab.data import ImageSource, load_images
from loope.lab.data.classification import Images, Memory
from loope.lab.data.loader import BatchRequest
from loope.lab.data.transforms import AUGMENTS, ClassificationTransform, Preparation
from tests.lab.data.dataset_files import publish_cifar100, write_cifar100
from tests.lab.data.sources import MEAN, SMALL, STD, Batches, assert_equal, training
from tests.weights import data


def timm_transform(augment: str):
    """How timm is asked for each augmentation."""
    shared = {"input_size": (3, 24, 24), "mean": MEAN, "std": STD, "interpolation": "bicubic"}
    fixed = timm.data.create_transform(**shared, crop_pct=0.875)
    if augment == "none":
        return fixed
    if augment == "flip":
        resize, crop, *rest = fixed.transforms
        return transforms.Compose([resize, crop, transforms.RandomHorizontalFlip(0.5), *rest])
    changes = {"crop": None, "randaugment": "rand-m9-mstd0.5-inc1"}[augment]
    return timm.data.create_transform(**shared, is_training=True, color_jitter=None, auto_augment=changes)


def seed_all(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def reference(images: Images, batch_size: int, epoch: int, augment: str, seed: int = 5) -> Batches:
    """One image after the other, with the global generators."""
    transform = timm_transform(augment)
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(derive("order", seed, epoch))).tolist()
    batches = []
    for step in range(len(images) // batch_size):
        made = []
        for index in order[step * batch_size : (step + 1) * batch_size]:
            picture = Image.open(images.reader.folder / images.reader.names[index]).convert("RGB")
            seed_all(derive("augment", seed, epoch, index))
            made.append((transform(picture), torch.tensor(images.labels[index])))
        batches.append(tuple(torch.stack(column) for column in zip(*made, strict=True)))
    return batches


def test_images_are_a_data_set_of_torch(pets):
    assert isinstance(pets, torch.utils.data.Dataset)
    picture, label = pets[20]
    assert (picture.mode, picture.size) == ("RGB", (50, 40))
    assert np.array_equal(np.asarray(picture), np.asarray(pets.reader.read(20)))
    assert label == pets.labels[20]
    assert [label for _, label in pets] == pets.labels
    assert len(list(pets)) == len(pets) == 30
    loader = torch.utils.data.DataLoader(pets.take([3, 12, 29]), batch_size=2, collate_fn=list)
    assert [[label for _, label in batch] for batch in loader] == [[0, 1], [1]]


def test_images_in_memory_are_a_data_set_of_torch():
    pixels = torch.arange(2 * 12, dtype=torch.uint8).view(2, 2, 2, 3)
    images = Images(Memory(["a", "b"], pixels), [1, 0], ["train"] * 2, ["x", "y"])
    assert [(np.asarray(picture).tolist(), label) for picture, label in images] == [
        (pixels[0].tolist(), 1),
        (pixels[1].tolist(), 0),
    ]


@pytest.mark.parametrize("augment", AUGMENTS)
def test_training_batches_are_timms(pets, augment):
    source = training(pets, augment=augment)
    assert (source.steps, source.samples) == (3, 24)
    for epoch in (0, 1):
        assert_equal(list(source.batches(epoch)), reference(pets, 8, epoch, augment))


@pytest.mark.parametrize("augment", sorted(set(AUGMENTS) - {"none"}))
def test_augmentation_differs_between_epochs_and_samples(pets, augment):
    twins = pets.take([3] * 16)
    first, second = (next(training(twins, 16, augment=augment).batches(epoch))[0] for epoch in (0, 1))
    assert not torch.equal(first, second)
    assert len(first.flatten(1).unique(dim=0)) > 1


def test_evaluation_shows_every_image_once_in_order(pets):
    source = ImageSource(pets, 8, SMALL, workers=0)
    assert (source.steps, source.samples) == (4, 30)
    batches = list(source.batches(0))
    assert [len(images) for images, _ in batches] == [8, 8, 8, 6]
    assert torch.cat([labels for _, labels in batches]).tolist() == list(pets.labels)
    expected = torch.stack([timm_transform("none")(pets.reader.read(index)) for index in range(30)])
    assert torch.equal(torch.cat([images for images, _ in batches]), expected)
    assert_equal(list(source.batches(7)), batches)


@pytest.mark.parametrize("options", [{"augment": "randaugment"}, {"mixup": 0.8, "cutmix": 1.0}])
def test_workers_change_nothing(pets, options):
    alone = list(training(pets, **options).batches(2))
    for workers in (1, 2):
        assert_equal(list(training(pets, **options, workers=workers).batches(2)), alone)


def test_started_workers_change_nothing(pets, monkeypatch):
    """With "spawn", as on macOS and Windows, workers get what they need as a pickle."""
    before = multiprocessing.get_start_method(allow_none=True)
    expected = next(training(pets).batches(0))
    multiprocessing.set_start_method("spawn", force=True)
    try:
        batches = training(pets, workers=1).batches(0)
        assert_equal([next(batches)], [expected])
        batches.close()
    finally:
        multiprocessing.set_start_method(before, force=True)


@pytest.mark.parametrize("augment", AUGMENTS)
def test_what_workers_get_can_be_pickled(pets, augment):
    batches = training(pets, augment=augment, mixup=0.5).maker
    request = BatchRequest(0, 1, [4, 2, 8, 1])
    copied = pickle.loads(pickle.dumps(batches))  # noqa: S301
    assert_equal([copied[request][:2]], [batches[request][:2]])


def test_real_pets_are_the_same_with_any_workers():
    images = load_images("pets", data("oxford-iiit-pet").parent).split()["train"]
    made = [next(ImageSource(images, 16, train=True, augment="crop", workers=n).batches(3, 4)) for n in (0, 2)]
    assert_equal(made[:1], made[1:])
    assert made[0][0].shape == (16, 3, 224, 224)
    assert made[0][0].abs().max() <= 1  # mean and std of 0.5


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_that_ran_before_matters(pets, workers):
    source = training(pets, workers=workers, mixup=0.5)
    whole = list(source.batches(1))
    one, other = source.batches(1), source.batches(1)  # side by side, while another is left half read
    left = source.batches(0)
    next(left)
    together = [(next(one), next(other)) for _ in range(3)]
    assert_equal([first for first, _ in together], whole)
    assert_equal([second for _, second in together], whole)
    left.close()
    assert_equal(list(training(pets, workers=workers, mixup=0.5).batches(1)), whole)


class Counting:
    """A reader that notes what is read."""

    def __init__(self, reader):
        self.reader, self.names, self.read_so_far = reader, reader.names, []

    def read(self, index):
        self.read_so_far.append(index)
        return self.reader.read(index)


def test_resuming_goes_on_and_decodes_no_more(pets):
    source = training(pets, mixup=0.5)
    whole = list(source.batches(1))
    for start in (0, 1, 2):
        assert_equal(list(source.batches(1, start)), whole[start:])
    assert list(source.batches(1, 3)) == []
    counting = Counting(pets.reader)
    list(training(replace(pets, reader=counting)).batches(1, 2))
    order = torch.randperm(30, generator=torch.Generator().manual_seed(derive("order", 5, 1))).tolist()
    assert counting.read_so_far == order[16:24]


@pytest.mark.parametrize("processes", [2, 4])
@pytest.mark.parametrize("options", [{}, {"mixup": 0.8, "cutmix": 1.0}])
def test_processes_share_the_same_training_batches(pets, processes, options):
    whole = list(training(pets, **options).batches(1, 1))
    shares = [list(training(pets, **options).batches(1, 1, (rank, processes))) for rank in range(processes)]
    assert all(len(images) == 8 // processes for share in shares for images, _ in share)
    joined = [tuple(torch.cat(column) for column in zip(*parts, strict=True)) for parts in zip(*shares, strict=True)]
    assert_equal(joined, whole)


@pytest.mark.parametrize("processes", [2, 3, 8])
def test_processes_share_every_evaluation_image_once(pets, processes):
    images = pets.take(range(17))
    source = ImageSource(images, 8, SMALL, workers=0)
    whole = list(source.batches(0))
    shares = [list(source.batches(0, share=(rank, processes))) for rank in range(processes)]
    joined = [tuple(torch.cat(column) for column in zip(*parts, strict=True)) for parts in zip(*shares, strict=True)]
    assert_equal(joined, whole)
    last = [len(share[-1][0]) for share in shares]
    assert sorted(last) == [*[0] * (processes - 1), 1]
    assert shares[last.index(0)][-1][0].shape == (0, 3, 24, 24)


@pytest.mark.parametrize("alphas", [(0.8, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_neighbours_are_mixed_by_timm(pets, alphas):
    mixed = training(pets, mixup=alphas[0], cutmix=alphas[1])
    for epoch in range(3):
        plain = list(training(pets).batches(epoch))
        for step, (images, targets) in enumerate(mixed.batches(epoch)):
            assert targets.shape == (8, 2)
            assert torch.allclose(targets.sum(1), torch.ones(8), atol=1e-6)
            for first in range(0, 8, 2):
                pair = slice(first, first + 2)
                np.random.seed(derive("mix", 5, epoch, step) % 2**32)
                mixup = timm.data.Mixup(*alphas, label_smoothing=0, num_classes=2)
                expected, wanted = mixup(plain[step][0][pair].clone(), plain[step][1][pair])
                assert torch.equal(images[pair], expected)
                assert torch.equal(targets[pair], wanted)
            assert not torch.equal(images, plain[step][0])


@pytest.mark.parametrize("workers", [0, 1])
def test_global_generators_are_left_alone(pets, workers):
    seed_all(11)
    expected = random.random(), np.random.rand(), torch.rand(1)
    seed_all(11)
    source = training(pets, augment="randaugment", mixup=0.5, workers=workers)
    list(source.batches(0))
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected


def test_images_in_memory_are_a_source_too(tmp_path, monkeypatch):
    written = write_cifar100(tmp_path, {"train": 6, "test": 4}, classes=3)
    publish_cifar100(monkeypatch, tmp_path)
    images = load_images("cifar100", tmp_path)
    plain = Preparation(size=32, mean=(0.0,) * 3, std=(1.0,) * 3, crop_pct=1.0)
    pixels, labels = next(ImageSource(images, 10, plain, workers=1).batches(0))
    expected = np.concatenate([written["train"][0], written["test"][0]])
    assert torch.equal((pixels * 255).round().to(torch.uint8), torch.from_numpy(expected))
    assert labels.tolist() == written["train"][1] + written["test"][1]


def test_sizes_need_not_be_square(pets):
    wide = Preparation(size=(16, 32))
    for options in ({}, {"train": True, "augment": "crop"}):
        assert next(ImageSource(pets, 4, wide, workers=0, **options).batches(0))[0].shape == (4, 3, 16, 32)


def test_timms_settings_are_read():
    model = timm.create_model("vit_tiny_patch16_224")
    config = timm.data.resolve_model_data_config(model)
    expected = timm.data.create_transform(**config)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8))
    found, label = ClassificationTransform(Preparation.from_timm(config))(picture, 3)
    assert torch.equal(found, expected(picture))
    assert torch.equal(label, torch.tensor(3))
