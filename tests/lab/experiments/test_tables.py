"""The tables as they are written down: complete, consistent, and naming things that exist."""

import inspect

import pytest
import timm

import loope
from loope.lab.experiments import names
from loope.lab.experiments.runner import EXPERIMENTS
from loope.lab.experiments.table import PRESETS, get_table, table_names

every_table = pytest.mark.parametrize("name", table_names())
every_preset = pytest.mark.parametrize("preset", PRESETS)


def test_all_tables_are_there():
    assert table_names() == [
        *(f"table{number}" for number in range(1, 8)),
        "alignment",
        "encoders",
        "inputs",
        "maps",
        "refined",
        "scratch",
        "swap",
        "trend",
    ]


def test_an_unknown_table_lists_those_there_are():
    with pytest.raises(loope.LoopeError, match=r"Unknown table 'table9'; use one of: .*table1"):
        get_table("table9")


@every_table
def test_a_table_opens_with_what_it_reproduces_and_costs(name):
    opening = inspect.getdoc(inspect.getmodule(get_table(name).entries))
    assert "Reproduces" in opening or "Beyond the paper" in opening
    assert "Cost:" in opening
    assert f"loope run {name}" in opening


@every_table
@every_preset
def test_entries_fill_columns_that_exist_and_each_cell_once(name, preset):
    table = get_table(name)
    heads = [column.head for column in table.columns]
    assert len(set(heads)) == len(heads)
    filled = [(entry.row, column) for entry in table.entries(preset) for column in entry.cells]
    assert {column for _, column in filled} <= set(heads)
    assert len(set(filled)) == len(filled)


@every_table
def test_every_published_number_has_a_run_in_the_paper_preset(name):
    table = get_table(name)
    filled = {(entry.row, column) for entry in table.entries("paper") for column in entry.cells}
    published = {(row, column) for row, line in table.published.items() for column in line}
    laptop = {(entry.row, column) for entry in table.entries("laptop") for column in entry.cells}
    stand_ins = {(row, column) for row, column in published if row.endswith((", 14x14", "(for ResNet-50)"))}
    assert published - stand_ins <= filled
    assert stand_ins <= laptop


@every_table
@every_preset
def test_runs_name_encoders_data_and_models_that_exist(name, preset):
    for entry in get_table(name).entries(preset):
        run = entry.run
        assert run.encoder.name in {"own", *loope.list_encoders()}
        assert run.data.name in EXPERIMENTS
        model = run.model.options.get("backbone", run.model.name)
        if run.model.weights == "pretrained":
            tagged = timm.list_pretrained(f"{model}*")
            assert any(known == model or known.split(".")[0] == model for known in tagged), model
        else:
            assert timm.is_model(model), model


@pytest.mark.parametrize(
    ("name", "runs"),
    [("table1", 5 * 3 * 5), ("table2", 7 * 3), ("table3", 2 * 7), ("table6", 4 * 3), ("table7", 2 * 3 * 2)],
)
def test_the_paper_preset_has_the_published_runs(name, runs):
    table = get_table(name)
    published = {(row, column) for row, line in table.published.items() for column in line}
    keys = {
        entry.run.key
        for entry in table.entries("paper")
        if any((entry.row, column) in published for column in entry.cells)
    }
    assert len(keys) == runs


def test_the_paper_preset_is_the_published_protocol():
    pets, cifar = (
        next(entry.run for entry in get_table("table1").entries("paper") if entry.row.startswith(data))
        for data in ("Oxford-IIIT", "CIFAR-100")
    )
    for run, batch in ((pets, 96), (cifar, 64)):
        recipe = run.recipe
        assert (recipe.epochs, recipe.batch_size, recipe.optimizer) == (150, batch, "adam")
        assert (recipe.lr, recipe.min_lr, recipe.train) == (1e-3, 2.5e-5, "all")
        assert (run.model.weights, run.data.options["split"]) == ("pretrained", "80-10-10")
    large = [entry.run for entry in get_table("table7").entries("paper") if entry.row.startswith("384")]
    assert all((run.recipe.batch_size, run.data.options["image_size"]) == (32, 384) for run in large)
    probe = next(entry.run for entry in get_table("table4").entries("paper") if entry.row == "LOOPE")
    assert dict(probe.data.options) == {"size": 10_000, "grid": 14, "cell": 16}
    assert probe.model.name.startswith("deit_base")


@every_table
@every_preset
def test_no_run_is_written_in_two_ways(name, preset):
    """`loope tables` counts runs without their keys, which need torch."""
    runs = {entry.run for entry in get_table(name).entries(preset)}
    assert len({run.key for run in runs}) == len(runs)


def test_tables_share_runs():
    """The same run under two tables has one folder, so it is done once."""
    table4 = {entry.run.key for entry in get_table("table4").entries("laptop")}
    for name in ("inputs", "alignment"):
        assert table4 & {entry.run.key for entry in get_table(name).entries("laptop")}


def test_runs_of_another_length_are_other_runs():
    table, longer = get_table("table4"), get_table("table4").with_epochs(60)
    for entry, other in zip(table.entries("laptop"), longer.entries("laptop"), strict=True):
        assert other.run.recipe.epochs == 60
        assert other.run.recipe.warmup / 60 == pytest.approx(entry.run.recipe.warmup / entry.run.recipe.epochs)
        assert other.run.key != entry.run.key
        assert other.run.with_epochs(entry.run.recipe.epochs).key == entry.run.key
    assert table.with_epochs(None) is table
    untrained = get_table("table5")
    assert untrained.with_epochs(3).entries("paper") == untrained.entries("paper")


def test_a_class_list_goes_with_imagenet_100():
    table = get_table("scratch").with_images(["n1"], False)
    assert all(entry.run.data.options["classes"] == ["n1"] for entry in table.entries("paper"))
    with pytest.raises(loope.LoopeError, match="ImageNet-100"):
        get_table("table1").with_images(["n1"], False).select("paper")


def test_only_chooses_by_row_column_model_and_encoder():
    table = get_table("table1")
    chosen = table.select("paper", "Oxford-IIIT / ViT* | LOOPE")
    assert [entry.row for entry in chosen] == ["Oxford-IIIT / ViT-Base"]
    assert {entry.run.encoder.name for entry in table.select("paper", "loope")} == {"loope"}
    two = {entry.run.encoder.name for entry in table.select("paper", "gilbert", "*LOOPE")}
    assert two == {"gilbert", "loope"}
    with pytest.raises(loope.LoopeError, match="--only 'cat'"):
        table.select("paper", "loope", "cat")
    assert {entry.run.model.name for entry in table.select("paper", "cait*")} == {names.MODELS["CaiT"]}
    with pytest.raises(loope.LoopeError, match=r"Nothing in table1 fits --only 'cat'\. Its entries:\n  Oxford"):
        table.select("paper", "cat")
    with pytest.raises(loope.LoopeError, match="Unknown preset 'huge'"):
        table.select("huge")


def test_slower_models_train_for_fewer_epochs_on_a_laptop():
    epochs = {entry.row: entry.run.recipe.epochs for entry in get_table("table1").entries("laptop")}
    for data, most in (("Oxford-IIIT", 10), ("CIFAR-100", 10), ("ImageNet-1k", 8)):
        found = {model: epochs[f"{data} / {model}"] for model in ("ViT-Base", "DeiT-Base", "CaiT", "Cross-ViT")}
        assert found == {"ViT-Base": most, "DeiT-Base": most, "CaiT": 3, "Cross-ViT": 7}
    published = {entry.run.recipe.epochs for entry in get_table("table1").entries("paper")}
    assert published == {150}
