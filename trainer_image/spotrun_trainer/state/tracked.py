"""The state of a training: the objects given to `run.track`, as one tree and back.

Loading writes into the existing tensors, so parameters keep their identity, and all objects that
hold one (an optimizer, a compiled graph, a bucket of gradients) stay valid. For that a load has two
steps: `landing` returns the tensors that the content goes into, and `load` gives the objects their
state once it has arrived.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, Protocol, cast

import torch
from torch.nn import Module
from torch.optim import Optimizer

from spotrun_trainer.parallel.division import Division, divisions_in
from spotrun_trainer.parallel.local import division_of, is_divided, local
from spotrun_trainer.state.allocation import allocate, check_room
from spotrun_trainer.state.cache import LastFlat
from spotrun_trainer.state.flatten import JSON, Branch, Flat, Spec, flatten
from spotrun_trainer.state.optimizer_casts import undo_casts
from spotrun_trainer.state.parameter_names import named_parameters, names_of_optimizers
from spotrun_trainer.state.plain_modules import PlainModule
from spotrun_trainer.state.plain_optimizers import PlainOptimizer
from spotrun_trainer.state.unflatten import unflatten

SHOWN = 3
"""The names that a message lists; the others are only counted."""

Rule = Literal["mean", "sum", "last"]
"""The way in which a step combines its microbatches' changes to buffers."""


class Stateful(Protocol):
    """An object that can be tracked: a module, optimizer, schedule, scaler, or your own class."""

    def state_dict(self) -> Any:  # noqa: ANN401  # torch's are typed so
        """Return everything that is needed to continue from here."""

    def load_state_dict(self, state_dict: Any) -> Any:  # noqa: ANN401
        """Continue from a state."""


@dataclass(frozen=True)
class _Module:
    """A module's state as it was flattened last."""

    plain: PlainModule | None  # None: only the module itself can say what it saves
    paths: Sequence[str]
    values: JSON
    settled: Sequence[int]


@dataclass(frozen=True)
class _Optimizer:
    """An optimizer's state of its parameters as it was flattened last."""

    plain: PlainOptimizer
    paths: Sequence[str]
    values: JSON


class Tracked:
    """The objects that make up a training, by name."""

    def __init__(self, mesh: object = None) -> None:
        """Start with no objects; torch divides their tensors among the processes of `mesh`."""
        self._mesh = mesh
        self._things: dict[str, Stateful] = {}
        self._branches: dict[str, Branch] = {}
        self._modules: dict[str, _Module] = {}
        self._optimizers: dict[str, _Optimizer] = {}
        self._last = LastFlat()

    def add(self, name: str, thing: Stateful) -> None:
        """Track an object under a name that no other has."""
        if not name.isidentifier():
            raise ValueError(
                f"{name!r} cannot be the name of a tracked object: use a word like `model`"
            )
        if name in self._things:
            raise ValueError(f"{name} is tracked already: give each object a name of its own")
        for method in ("state_dict", "load_state_dict"):
            if not callable(getattr(thing, method, None)):
                raise ValueError(  # noqa: TRY004
                    f"{name} cannot be tracked: a {type(thing).__name__} has no {method}(); "
                    "track modules, optimizers, schedules and classes that have both methods"
                )
        for other, known in self._things.items():
            if known is thing:
                raise ValueError(f"{name} is tracked already, as {other}")
        self._things[name] = thing

    @property
    def things(self) -> Mapping[str, Stateful]:
        """The objects themselves."""
        return self._things

    def flatten(self) -> Flat:
        """Return the state as it is now, with the live tensors."""
        is_looked_at = self._last.is_none
        flat, is_known = self._flatten()
        if not is_known or not self._last.complete(flat):
            if not is_looked_at:  # each tensor of it
                self._branches.clear()
                self._modules.clear()
                self._optimizers.clear()
                flat, _ = self._flatten()
            each = (_volatile(name, thing, flat) for name, thing in self._things.items())
            flat.volatile = frozenset[str]().union(*each)
            self._last.remember(flat)
        return flat

    def _flatten(self) -> tuple[Flat, bool]:
        """Return the state, and whether all modules hold their tensors as they did last time."""
        flat, is_known = Flat(), True
        for name, thing in self._things.items():
            if isinstance(thing, Module):
                is_known &= self._flatten_module(name, thing, flat)
            elif isinstance(thing, Optimizer):
                self._flatten_optimizer(name, thing, flat)
            else:
                flat.values[name] = self._flatten_state(name, thing.state_dict(), flat)
        return flat, is_known

    def _flatten_module(self, name: str, module: Module, flat: Flat) -> bool:
        known = self._modules.get(name)
        tensors = known.plain.tensors(module) if known and known.plain else None
        if known and tensors is not None:
            flat.tensors.update(zip(known.paths, tensors, strict=True))
            flat.values[name] = known.values
            return True
        num_before, state = len(flat.tensors), module.state_dict()
        values = flat.values[name] = self._flatten_state(name, state, flat)
        settled = _settled(module)
        if known and not known.plain and known.settled == settled:
            return True
        paths = list(islice(flat.tensors, num_before, None))
        self._modules[name] = _Module(PlainModule.of(module, state), paths, values, settled)
        return False

    def _flatten_optimizer(self, name: str, optimizer: Optimizer, flat: Flat) -> None:
        known = self._optimizers.get(name)
        if known and (found := known.plain.read(optimizer)) is not None:
            tensors, groups = found
            flat.tensors.update(zip(known.paths, tensors, strict=True))
            rest = flatten(groups, f"{name}/param_groups", flat.tensors, self._branches)
            flat.values[name] = {"state": known.values, "param_groups": rest}
            return
        num_before, state = len(flat.tensors), optimizer.state_dict()
        values = flat.values[name] = self._flatten_state(name, state, flat)
        if (plain := PlainOptimizer.of(optimizer, state)) is not None:
            paths = list(islice(flat.tensors, num_before, num_before + plain.num_tensors))
            self._optimizers[name] = _Optimizer(plain, paths, cast("Any", values)["state"])

    def _flatten_state(self, name: str, state: object, flat: Flat) -> JSON:
        if not isinstance(state, Mapping):
            kind = type(state).__name__
            raise ValueError(f"{name}.state_dict() returned a {kind}, not a dict")  # noqa: TRY004
        return flatten(state, name, flat.tensors, self._branches)

    def is_weight(self, path: str, volatile: frozenset[str]) -> bool:
        """Whether a tensor is a parameter or an optimizer's state, equal in all processes.

        `volatile` are those of the state as it is now.
        """
        name, _, _ = path.partition("/")
        thing = self._things[name]
        if isinstance(thing, Optimizer):
            return path.startswith(f"{name}/state/")
        return isinstance(thing, Module) and path not in volatile

    def parameters(self) -> dict[str, list[list[str]]]:
        """Return the names of each optimizer's parameters, by group, as it numbers them."""
        return names_of_optimizers(self._things)

    def parameter_names(self) -> list[str]:
        """Return the names of the modules' parameters."""
        return [name for name, _ in named_parameters(self._things)]

    @property
    def is_divided(self) -> bool:
        """Whether torch may divide its tensors among several processes."""
        return self._mesh is not None

    def divisions(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Division]:
        """Return the parts that this process has, or will have, of whole tensors of such shapes.

        A tensor that an optimizer does not have yet will be divided as its parameter is. Raises
        ValueError for another shape than that of the tensor that is divided here.
        """
        if not self.is_divided:
            return {}
        flat = self.flatten()
        known = divisions_in(flat.values, lambda path: tuple(flat.tensors[path].shape))
        known = self._divisions_to_come(shapes) | known
        found = {path: known[path] for path in shapes if path in known}
        if others := [path for path, one in found.items() if one.shape != shapes[path]]:
            differing = [
                f"{path} is {[*shapes[path]]} in the saved state, {[*found[path].shape]} here"
                for path in others
            ]
            raise ValueError(f"the state does not fit what is tracked: {some_of(differing)}")
        return found

    def _divisions_to_come(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Division]:
        found = {}
        for name, thing in self._things.items():
            if not isinstance(thing, Optimizer):
                continue
            every = [one for group in thing.param_groups for one in group["params"]]
            divided = {
                f"{name}/state/{index}/": parameter
                for index, parameter in enumerate(every)
                if is_divided(parameter)
            }
            for path, shape in shapes.items():
                parameter = divided.get(path[: path.rfind("/") + 1])
                if parameter is not None and tuple(parameter.shape) == shape:
                    found[path] = division_of(parameter)
        return found

    def landing(self, specs: Mapping[str, Spec], values: Mapping[str, JSON]) -> Flat:
        """Return the tensors to load a state into; raises one ValueError for all that does not fit.

        Tensors that an object does not have yet, as optimizers before their first step, are
        allocated.
        """
        live = self.flatten()
        problems = [
            *_differing("objects", set(values), set(self._things)),
            *self._misfits(specs, live.specs()),
        ]
        if problems:
            raise ValueError(f"the state does not fit what is tracked: {'; '.join(problems)}")
        missing = {name: spec for name, spec in specs.items() if name not in live.tensors}
        devices = {name: self._device(name, spec) for name, spec in missing.items()}
        check_room({n: spec for n, spec in missing.items() if devices[n].type == "cpu"})
        tensors = {
            name: allocate(name, spec, devices[name])
            if name in missing
            else live.tensors[name].detach()
            for name, spec in specs.items()
        }
        return Flat(tensors, dict(values))

    def load(self, flat: Flat) -> None:
        """Give each object its state; tensors that `landing` returned are not copied."""
        for name, thing in self._things.items():
            state = unflatten(flat.values[name], flat.tensors, self._mesh)
            try:
                with torch.no_grad():
                    thing.load_state_dict(state)
            except Exception as error:
                raise ValueError(f"{name} did not take its state: {error}") from error
            if isinstance(thing, Optimizer):
                undo_casts(thing, state)

    def _misfits(self, saved: Mapping[str, Spec], live: Mapping[str, Spec]) -> Iterator[str]:
        # Optimizers and other objects may have more or fewer tensors; a module always has all of
        # its own.
        fixed = tuple(
            f"{name}/" for name, thing in self._things.items() if isinstance(thing, Module)
        )
        known = tuple(f"{name}/" for name in self._things)
        yield from _differing(
            "tensors",
            {name for name in saved if name.startswith(fixed) or not name.startswith(known)},
            {name for name in live if name.startswith(fixed)},
        )
        if others := [name for name in sorted(saved) if saved[name] != live.get(name, saved[name])]:
            yield some_of(
                [
                    f"{name} is {saved[name].title()} in the saved state, {live[name].title()} in "
                    "this script"
                    for name in others
                ]
            )

    def _device(self, name: str, spec: Spec) -> torch.device:
        # As torch's optimizers do: their step counters, without dimensions, stay on the host.
        thing = self._things[name.partition("/")[0]]
        if isinstance(thing, Optimizer) and spec.shape:
            device: torch.device = thing.param_groups[0]["params"][0].device
            return device
        return torch.device("cpu")


def _volatile(name: str, thing: Stateful, flat: Flat) -> set[str]:
    """Return the tensors that may change before the next update, as buffers do."""
    tensors = {path: one for path, one in flat.tensors.items() if path.startswith(f"{name}/")}
    if isinstance(thing, Optimizer):
        return {path for path in tensors if not path.startswith(f"{name}/state/")}
    settled = set(_settled(thing)) if isinstance(thing, Module) else ()
    return {path for path, tensor in tensors.items() if tensor.data_ptr() not in settled}


def _settled(module: Module) -> list[int]:
    """Return the addresses of the parameters: their content changes in an update only."""
    return [local(parameter).data_ptr() for parameter in module.parameters()]


def _differing(what: str, saved: set[str], live: set[str]) -> Iterator[str]:
    if missing := live - saved:
        yield f"{what} missing in the saved state: {some_of(sorted(missing))}"
    if extra := saved - live:
        yield f"{what} unknown to this script: {some_of(sorted(extra))}"


def some_of(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
