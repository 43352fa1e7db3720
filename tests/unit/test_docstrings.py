"""The first words of docstrings: a subject or an imperative verb, for a reader who is new here."""

import ast
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "operator/spotrun",
    "trainer_image",
    "bench",
    "demo",
    "devcluster",
    "charts",
    "website",
    "tests",
)

# An opening with one of these leaves its subject out: it begins a relative clause, a bare
# preposition, or a pronoun that refers to nothing yet. "Whether ..." describes a boolean.
RELATIVE_WORDS = """who whom whose whoever what whatever which whichever that those where wherever
    when whenever how as so"""
BARE_PREPOSITIONS = "of for in to with by from beside on at until"
PRONOUNS = "it its they them their he his she her nobody"
WRONG_OPENINGS = frozenset(f"{RELATIVE_WORDS} {BARE_PREPOSITIONS} {PRONOUNS}".split())


def docstrings(source: str) -> list[tuple[int, str]]:
    """Return the line and the text of each docstring, also of those below constants and fields."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = list(ast.walk(ast.parse(source)))
    found = [
        (getattr(node, "lineno", 1), text)
        for node in nodes
        if isinstance(node, documented) and (text := ast.get_docstring(node))
    ]
    for node in nodes:
        body = getattr(node, "body", None)
        for one, after in pairwise(body if isinstance(body, list) else []):
            match one, after:
                case ast.Assign() | ast.AnnAssign(), ast.Expr(ast.Constant(str(text))):
                    found.append((after.lineno, text))
    return found


def openings(source: str) -> list[tuple[int, str]]:
    """Return the line and the first word of each docstring."""
    return [
        (line, text.split()[0].strip('.,:;`"').lower())
        for line, text in docstrings(source)
        if text.strip()
    ]


def wrong_openings() -> list[str]:
    """Return each wrong opening as "file:line word"; tests are named by sentences."""
    files = (file for folder in SOURCES for file in sorted((ROOT / folder).rglob("*.py")))
    return [
        f"{file.relative_to(ROOT)}:{line} {word}"
        for file in files
        if not file.name.startswith("test_")
        for line, word in openings(file.read_text())
        if word in WRONG_OPENINGS
    ]


def test_docstrings_open_with_a_subject_or_a_verb() -> None:
    assert wrong_openings() == []


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


def test_the_docstring_of_a_constant_is_judged_as_well() -> None:
    [(line, word)] = openings("LIMIT = 3\n'''Of the price.'''")
    assert (line, word) == (2, "of")
