"""A run folder from somebody else: its links lead nowhere, its damaged files are refused."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
import torch
from saved_runs import copied

from labelproof import report
from labelproof.data.encoders.texts import TransformerEncoder
from labelproof.data.examples import Examples, Resident
from labelproof.errors import BadInput
from labelproof.files import write_text
from labelproof.runs.journal import Journal
from labelproof.runs.labels_file import read_rows
from labelproof.runs.load import with_named_encoder
from labelproof.runs.ownership import sealed
from labelproof.runs.reviewed import open_review
from labelproof.runs.votes_file import read_crowd, read_votes


@pytest.mark.parametrize(
    "name", ["labels.csv", "decisions.jsonl", "notes.txt", ".report.html.partial"]
)
def test_links_and_pipes_in_a_run_folder_are_refused(run, tmp_path, name):
    saved_run = copied(run, tmp_path / "run")
    secret = tmp_path / "secret"
    secret.write_text("mine")
    for make in (lambda path: path.symlink_to(secret), os.mkfifo):
        (saved_run / name).unlink(missing_ok=True)
        make(saved_run / name)
        for look in (report.write, lambda run: open_review(run, write=True)):
            with pytest.raises(BadInput, match="link, a pipe or a device"):
                look(saved_run)
    assert secret.read_text() == "mine"


def test_writing_never_goes_through_a_link(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("mine")
    (tmp_path / ".page.partial").symlink_to(secret)
    write_text(tmp_path / "page", "page")
    assert (secret.read_text(), (tmp_path / "page").read_text()) == ("mine", "page")
    (tmp_path / "lines").symlink_to(secret)
    with pytest.raises(OSError, match="lines"):
        Journal(tmp_path / "lines", "busy")


def test_a_vote_outside_the_run_is_refused(tmp_path):
    head = "index,annotator,label,p_right\n"
    for line in ("9,a,x,0.5", "-1,a,x,0.5", "0,a,z,0.5", "0,a,x,nan", "0,a,x", "1e99,a,x,0.5"):
        (tmp_path / "votes.csv").write_text(head + line + "\n")
        with pytest.raises(BadInput):
            read_votes(tmp_path, ["x", "y"], 3)
    (tmp_path / "votes.csv").write_text(head + "2,a,x,0.5\n")
    assert read_votes(tmp_path, ["x", "y"], 3) == {2: [("a", "x", 0.5)]}
    for content in ('{"annotators": ["a"], "confusion": [[[1]]]}', "[" * 9999, '{"annotators": 1}'):
        (tmp_path / "annotators.json").write_text(content)
        with pytest.raises(BadInput):
            read_crowd(tmp_path, 2)


def test_long_names_of_examples_are_read_back(tmp_path):
    name = "x" * 200_000
    lines = "index,id,given,suggested,p_clean,p_suggested,margin,suspect\n"
    (tmp_path / "labels.csv").write_text(f"{lines}0,{name},a,a,1,1,1,0\n")
    rows = read_rows(tmp_path, ["a", "b"], 1)
    assert list(rows.ids) == [name]
    assert np.array_equal(rows.suspect, [False])


def test_an_encoder_file_of_somebody_else_is_not_opened(tmp_path):
    encoder = TransformerEncoder(column="t", model=str(tmp_path), fingerprint="0" * 64)
    like = Examples(x=Resident(torch.empty((0, 4))), labels=None, encoder=encoder)
    record = {"data": {"encoding": encoder.describe()}}
    with pytest.raises(BadInput, match="--encoder"):
        with_named_encoder(like, record, None)
    assert with_named_encoder(like, sealed(record), None) is like
    other = replace(like, encoder=replace(encoder, model="/elsewhere"))
    with pytest.raises(BadInput, match="/elsewhere"):
        with_named_encoder(other, sealed(record), None)
    moved = with_named_encoder(other, record, "/named").encoder
    assert moved == replace(encoder, model="/named")
    package = replace(like, encoder=replace(encoder, model="minilm"))
    assert with_named_encoder(package, record, None) is package
