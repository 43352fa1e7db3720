"""Documents hold: links lead somewhere, commands exist, manifests load, the source map is true."""

import argparse
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from spotrun.api import load
from spotrun.cli.kubectl import VERBS

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split())  # type: ignore[index]

DOCUMENTS = sorted(
    path
    for part in ROOT.iterdir()
    if not part.name.startswith(".")
    for path in ([part] if part.suffix == ".md" else part.rglob("*.md"))
    if not any(folder.startswith(".") for folder in path.relative_to(ROOT).parts)
)


def name(document: Path) -> str:
    return str(document.relative_to(ROOT))


every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=name)


def prose(document: Path) -> str:
    """The text without its code blocks: brackets in code are no links."""
    return re.sub(
        r"^```.*?^```$|^ {4}.*?$", "", document.read_text(), flags=re.DOTALL | re.MULTILINE
    )


def anchors(document: Path) -> set[str]:
    """The anchors that a forge makes of the headings."""
    headings = re.findall(r"^#+ (.*)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


@every_document
def test_relative_links_lead_somewhere(document: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(target)

    assert broken == []


@every_document
def test_make_targets_in_documents_exist(document: Path) -> None:
    commands = re.findall(
        r"(?:`|^ {4}(?:\$ )?)make ((?:[\w=.-]+ ?)+)", document.read_text(), re.MULTILINE
    )
    named = {word for words in commands for word in words.split() if "=" not in word}

    assert named <= TARGETS


def plugin_commands(document: Path) -> list[str]:
    """The `kubectl tjob` command lines of a document that name a verb."""
    found = re.findall(
        r"(?:`|^ {4}(?:\$ )?)kubectl tjob ([a-z]+\b[^`\n|#>]*)", document.read_text(), re.MULTILINE
    )
    return [command.strip() for command in found]


@pytest.mark.parametrize(
    "document", [path for path in DOCUMENTS if plugin_commands(path)], ids=name
)
def test_plugin_commands_in_documents_can_be_typed(document: Path) -> None:
    for command in plugin_commands(document):
        verb, *words = shlex.split(command.partition(" -- ")[0])
        parser = argparse.ArgumentParser(prog=f"{name(document)}: {command}")
        VERBS[verb].describe(parser)
        if words and words != ["--help"]:  # a verb alone is spoken of
            parser.parse_args(words)


def test_the_page_of_the_command_line_names_every_verb() -> None:
    commands = plugin_commands(ROOT / "docs/command-line.md")

    assert {command.split()[0] for command in commands} == {*VERBS}


def test_make_help_has_a_text_for_every_target() -> None:
    shown = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout
    plain = re.sub(r"\x1b\[\d*m", "", shown)

    assert set(re.findall(r"^ *([a-z0-9-]+) +\S", plain, re.MULTILINE)) == TARGETS
    groups = [part.split("\n")[0] for part in plain.split("\n\n")[1:]]
    assert groups == ["Set up", "Check, and write what is generated", "Test", "Measure", "Try it"]


def trainingjobs(document: Path) -> list[dict[str, Any]]:
    """The TrainingJobs in the YAML blocks of a document."""
    blocks = re.findall(r"^```ya?ml\n(.*?)^```$", document.read_text(), re.DOTALL | re.MULTILINE)
    loaded = [part for block in blocks for part in yaml.safe_load_all(block)]
    return [part for part in loaded if isinstance(part, dict) and part.get("kind") == "TrainingJob"]


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if trainingjobs(path)], ids=name)
def test_trainingjobs_in_documents_load_strictly(document: Path) -> None:
    for manifest in trainingjobs(document):
        load(manifest)


def test_readme_shows_a_trainingjob() -> None:
    assert len(trainingjobs(ROOT / "README.md")) == 1


def test_the_architecture_page_links_every_decision() -> None:
    decisions = sorted(path.name for path in (ROOT / "docs/adr").glob("*.md"))
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()

    assert [one[:4] for one in decisions] == [f"{n:04}" for n in range(1, len(decisions) + 1)]
    assert [one for one in decisions if f"](adr/{one})" not in page] == []


def source_map() -> set[str]:
    """Each path in the source map of the architecture page."""
    page = (ROOT / "docs/ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| (`[^`]+`(?:, `[^`]+`)*) \|.*\|$", page, re.MULTILINE)
    assert len(rows) > 10
    return {path for row in rows for path in re.findall(r"`([^`]+)`", row)}


def exists(path: Path) -> bool:
    """Whether something that would be checked in is at this path: git keeps no empty folders."""
    return path.is_file() or any(
        file.is_file() and "__pycache__" not in file.parts for file in path.rglob("*")
    )


def test_source_map_tells_what_exists() -> None:
    assert {path for path in source_map() if not exists(ROOT / path)} == set()


def test_source_map_names_every_package() -> None:
    roots = [ROOT / "operator/spotrun", ROOT / "trainer_image/spotrun_trainer"]
    packages = {file.parent for root in roots for file in root.rglob("*.py")} - {*roots}
    there = {f"{package.relative_to(ROOT)}/" for package in packages}

    assert there - source_map() == set()
