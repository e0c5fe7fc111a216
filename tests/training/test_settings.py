"""Hyper-parameters: ranges, `--set` and the nearest name."""

from __future__ import annotations

import math
from dataclasses import FrozenInstanceError, fields, replace
from typing import Literal

import pytest

from labelproof.errors import BadInput
from labelproof.training.settings import (
    Count,
    Natural,
    NonNegative,
    Positive,
    Share,
    WarmUp,
    check_shorter,
    nearest,
    read_changes,
    record,
    settings_of,
    split_settings,
)


@record
class Record:
    epochs: Count = 10
    warmup: Natural = 0
    lr: Positive = 0.1
    decay: NonNegative = 0.0
    momentum: Share = 0.9
    kurtosis: float = 1.2
    nesterov: bool = False
    mode: Literal["fast", "slow"] = "fast"
    level: Literal[1, 2] = 1
    milestones: tuple[Count, ...] = (5, 8)
    limit: Positive | None = None
    label: str = ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 1),
        ("warmup", 0),
        ("lr", 1e-9),
        ("lr", 1),
        ("decay", 0),
        ("momentum", 0.0),
        ("momentum", 1.0),
        ("kurtosis", -3.0),
        ("nesterov", True),
        ("mode", "slow"),
        ("level", 2),
        ("milestones", ()),
        ("limit", None),
        ("limit", 2.0),
    ],
)
def test_values_in_range_are_taken(name, value):
    assert getattr(Record(**{name: value}), name) == value


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("epochs", 0, "a whole number at least 1"),
        ("epochs", 2.5, "a whole number"),
        ("epochs", True, "a whole number"),
        ("epochs", "3", "a whole number"),
        ("epochs", None, "a whole number"),
        ("warmup", -1, "at least 0"),
        ("lr", 0.0, "a number above 0"),
        ("lr", math.nan, "above 0"),
        ("lr", math.inf, "above 0"),
        ("decay", -1e-9, "at least 0"),
        ("momentum", 1.001, "from 0 to 1"),
        ("kurtosis", "much", "a number"),
        ("nesterov", 1, "true or false"),
        ("nesterov", None, "true or false"),
        ("mode", "medium", "one of 'fast', 'slow'"),
        ("level", 3, "one of 1, 2"),
        ("limit", -1.0, "a number above 0"),
        ("label", 7, "text"),
    ],
)
def test_values_out_of_range_are_refused_in_a_sentence(name, value, wanted):
    with pytest.raises(BadInput) as caught:
        Record(**{name: value})
    sentence = str(caught.value)
    assert sentence.startswith(f"Record: {name} must be ")
    assert wanted in sentence
    assert sentence.endswith(f"not {value!r}.")


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("epochs", "25", 25),
        ("lr", "1e-3", 0.001),
        ("lr", "2", 2.0),
        ("nesterov", "true", True),
        ("nesterov", "No", False),
        ("nesterov", "1", True),
        ("nesterov", "0", False),
        ("mode", "slow", "slow"),
        ("level", "2", 2),
        ("milestones", "3", (3,)),
        ("milestones", "3,6,9", (3, 6, 9)),
        ("milestones", "", ()),
        ("limit", "0.5", 0.5),
        ("label", "a=b", "a=b"),
    ],
)
def test_text_is_read_as_the_type_of_the_setting(name, text, value):
    changed = replace(Record(), **read_changes(Record(), {name: text}))
    found = getattr(changed, name)
    assert found == value
    assert type(found) is type(value)
    others = [f.name for f in fields(Record) if f.name != name]
    assert all(getattr(changed, other) == getattr(Record(), other) for other in others)


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("epochs", "many", "a whole number at least 1, got 'many'"),
        ("epochs", "2.5", "a whole number"),
        ("lr", "", "a number above 0"),
        ("nesterov", "perhaps", "true or false"),
        ("mode", "Fast", "one of 'fast', 'slow'"),
        ("level", "3", "one of 1, 2"),
        ("milestones", "3,x", "a whole number"),
    ],
)
def test_text_that_cannot_be_read_is_refused_with_the_setting(name, text, wanted):
    with pytest.raises(BadInput, match=f"--set {name}: expected ") as caught:
        replace(Record(), **read_changes(Record(), {name: text}))
    assert wanted in str(caught.value)


def test_text_that_reads_well_must_be_in_range_too():
    with pytest.raises(BadInput, match=r"Record: lr must be a number above 0, not -1\.0\."):
        replace(Record(), **read_changes(Record(), {"lr": "-1"}))


def test_an_unknown_setting_is_answered_with_the_nearest():
    with pytest.raises(BadInput) as caught:
        read_changes(Record(), {"momentun": "0.5"})
    sentence = str(caught.value)
    assert sentence.startswith("Record has no setting 'momentun'; did you mean 'momentum'? known: ")
    assert all(name in sentence for name in settings_of(Record()))


def test_no_guess_where_nothing_is_near():
    assert nearest("zzzz", ["alpha", "beta"]) == "known: alpha, beta"
    assert nearest("steps", ["epochs", "lr"]) == "known: epochs, lr"
    assert nearest("alpa", ["alpha", "beta"]) == "did you mean 'alpha'? known: alpha, beta"


def test_settings_of_a_record_in_order():
    assert list(settings_of(Record()))[:3] == ["epochs", "warmup", "lr"]
    assert settings_of(Record(lr=0.3))["lr"] == 0.3


def test_pairs_are_split_at_the_first_equals_sign():
    pairs = split_settings(["lr=0.1", " mode = slow ", "label=a=b", "milestones="])
    assert pairs == {"lr": "0.1", "mode": "slow", "label": "a=b", "milestones": ""}


@pytest.mark.parametrize("pair", ["lr", "=0.1", ""])
def test_what_is_no_pair_is_refused_with_an_example(pair):
    with pytest.raises(BadInput, match=r"--set expects name=value, for example --set lr=0\.02"):
        split_settings([pair])


@record
class Staged(Record):
    warmup: WarmUp = 0
    scout: Natural = 0

    def __post_init__(self) -> None:
        check_shorter(self, "scout")
        if self.nesterov and not self.momentum:
            raise BadInput("Staged: nesterov needs momentum.")


def test_a_record_checks_its_types_first_and_then_what_it_says_itself():
    with pytest.raises(BadInput, match="Staged: epochs must be a whole number"):
        Staged(epochs=0, scout=20)
    with pytest.raises(BadInput, match="Staged: warmup must be smaller than epochs, not 10 of 10"):
        Staged(warmup=10, scout=20)
    with pytest.raises(BadInput, match="Staged: scout must be smaller than epochs, not 20 of 10"):
        Staged(scout=20)
    with pytest.raises(BadInput, match="nesterov needs momentum"):
        replace(Staged(momentum=0.0), nesterov=True)
    assert [f.name for f in fields(Staged)] == [*(f.name for f in fields(Record)), "scout"]


def test_a_record_is_frozen_and_takes_names_alone():
    with pytest.raises(FrozenInstanceError):
        Record().lr = 1.0
    with pytest.raises(TypeError):
        Record(5)


def test_a_form_of_a_record_keeps_its_checks():
    @record
    class Form(Staged):
        lr: Positive = 0.5

    with pytest.raises(BadInput, match="Form: scout must be smaller"):
        Form(scout=20)
