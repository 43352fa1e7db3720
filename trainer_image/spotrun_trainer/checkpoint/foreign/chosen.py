"""The objects of a checkpoint that are exported, as their state_dict() returned them.

Tensors in a state have no content here: each stands for a tensor of the checkpoint, by its path.
"""

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from spotrun_trainer.checkpoint.foreign.saved import Saved, kind_of
from spotrun_trainer.parallel.division import marked_anew
from spotrun_trainer.state.flatten import DTYPES, JSON, Spec
from spotrun_trainer.state.unflatten import unflatten


@dataclass
class Chosen:
    """A model, and its optimizer if that is exported too."""

    saved: Saved
    model: "OrderedDict[str, Any]"
    optimizer: dict[str, Any] | None
    paths: Mapping[int, str]  # of the tensors in both, by id()

    @property
    def tensors(self) -> dict[str, str]:
        """The paths of the model's tensors, by their names in its state_dict."""
        return {n: self.path(one) for n, one in self.model.items() if isinstance(one, Tensor)}

    @property
    def others(self) -> list[str]:
        """The names in the model's state_dict of values that are not tensors."""
        return [name for name, one in self.model.items() if not isinstance(one, Tensor)]

    @property
    def state(self) -> dict[str, Any]:
        """The state to be loaded: the model's alone, or both by name."""
        if self.optimizer is None:
            return self.model
        return {"model": self.model, "optimizer": self.optimizer}

    @property
    def bytes(self) -> int:
        """The size of all tensors, each once."""
        every = {self.path(one) for one in tensors_in(self.state)}
        return sum(self.spec(path).numel * self.spec(path).itemsize for path in every)

    def path(self, tensor: Tensor) -> str:
        """Return the path in the checkpoint that a tensor stands for."""
        return self.paths[id(tensor)]

    def spec(self, path: str) -> Spec:
        """Return the type and shape of a tensor."""
        return self.saved.specs[path]


def choose(
    saved: Saved, *, name: str | None = None, optimizer: str | None = None, prefix: str = ""
) -> Chosen:
    """Choose the object tracked as `name`, and an optimizer: an empty text means the only one.

    Of the model's tensors those whose names begin with `prefix` are taken, and named without it.
    """
    stand_ins = _StandIns(saved)
    name = name_of(saved, "module", name or "", "--object")
    model = _without(prefix, _module_state(saved, name, stand_ins.tensors), name)
    of_optimizer = None
    if optimizer is not None:
        optimizer = name_of(saved, "optimizer", optimizer, "--with-optimizer")
        if saved.is_divided_by_script:
            raise ValueError(
                f"{saved.name} has an optimizer for each of the {len(saved.parts)} parts of the "
                "model, and each numbers its own parameters: leave out --with-optimizer"
            )
        of_optimizer = _state(saved.values, optimizer, stand_ins.tensors)
    return Chosen(saved, model, of_optimizer, stand_ins.paths)


def name_of(saved: Saved, kind: str, wanted: str, flag: str) -> str:
    """Return the name of a tracked object; raises ValueError with all names if it is ambiguous."""
    kinds = {name: kind_of(value) for name, value in saved.values.items()}
    known = [name for name, one in kinds.items() if one == kind]
    if wanted in known:
        return wanted
    shown = ", ".join(f"{name} ({one})" for name, one in kinds.items())
    if wanted:
        raise ValueError(f"no {kind} was tracked under the name {wanted[:80]}; tracked: {shown}")
    if len(known) != 1:
        raise ValueError(
            f"{len(known) or 'no'} {kind}s were tracked: {shown}; choose one of the {kind}s with "
            f"{flag}"
        )
    return known[0]


def tensors_in(tree: object) -> Iterator[Tensor]:
    """Yield the tensors of a state in the order in which they are pickled."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, dict):
        for one in tree.values():
            yield from tensors_in(one)
    elif isinstance(tree, (list, tuple)):
        for one in tree:
            yield from tensors_in(one)


@dataclass
class _StandIns:
    """A tensor without content for each tensor of a checkpoint; one for all that share storage."""

    saved: Saved
    tensors: dict[str, Tensor] = field(default_factory=dict)
    paths: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for path, spec in self.saved.specs.items():
            if path not in self.saved.aliases:
                dtype = DTYPES[spec.dtype]
                self.tensors[path] = torch.empty(spec.shape, dtype=dtype, device="meta")
        self.paths = {id(tensor): path for path, tensor in self.tensors.items()}
        self.tensors |= {one: self.tensors[of] for one, of in self.saved.aliases.items()}


def _module_state(
    saved: Saved, name: str, tensors: Mapping[str, Tensor]
) -> "OrderedDict[str, Any]":
    """Return a module's state; a model that the script divides itself is joined from all parts."""
    whole: OrderedDict[str, Any] = OrderedDict()
    versions: OrderedDict[str, Any] = OrderedDict()
    parts = [part.content.values for part in saved.parts]
    for values in parts if saved.is_divided_by_script else [saved.values]:
        state = _state(values, name, tensors)
        if not isinstance(state, OrderedDict) or not all(type(key) is str for key in state):
            raise ValueError(f"{saved.name} has a {name} whose state is not that of a module")
        whole.update(state)
        versions.update(vars(state).get("_metadata") or {})
    vars(whole)["_metadata"] = versions
    return whole


def _state(values: Mapping[str, JSON], name: str, tensors: Mapping[str, Tensor]) -> Any:  # noqa: ANN401 - any
    return unflatten(marked_anew(values.get(name), {}), tensors)


def _without(prefix: str, state: "OrderedDict[str, Any]", name: str) -> "OrderedDict[str, Any]":
    if not prefix:
        return state
    cut = len(prefix)
    found = OrderedDict((key[cut:], one) for key, one in state.items() if key.startswith(prefix))
    if not found:
        first = next(iter(state), "nothing")
        raise ValueError(
            f"no tensor of {name} has a name that begins with {prefix}; the first name is {first}"
        )
    return found
