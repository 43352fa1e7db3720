"""The tree can be read folder by folder: few entries each, and nothing that imports in a circle."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "operator", ROOT / "trainer_image")
MOST_ENTRIES = 15

Graph = Mapping[str, set[str]]


def modules(source: Path) -> dict[str, Path]:
    """Every module below a source root that is part of a package, by its dotted name."""
    found = {}
    for path in source.rglob("*.py"):
        parts = path.relative_to(source).with_suffix("").parts
        if (source / parts[0] / "__init__.py").is_file():
            found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports(path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    """The modules of ours that a module imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                if inner in known or node.module in known:
                    yield inner if inner in known else node.module


def graph_of(known: Mapping[str, Path]) -> dict[str, set[str]]:
    return {name: set(imports(path, known)) - {name} for name, path in known.items()}


def siblings(graph: Graph) -> dict[str, dict[str, set[str]]]:
    """Of each folder: which of its entries imports which other of its entries."""
    folders: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for name, targets in graph.items():
        parts = name.split(".")
        for depth in range(1, len(parts)):
            folder = ".".join(parts[:depth])
            entry = folders[folder][parts[depth]]
            inner = (one.split(".") for one in targets if one.startswith(f"{folder}."))
            entry |= {one[depth] for one in inner} - {parts[depth]}
    return folders


def is_entry(path: Path) -> bool:
    """Whether a reader looks at it: not at what Python wants to have there, or has left behind."""
    if path.name.startswith("__") or path.suffix == ".typed":
        return False
    return path.is_file() or any(
        file.is_file() and "__pycache__" not in file.parts for file in path.rglob("*")
    )


def circle(graph: Graph) -> list[str]:
    """One circle of imports; empty if there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


GRAPH = graph_of({name: path for source in SOURCES for name, path in modules(source).items()})
FOLDERS = siblings(GRAPH)


def test_every_folder_is_looked_at() -> None:
    assert {"spotrun", "spotrun.policies", "spotrun.policies.cost", "spotrun_trainer"} <= {*FOLDERS}
    assert sum(map(len, GRAPH.values())) > 1_000


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_few_entries_stand_side_by_side(source: Path) -> None:
    crowded = {}
    for folder in {path.parent for path in modules(source).values()}:
        entries = [one for one in folder.iterdir() if is_entry(one)]
        if len(entries) > MOST_ENTRIES:
            crowded[str(folder.relative_to(ROOT))] = len(entries)

    assert crowded == {}


def test_few_helpers_of_tests_stand_side_by_side() -> None:
    support = ROOT / "tests/support"
    folders = [ROOT / "tests", support, *(one for one in support.rglob("*") if is_entry(one))]
    crowded = {
        str(folder.relative_to(ROOT)): len(entries)
        for folder in folders
        if folder.is_dir()
        and len(entries := [one for one in folder.iterdir() if is_entry(one)]) > MOST_ENTRIES
    }

    assert crowded == {}


def test_no_two_entries_of_a_folder_import_each_other() -> None:
    pairs = [
        f"{folder}: {one} and {other}"
        for folder, entries in FOLDERS.items()
        for one, targets in entries.items()
        for other in targets
        if one < other and one in entries.get(other, ())
    ]

    assert pairs == []


def test_no_imports_run_in_a_circle() -> None:
    assert circle(GRAPH) == []
    assert {folder: found for folder, one in FOLDERS.items() if (found := circle(one))} == {}


def test_circles_and_pairs_are_found() -> None:
    graph = {
        "a.x.one": {"a.y.two"},
        "a.y.two": {"a.z"},
        "a.z": {"a.x.other"},
        "a.x.other": set[str](),
    }

    assert circle(graph) == []
    assert {*circle(siblings(graph)["a"])} == {"x", "y", "z"}
