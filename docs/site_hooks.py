"""What the site adds to the pages of this folder, while `make docs` builds it.

- README, CONTRIBUTING and CHANGELOG of the repository become pages, with their links made to fit.
- Pages that the navigation does not name get a place in it, in the order of their names.
- `reference/commands.md` is written from the commands themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put pages that the navigation does not name into it: methods, and then all others."""
    docs = Path(config.docs_dir)
    named = set(_named(config.nav or []))
    found = {page.relative_to(docs).as_posix() for page in docs.rglob("*.md")} - named
    sections = {name: pages for entry in config.nav or () for name, pages in entry.items()}
    sections["Methods"] += sorted(name for name in found if name.startswith("methods/"))
    sections["Guide"] += sorted(name for name in found if "/" not in name)
    sections["Tutorials"] += sorted(name for name in found if name.startswith("tutorials/"))
    return config


def _named(entry: Any) -> Iterator[str]:
    """The pages below an entry of the navigation."""
    if isinstance(entry, str):
        yield entry
    else:
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from _named(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that do not lie in this folder."""
    for name, page in PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=LINK.sub(_moved, text)))
    files.append(File.generated(config, "reference/commands.md", content=commands()))
    return files


def _moved(link: re.Match[str]) -> str:
    """A link of a file in the root, as it is from a page of the site."""
    picture, text, target, anchor = link[1], link[2], link[3], link[4] or ""
    if target in PAGES:
        return f"{picture}[{text}]({PAGES[target]}{anchor})"
    if target.startswith("docs/"):
        inside = target.removeprefix("docs/")
        page = f"{inside}index.md" if inside.endswith("/") else inside
        return f"{picture}[{text}]({page}{anchor})"
    return text  # a file of the repository that is no page, such as LICENSE


def commands() -> str:
    """Every command with its arguments and options."""
    from labelproof.__main__ import application

    lines = [
        "# Command line",
        "",
        "`labelproof COMMAND --help` prints the same on your screen. Every command ends with exit",
        "code 0 on success, 2 on bad usage or bad input, and 1 if the run itself failed.",
        "",
    ]
    found: Any = typer.main.get_command(application())
    for name, command in found.commands.items():
        lines += _command(name, command)
    return "\n".join(lines)


def _command(name: str, command: Any) -> Iterator[str]:
    yield from (f"## labelproof {name}", "")
    for paragraph in (command.help or "").split("\n\n"):
        yield from (_example(_cell(paragraph)), "")
    yield from ("| argument or option | meaning |", "|---|---|")
    context = typer.Context(command, info_name=name)
    for parameter in command.params:
        spelled, meaning = parameter.get_help_record(context) or ("", "")
        if spelled:
            yield f"| `{spelled.replace('|', ', ')}` | {_cell(meaning)} |"
    yield ""


def _example(paragraph: str) -> str:
    head, colon, code = paragraph.partition("Example: ")
    return f"{head}Example: `{code}`" if colon else paragraph


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")
