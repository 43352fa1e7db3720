"""The section "What was tried" of docs/security.md, out of the tests that try it.

Run as `.venv/bin/python -m tests.support.docs.attack_table` to write it anew.
"""

import importlib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

ROOT = Path(__file__).parents[3]
DOCUMENT = ROOT / "docs/security.md"
FOLDER = Path("tests/integration/attacks")
TITLE = "## What was tried"
TOPICS = {
    "test_tenants": "Tenants who want more than they were given",
    "test_neighbours": "Tenants who want more than their share",
    "test_forgeries": "What looks like the operator's own",
    "test_tokens": "Tokens",
    "test_reports": "Reports of a worker that lies",
    "test_paths": "Paths",
    "test_words": "Words for a log or a terminal",
    "test_floods": "Floods",
    "test_plain_ports": "Ports without tokens",
    "test_rights": "The operator itself",
}
_INTRODUCTION = """\
{number} attempts. Each is refused with a message, or does no harm. Each line is a test in
[{folder}](../{folder}) and repeats its name; after a colon it lists
the variants that are tried. The API server is a real one.
"""


@dataclass(frozen=True)
class Attempt:
    """One test."""

    sentence: str
    outcome: str
    ways: tuple[str, ...] = ()

    @property
    def row(self) -> str:
        """The attack's line in the table."""
        ways = f": {'; '.join(self.ways)}" if self.ways else ""
        return f"| {self.sentence}{ways} | {self.outcome} |"


def attempts(module: str) -> list[Attempt]:
    """The attempts of one file, in its order."""
    loaded = importlib.import_module(".".join((*FOLDER.parts, module)))
    return [_attempt(name, function) for name, function in _tests(loaded)]


def section() -> str:
    """The whole section."""
    found = {topic: attempts(module) for module, topic in TOPICS.items()}
    number = sum(len(one.ways) or 1 for several in found.values() for one in several)
    parts = [TITLE, _INTRODUCTION.format(folder=FOLDER, number=number).rstrip()]
    for topic, several in found.items():
        rows = "\n".join(one.row for one in several)
        parts.append(f"### {topic}\n\n| Attempt | Result |\n|---|---|\n{rows}")
    return "\n\n".join(parts) + "\n"


def written(document: str) -> str:
    """The document with the section as it should be: its last one."""
    return document.partition(TITLE)[0] + section()


def _tests(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    for name, value in vars(module).items():
        is_own = isinstance(value, FunctionType) and value.__module__ == module.__name__
        if is_own and name.startswith("test_"):
            yield name, value


def _attempt(name: str, function: FunctionType) -> Attempt:
    outcome = inspect.getdoc(function)
    assert outcome, f"{name} does not say what comes of it"
    sentence = name.removeprefix("test_").replace("_", " ")
    ways = [way for mark in getattr(function, "pytestmark", ()) for way in _ways(mark)]
    return Attempt(sentence, " ".join(outcome.split()), tuple(ways))


def _ways(mark: Any) -> list[str]:
    if mark.name != "parametrize":
        return []
    return [str(way) for way in mark.kwargs.get("ids") or mark.args[1]]


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text()))
