"""The pages name what exists, and say it in sentences of a readable length."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from labelproof import run_files
from labelproof.methods import METHODS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
LONGEST = 40  # words of a sentence
NO_PROSE = ("|", "!", "#", ">")


@pytest.mark.parametrize("name", [name for name in METHODS if METHODS[name].about.link])
def test_every_published_method_has_a_page_with_a_link_to_its_paper(name: str) -> None:
    page = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    assert METHODS[name].about.link in page
    assert f"]({name}.md)" in (DOCS / "methods" / "index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", list(METHODS))
def test_a_page_names_every_setting(name: str) -> None:
    page = (DOCS / "methods" / f"{name}.md").read_text(encoding="utf-8")
    table = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    named = set(re.findall(r"`(\w+)`", " ".join(table)))
    assert {field.name for field in fields(METHODS[name])} - named == set()


def test_the_page_on_architecture_names_every_package() -> None:
    text = (DOCS / "architecture.md").read_text(encoding="utf-8")
    packages = [path.parent.name for path in (ROOT / "src" / "labelproof").glob("*/__init__.py")]
    assert len(packages) > 10
    assert [name for name in packages if f"`{name}/`" not in text] == []


def test_the_page_on_runs_lists_every_file_of_a_run_folder() -> None:
    text = (DOCS / "runs.md").read_text(encoding="utf-8")
    names = [name for key, name in vars(run_files).items() if key.isupper()]
    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in text and f"`{name}/`" not in text] == []


def test_files_that_pages_name_exist() -> None:
    for page in PAGES:
        if page.name == "adding-a-method.md":  # names the files of a method that is to be
            continue
        for name in re.findall(r"`((?:src|tests|benchmarks)/[\w./]+)`", page.read_text("utf-8")):
            assert (ROOT / name).exists(), f"{page.name} names {name}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_sentence_is_too_long(page: Path) -> None:
    assert [s for s in sentences(page.read_text("utf-8")) if len(s.split()) > LONGEST] == []


def sentences(text: str) -> list[str]:
    """The sentences of a page, without code, tables, headings and formulas."""
    text = re.sub(r"^( *)```.*?^\1```", "\n\n", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    prose = ["" if line.startswith(NO_PROSE) else line for line in text.splitlines()]
    blocks = re.split(r"\n\s*\n|\n\s*(?:[-*]|\d+\.) ", "\n".join(prose))
    ends = re.compile(r"(?<=[.!?:;])[\"*)]*\s+(?=[A-Z`*0-9(\"λβγ])")
    return [sentence for block in blocks for sentence in ends.split(" ".join(block.split()))]
