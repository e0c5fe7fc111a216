"""Which settings a cell takes that has none of its own, and the note that says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from labelproof.bench.asked import experiment
from labelproof.bench.cell import Sources
from labelproof.bench.results import Record, Results
from labelproof.bench.scales import nearest_recipe
from labelproof.bench.tables import borrowed, settings_files
from labelproof.methods import METHODS
from labelproof.recipes.recipe import published_names


def note(name: str, data: Path, methods: tuple[str, ...]) -> list[str]:
    labels = ("aggre", "rand1", "worst") if name == "cifarn" else None
    sources = Sources(out=Path("b"), data=data, methods=methods, labels=labels)
    cells = experiment(name).cells("paper", sources, 1)
    return borrowed(
        Results(scale="paper", records=tuple(Record(cell=c, folder=Path("b")) for c in cells))
    )


@pytest.mark.parametrize(
    ("method", "wanted", "taken"),
    [
        ("pes", "cifar10-symmetric-0.2", "cifar10-default"),
        ("pes", "cifar10-symmetric-0.5", "cifar10-default"),
        ("pes", "cifar100-asymmetric-0.4", "cifar100-default"),
        ("pes", "cifar10n-rand2", "cifar10n-rand2"),
        ("mixup", "cifar10n-worst", "cifar10-asymmetric-0.4"),
        ("forward", "cifar10n-aggre", "cifar10-asymmetric-0.1"),
        ("elr_plus", "cifar100n", "cifar100n"),
        ("mlnt", "cifar10-asymmetric-0.4", "cifar10-default"),
        ("mlnt", "cifar100-symmetric-0.5", "cifar100n"),
        ("mlnt", "cifar10n-worst", "cifar10n-worst"),
    ],
)
def test_the_most_similar_settings(method, wanted, taken):
    assert nearest_recipe(method, wanted) == taken


@pytest.mark.parametrize("method", [name for name in METHODS if published_names(name)])
@pytest.mark.parametrize("wanted", ["cifar10-symmetric-0.5", "cifar100-asymmetric-0.4"])
def test_settings_stay_with_the_classes_of_the_data(method, wanted):
    data = wanted.partition("-")[0]
    known = {name.partition("-")[0] for name in published_names(method)}
    assert nearest_recipe(method, wanted).partition("-")[0] == data or data not in known


def test_a_default_for_any_noise_counts_as_borrowed(cifar_folder):
    (line,) = note("synthetic", cifar_folder, ("pes", "elr"))
    assert "pes (cifar10-default): CIFAR-10 sym. 20%" in line
    assert "pes (cifar100-default): CIFAR-100 sym. 20%" in line
    assert "elr" not in line


def test_settings_by_label_set_are_not_borrowed(cifar_folder):
    assert note("cifarn", cifar_folder, ("pes", "sop", "sop_plus")) == []
    (line,) = note("cifarn", cifar_folder, ("mixup",))
    assert "mixup (cifar10-asymmetric-0.1): aggre" in line


def test_our_reading_of_a_method_is_not_called_published(cifar_folder):
    (line,) = note("synthetic", cifar_folder, ("coteaching", "dpc"))
    assert "the authors' trainer was used" in line
    assert "coteaching: CIFAR-10 sym. 20%" in line
    assert "dpc" not in line


def test_every_cell_names_its_recipe_network_and_source(cifar_folder, tmp_path):
    sources = Sources(out=Path("b"), data=cifar_folder, methods=("coteaching", "dpc"))
    cells = experiment("synthetic").cells("paper", sources, 2)
    records = tuple(Record(cell=c, folder=Path("b")) for c in cells)
    text = settings_files(Results(scale="paper", records=records), tmp_path)[0].read_text()
    assert text.count("| dpc |") == text.count("| coteaching |") == 12
    line = "| dpc | CIFAR-10 sym. 50% | cifar10-symmetric-0.5 |  | preact18 | Zong, Wang, Xie"
    assert line in text
    assert "NeurIPS 2018: our reading: main.py, told the true share" in text
