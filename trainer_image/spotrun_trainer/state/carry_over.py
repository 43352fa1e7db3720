"""The values that an optimizer keeps from the stage before, and those that its script changes.

A checkpoint has all of an optimizer and of its schedule. In a new stage they continue unchanged,
except for values that the script sets differently than in the stage before: another learning rate
scales the schedule, which continues at its place.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

_RATE, _FIRST_RATE = "lr", "initial_lr"  # a schedule changes the first of them

Given = dict[str, list[dict[str, Any]]]
"""The options of each optimizer's groups, by the name under which it is tracked."""


def given_options(things: Mapping[str, object]) -> Given:
    """Return the options that the script has given to its optimizers, as JSON has them."""
    return {
        name: [_options(group) for group in thing.param_groups]
        for name, thing in things.items()
        if isinstance(thing, Optimizer)
    }


def apply_changes(things: Mapping[str, object], before: Given, now: Given) -> None:
    """Apply the values that the script has changed to those from the checkpoint."""
    for name, thing in things.items():
        if not isinstance(thing, Optimizer):
            continue
        groups = zip(thing.param_groups, before.get(name, ()), now.get(name, ()), strict=False)
        for number, (group, old, new) in enumerate(groups):
            for key in new.keys() & old.keys():
                if key != _RATE and new[key] != old[key]:
                    group[key] = tuple(new[key]) if isinstance(group[key], tuple) else new[key]
            if new.get(_RATE) != old.get(_RATE):
                _change_rate(group, old[_RATE], new[_RATE])
                for schedule in _schedules(things.values()):
                    _scale(schedule, thing, number, old[_RATE], new[_RATE])


def _options(group: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: _plain(value) for key, value in group.items() if key not in ("params", _RATE)}
    rate = found.pop(_FIRST_RATE, None)
    known = {key: value for key, value in found.items() if value is not None}
    return {**known, _RATE: _plain(group[_RATE]) if rate is None else rate}


def _plain(value: object) -> Any:  # noqa: ANN401 - a number, a truth value, or a list of them
    if isinstance(value, Tensor):
        return value.item() if value.numel() == 1 else None
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    return value if isinstance(value, bool | int | float) else None


def _change_rate(group: dict[str, Any], old: float, new: float) -> None:
    for key in (_RATE, _FIRST_RATE):
        if isinstance(group.get(key), Tensor):  # a captured graph reads it where it is
            group[key].fill_(_scaled(group[key].item(), old, new))
        elif key in group:
            group[key] = _scaled(group[key], old, new)


def _scale(
    schedule: LRScheduler, optimizer: Optimizer, number: int, old: float, new: float
) -> None:
    if schedule.optimizer is not optimizer:
        return
    for rates in (getattr(schedule, name, []) for name in ("base_lrs", "_last_lr")):
        if number < len(rates):
            rates[number] = _scaled(float(rates[number]), old, new)


def _scaled(rate: float, old: float, new: float) -> float:
    return rate * (new / old) if old else new


def _schedules(things: Iterable[object]) -> list[LRScheduler]:
    """Return the schedules among these, and those that they are made of."""
    found: list[LRScheduler] = []
    left = [thing for thing in things if isinstance(thing, LRScheduler)]
    while left:
        one = left.pop()
        if one not in found:
            found.append(one)
            left += [part for part in getattr(one, "_schedulers", ()) if part not in found]
    return found
