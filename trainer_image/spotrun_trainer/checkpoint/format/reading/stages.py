"""Checkpoints of models with layers divided among stages, read by another number of stages.

A layer has the same name on every stage. But an optimizer's state identifies parameters by number,
and numbers differ from stage to stage: so a checkpoint says which parameter each number is. Saved
parts are renamed to the reader's numbers, and layers that the reader lacks are left out.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, cast

from spotrun_trainer.checkpoint.format.reading.ranges import SavedPart
from spotrun_trainer.state.flatten import JSON

Names = Mapping[str, Sequence[Sequence[str]]]
"""The parameters of each optimizer, by group, in the order of their numbers."""


@dataclass(frozen=True)
class Layers:
    """The layers that a process has."""

    parameters: Names
    tensors: Collection[str] | None = None  # their paths; None: all tensors


def in_stages(
    parts: Sequence[SavedPart], layers: Layers
) -> tuple[list[SavedPart], Mapping[str, JSON]]:
    """Return the saved parts of some layers, under their names here, and the values around them.

    Raises ValueError for parts that neither stages nor a whole model would have written.
    """
    here = [renamed(part, layers) for part in parts]
    try:
        return here, values_of(here, layers)
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise ValueError(f"its values are not those of parts of one model: {error!r}") from error


def whole_of(parts: Iterable[SavedPart]) -> Layers:
    """Return the layers of all parts: the parameters of each group in the order of stages."""
    found: dict[str, list[dict[str, None]]] = {}
    for part in parts:
        for thing, groups in part.content.parameters.items():
            known = found.setdefault(thing, [{} for _ in groups])
            for names, group in zip(known, groups, strict=True):
                names.update(dict.fromkeys(group))
    return Layers({thing: [[*one] for one in groups] for thing, groups in found.items()})


def renamed(part: SavedPart, layers: Layers) -> SavedPart:
    """Return a part with the names that the layers have here, without layers that are not here.

    Raises ValueError for an optimizer's state without the names of its parameters.
    """
    numbers = {
        thing: _numbers(part.content.parameters.get(thing, ()), groups)
        for thing, groups in layers.parameters.items()
    }
    paths = {}
    for path in part.specs:
        thing, kind, *rest = path.split("/", 3)
        if thing in numbers and kind == "state" and len(rest) == 2:
            number = _whole_number(rest[0])
            if thing not in part.content.parameters:
                raise ValueError(
                    f"it does not say which parameters {thing} has the state of, so it cannot be "
                    "divided into stages: use as many stages as saved it"
                )
            if number in numbers[thing]:
                paths[f"{thing}/state/{numbers[thing][number]}/{rest[1]}"] = path
        elif thing in numbers or layers.tensors is None or path in layers.tensors:
            paths[path] = path
    return replace(part, paths=paths)


def values_of(parts: Sequence[SavedPart], layers: Layers) -> dict[str, JSON]:
    """Return the state around the tensors of some layers, assembled from renamed parts."""
    found = dict(parts[0].content.values)
    for thing, value in found.items():
        every = [part.content.values.get(thing) for part in parts]
        if thing in layers.parameters:
            found[thing] = _optimizer(thing, parts, layers.parameters[thing])
        elif isinstance(value, dict) and "$module" in value:
            found[thing] = {"$module": _module(thing, every, layers.tensors)}
    return found


def _numbers(saved: Sequence[Sequence[str]], here: Sequence[Sequence[str]]) -> dict[int, int]:
    """Return the number that each parameter has here, if any, by its saved number."""
    known = {name: number for number, name in enumerate(name for one in here for name in one)}
    names = enumerate(name for one in saved for name in one)
    return {number: known[name] for number, name in names if name in known}


def _optimizer(thing: str, parts: Sequence[SavedPart], groups: Sequence[Sequence[str]]) -> JSON:
    first: Any = parts[0].content.values[thing]
    saved_groups = first["param_groups"]
    if len(saved_groups) != len(groups):
        raise ValueError(
            f"{thing} has {len(saved_groups)} groups of parameters in the checkpoint, "
            f"{len(groups)} here: give "
            "it the same groups on all stages, in the same order"
        )
    saved = {name for part in parts for one in part.content.parameters[thing] for name in one}
    if missing := [name for group in groups for name in group if name not in saved]:
        raise ValueError(f"{thing} has no parameter {missing[0]} in the checkpoint")
    numbers, states = count(), dict[int, JSON]()
    for part in parts:
        value: Any = part.content.values[thing]
        known = _numbers(part.content.parameters[thing], groups)
        back = {path: here for here, path in part.paths.items()}
        for number, one in _pairs(value["state"]):
            if number in known:
                states.setdefault(known[number], _with_names(one, back))
    dealt = [
        {**own, "params": [next(numbers) for _ in names]}
        | ({"param_names": list(names)} if "param_names" in own else {})
        for own, names in zip(saved_groups, groups, strict=True)
    ]
    state: JSON = {"$dict": [[number, states[number]] for number in sorted(states)]}
    return {"state": state if states else {}, "param_groups": cast("JSON", dealt)}


def _module(thing: str, values: Iterable[Any], tensors: Collection[str] | None) -> JSON:
    entries, versions = dict[str, JSON](), dict[str, JSON]()
    for value in values:
        content, version = value["$module"]
        entries = {**content, **entries}
        versions = {**version, **versions}
    if tensors is not None:
        entries = {
            name: one
            for name, one in entries.items()
            if not _is_mark(one) or f"{thing}/{name}" in tensors
        }
    return [entries, versions]


def _pairs(state: Any) -> Iterator[tuple[int, JSON]]:  # noqa: ANN401 - JSON
    yield from state.get("$dict", ())


def _with_names(value: Any, names: Mapping[str, str]) -> JSON:  # noqa: ANN401 - JSON
    """Return values with the tensors' names here; it does not matter how they are divided."""
    if isinstance(value, list):
        return [_with_names(one, names) for one in value]
    match value:
        case {"$part": [{"$tensor": str(path)}, *_]} | {"$tensor": str(path)} if len(value) == 1:
            return {"$tensor": names.get(path, path)}
    if isinstance(value, dict):
        return {key: _with_names(one, names) for key, one in value.items()}
    scalar: JSON = value
    return scalar


def _is_mark(value: object) -> bool:
    return isinstance(value, dict) and not value.keys().isdisjoint({"$part", "$tensor"})


def _whole_number(text: str) -> int:
    return int(text) if text.isdecimal() else -1
