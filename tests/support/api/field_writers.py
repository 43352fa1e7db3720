"""The writers of what the API promises, as the syntax of the code shows them.

A field of a status is written where its model is made with it, or where its name is a keyword of
`replace`, or a key of what a model is copied with. A reason, or a condition, is written where it
stands as a value: not where it is compared, looked up, or a key.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Self, get_args, get_origin

from spotrun.api.model import Model

ROOT = Path(__file__).parents[3] / "operator/spotrun"
_LOOKS_UP = {"find", "holds_since", "_condition", "isinstance", "_level", "_stated"}
"""Functions whose arguments are asked for, not said."""
_LISTS = (ast.Tuple, ast.List, ast.Set, ast.Starred)


@dataclass(frozen=True)
class Module:
    """The names, fields and values of the API that one module uses."""

    names: frozenset[str]  # whatever it mentions
    made: frozenset[tuple[str, str]]  # class and keyword of what it calls
    keys: frozenset[str]  # of dicts, and of what is replaced
    values: frozenset[tuple[str, str]]  # class and attribute that stand as values
    read: frozenset[str]  # attributes

    @classmethod
    def of(cls, source: str) -> Self:
        """Read it."""
        tree = ast.parse(source)
        nodes = list(ast.walk(tree))
        parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
        attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        return cls(
            names=frozenset(_names(nodes)),
            made=frozenset(pair for call in calls for pair in _keywords(call)),
            keys=frozenset(_keys(nodes)),
            values=frozenset(
                (node.value.id, node.attr)
                for node in attributes
                if isinstance(node.value, ast.Name) and _is_value(node, parents)
            ),
            read=frozenset(node.attr for node in attributes),
        )


@dataclass(frozen=True)
class Code:
    """Modules, by their paths in the operator."""

    modules: dict[str, Module] = field(default_factory=dict)

    @classmethod
    def within(cls, *folders: str) -> Self:
        """Read the folders and files of the operator."""
        roots = (ROOT / folder for folder in folders)
        files = (f for root in roots for f in ([root] if root.is_file() else root.rglob("*.py")))
        return cls({str(f.relative_to(ROOT)): Module.of(f.read_text()) for f in files})

    def writes(self, model: str, name: str, *, is_unique: bool) -> bool:
        """Whether some module sets a field; a key says whose it is by the model beside it."""
        return any(
            (model, name) in one.made or (name in one.keys and (is_unique or model in one.names))
            for one in self.modules.values()
        )

    def says(self, member: Enum) -> bool:
        """Whether it stands as a value somewhere."""
        wanted = (type(member).__name__, member.name)
        return any(wanted in one.values for one in self.modules.values())

    def reads(self, name: str) -> bool:
        """Whether some module looks at an attribute of that name."""
        return any(name in one.read for one in self.modules.values())

    def without(self, *paths: str) -> "Code":
        """Return the code but for these modules."""
        return Code({known: one for known, one in self.modules.items() if known not in paths})

    def that_call(self, *names: str) -> "Code":
        """Only the modules that mention one of these."""
        return Code({path: one for path, one in self.modules.items() if one.names & {*names}})


def models(root: type[Model]) -> Iterator[type[Model]]:
    """Return a model and all that are parts of it, each once."""
    known, found = {root}, [root]
    while found:
        model = found.pop()
        yield model
        for info in model.model_fields.values():
            new = {part for part in _parts(info.annotation) if part not in known}
            known |= new
            found += sorted(new, key=lambda part: part.__name__)


def _parts(annotation: Any) -> Iterator[type[Model]]:
    if isinstance(annotation, type) and issubclass(annotation, Model):
        yield annotation
    is_nested = get_origin(annotation) is not None or isinstance(annotation, UnionType)
    inner = (
        get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    )
    for one in inner if is_nested else ():
        yield from _parts(one)


def _names(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from (alias.name for alias in node.names)


def _keywords(call: ast.Call) -> Iterator[tuple[str, str]]:
    made = call.func
    name = made.id if isinstance(made, ast.Name) else getattr(made, "attr", "")
    for keyword in call.keywords:
        if keyword.arg is not None and not _is_nothing(keyword.value):
            yield name, keyword.arg


def _keys(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (_text(key) for key, value in pairs if key and not _is_nothing(value))
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            yield _text(node.slice)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "replace":
            yield from (name for _, name in _keywords(node))
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "dict.fromkeys":
            yield from (_text(one) for one in ast.walk(node) if isinstance(one, ast.Constant))


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_nothing(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_value(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> bool:
    above: ast.AST = parents[node]
    if isinstance(above, ast.Attribute) and above.attr == "value":
        node, above = above, parents[above]
    below: ast.AST = node
    while isinstance(above, _LISTS):
        below, above = above, parents[above]
    if isinstance(above, ast.Call):
        called = ast.unparse(above.func).rpartition(".")[2]
        return called not in _LOOKS_UP | {"frozenset", "set"}
    if isinstance(above, ast.Dict):
        return below in above.values
    if isinstance(below, ast.Set):
        return False
    return not isinstance(above, ast.Compare | ast.Subscript | ast.MatchValue | ast.Attribute)
