"""The tensors of modules, read without `state_dict()`, which takes milliseconds for thousands.

What a module saves follows from the names in its tree, unless a class, a hook or an instance
changes it. So everything that it follows from is compared with its value at the last call of
`state_dict()`, and while it is equal, the tensors are read directly. Each comparison is made for
all modules at once: a loop over them would take most of the time that is saved.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import attrgetter, itemgetter
from typing import Any, cast

from torch import Tensor, nn

from spotrun_trainer.parallel.local import PLAIN_KINDS

_METHODS = (
    *("state_dict", "_save_to_state_dict", "get_extra_state", "__getattribute__"),
    *("parameters", "named_parameters", "_named_members", "modules", "named_modules"),
)
"""If a class or an instance overrides one of these, its `state_dict()` is called."""
_DICTS = ("_modules", "_parameters", "_buffers")
_HOOKS = ("_state_dict_pre_hooks", "_state_dict_hooks")
_TRANSIENT = "_non_persistent_buffers_set"


@dataclass(frozen=True)
class PlainModule:
    """A module whose state was once read both ways, with the same result."""

    facts: Sequence[object]
    num_modules: int
    is_saved: Sequence[bool]  # for each parameter and buffer

    @classmethod
    def of(cls, module: nn.Module, state: Mapping[str, Any]) -> "PlainModule | None":
        """Examine a module that returned this state; None if only itself can say what it saves."""
        tree = _tree(module)
        if tree is None:
            return None
        entries = list(_entries(module, ""))
        saved = {name: entry for name, entry in entries if name is not None}
        is_saved = [name is not None for name, _ in entries]
        is_complete = list(saved) == list(state) and len(saved) == sum(is_saved)
        if not is_complete or not all(map(_is_same, saved.values(), state.values())):
            return None
        return cls(tree.facts, tree.num_modules, is_saved)

    def tensors(self, module: nn.Module) -> list[Tensor] | None:
        """Return the tensors of its `state_dict()`, in that order; None if its tree has changed."""
        tree = _tree(module, most=self.num_modules)
        if tree is None or tree.facts != self.facts:
            return None
        saved = cast("Iterable[Tensor]", compress(tree.entries, self.is_saved))
        return list(map(Tensor.detach, saved))


@dataclass(frozen=True)
class _Tree:
    facts: Sequence[object]
    num_modules: int
    entries: Sequence[object]  # parameters and buffers, in the order of `state_dict()`


def _tree(root: nn.Module, *, most: int | None = None) -> _Tree | None:
    """Return all that the state follows from; None if it depends on something else."""
    modules = _modules(root, most)
    attributes = list(map(vars, modules))
    kinds, versions = list(map(type, modules)), list(map(attrgetter("_version"), modules))
    if not all(map(_is_plain_class, set(kinds))) or not _are_plain(attributes):
        return None
    if set(map(type, versions)) != {int} or (most is not None and len(modules) > most):
        return None
    children, parameters, buffers = (list(map(itemgetter(name), attributes)) for name in _DICTS)
    transient = enumerate(map(itemgetter(_TRANSIENT), attributes))
    held = parameters
    if any(buffers):
        held = list(chain.from_iterable(zip(parameters, buffers, strict=True)))
    entries = list(chain.from_iterable(map(dict.values, held)))
    facts = (
        *(kinds, versions, [(number, frozenset(names)) for number, names in transient if names]),
        *chain.from_iterable(map(_names, (children, parameters, buffers))),
        # A child, parameter or buffer may be None, which is not saved.
        list(map(type, chain.from_iterable(map(dict.values, children)))),
        list(map(type, entries)),
    )
    return _Tree(facts, len(modules), entries)


def _modules(root: nn.Module, most: int | None) -> list[nn.Module]:
    """List the modules of a tree, each before its children; stop after more than `most`."""
    found, pending = list[nn.Module](), [root]
    while pending and (most is None or len(found) <= most):  # one may contain itself
        one = pending.pop()
        found.append(one)
        if children := vars(one).get("_modules"):
            pending.extend(child for child in reversed(children.values()) if child is not None)
    return found


def _names(dicts: Sequence[Mapping[str, object]]) -> tuple[object, object]:
    return list(map(len, dicts)), list(chain.from_iterable(dicts))


def _is_plain_class(kind: type) -> bool:
    has_own = any(getattr(kind, name) is not getattr(nn.Module, name) for name in _METHODS)
    return not has_own and not any(hasattr(kind, name) for name in (*_DICTS, *_HOOKS, _TRANSIENT))


def _are_plain(attributes: Sequence[dict[str, Any]]) -> bool:
    """Whether modules with these attributes have the usual dicts, no hooks, and no own methods."""
    try:
        dicts = chain.from_iterable(map(itemgetter(*_DICTS), attributes))
        if set(map(type, dicts)) != {dict}:
            return False
        if any(chain.from_iterable(map(itemgetter(*_HOOKS), attributes))):
            return False
    except KeyError:
        return False
    return all(one.keys().isdisjoint(_METHODS) for one in attributes)


def _entries(module: nn.Module, prefix: str) -> Iterator[tuple[str | None, Any]]:
    """Yield parameters and buffers with their names in `state_dict()`; None for those not in it."""
    content = vars(module)
    for name, entry in content["_parameters"].items():
        yield (None if entry is None else prefix + name), entry
    for name, entry in content["_buffers"].items():
        is_left_out = entry is None or name in content[_TRANSIENT]
        yield (None if is_left_out else prefix + name), entry
    for name, child in content["_modules"].items():
        if child is not None:
            yield from _entries(child, f"{prefix}{name}.")


def _is_same(one: object, other: object) -> bool:
    """Whether two are plain tensors with the same elements in the same memory."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return False
    if not {type(one), type(other)} <= PLAIN_KINDS:
        return False
    facts = (Tensor.data_ptr, Tensor.size, Tensor.stride, attrgetter("dtype"), attrgetter("device"))
    return all(fact(one) == fact(other) for fact in facts)
