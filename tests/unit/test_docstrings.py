"""The first words of docstrings: a subject or an imperative verb, for a reader who is new here."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("operator/spotrun", "trainer_image", "bench", "demo", "devcluster", "charts", "tests")

# An opening with one of these leaves its subject out: it begins a relative clause, a bare
# preposition, or a pronoun that refers to nothing yet. "Whether ..." describes a boolean.
RELATIVE_WORDS = """who whom whose whoever what whatever which whichever that those where wherever
    when whenever how as so"""
BARE_PREPOSITIONS = "of for in to with by from beside on at until"
PRONOUNS = "it its they them their he his she her nobody"
WRONG_OPENINGS = frozenset(f"{RELATIVE_WORDS} {BARE_PREPOSITIONS} {PRONOUNS}".split())

# The packages that are not clean yet, and the wrong openings each may still have. It only shrinks.
NOT_YET_CLEAN = {
    "operator/spotrun/policies": 19,
}


def openings(source: str) -> list[tuple[int, str]]:
    """Return the line and the first word of each docstring."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [
        (getattr(node, "lineno", 1), text.split()[0].strip('.,:;`"').lower())
        for node in ast.walk(ast.parse(source))
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    ]


def package(path: Path) -> str:
    """Return the folder that a file counts for: one below the roots of the two products."""
    depth = 3 if path.parts[0] in ("operator", "trainer_image") else 1
    return "/".join(path.parent.parts[:depth])


@cache
def wrong_openings() -> dict[str, list[str]]:
    """Return each wrong opening as "file:line word", by package; tests are named by sentences."""
    found: dict[str, list[str]] = {}
    for folder in SOURCES:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = file.relative_to(ROOT)
            if path.name.startswith("test_"):
                continue
            found.setdefault(package(path), []).extend(
                f"{path}:{line} {word}"
                for line, word in openings(file.read_text())
                if word in WRONG_OPENINGS
            )
    return found


def test_docstrings_open_with_a_subject_or_a_verb() -> None:
    too_many = {
        name: wrong
        for name, wrong in wrong_openings().items()
        if len(wrong) > NOT_YET_CLEAN.get(name, 0)
    }
    assert too_many == {}


def test_only_packages_that_are_not_clean_are_excused() -> None:
    left = Counter({name: len(wrong) for name, wrong in wrong_openings().items()})
    assert [name for name in NOT_YET_CLEAN if not left[name]] == []


@pytest.mark.parametrize(
    ("docstring", "is_wrong"),
    [
        ("Of the limit; who only warns needs nothing.", True),
        ("Those that are alive.", True),
        ('"What" a script may ask.', True),
        ("Return the part of the budget that is kept back.", False),
        ("Whether the node is gone.", False),
    ],
)
def test_an_opening_is_judged_by_its_first_word(docstring: str, is_wrong: bool) -> None:
    [(_, word)] = openings(f"def f():\n    '''{docstring}'''")
    assert (word in WRONG_OPENINGS) == is_wrong
