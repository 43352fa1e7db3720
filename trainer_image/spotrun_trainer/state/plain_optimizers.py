"""The tensors of optimizers, read without `state_dict()`, where only torch defines that.

As for modules, all that the names in it follow from is compared with its earlier value. Learning
rates and the like are read again each time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from spotrun_trainer.parallel.local import PLAIN_KINDS

_HOOKS = ("_optimizer_state_dict_pre_hooks", "_optimizer_state_dict_post_hooks")


@dataclass(frozen=True)
class PlainOptimizer:
    """An optimizer whose state is a dict of tensors for each parameter."""

    facts: Sequence[object]
    indices: Sequence[list[int]]  # of the parameters of each group
    num_tensors: int

    @classmethod
    def of(cls, optimizer: Optimizer, state: Mapping[str, Any]) -> "PlainOptimizer | None":
        """Examine an optimizer that returned this state; None if only itself can say it."""
        found = _facts(optimizer)
        if found is None or set(state) != {"state", "param_groups"}:
            return None
        facts, tensors = found
        returned = [one for each in state["state"].values() for one in each.values()]
        if len(tensors) != len(returned) or any(map(_is_other, tensors, returned)):
            return None
        indices = [list(group["params"]) for group in state["param_groups"]]
        return cls(facts, indices, len(tensors))

    def read(self, optimizer: Optimizer) -> tuple[list[Tensor], list[dict[str, Any]]] | None:
        """Return the tensors for all parameters, and the groups; None if the names may differ."""
        found = _facts(optimizer)
        if found is None or found[0] != self.facts:
            return None
        groups = [
            {key: value for key, value in group.items() if key != "params"} | {"params": indices}
            for group, indices in zip(optimizer.param_groups, self.indices, strict=True)
        ]
        return found[1], groups


def _facts(optimizer: Optimizer) -> tuple[Sequence[object], list[Tensor]] | None:
    """Return all that the names follow from, and the tensors; None if they depend on more."""
    attributes, kind = vars(optimizer), type(optimizer)
    has_own = kind.state_dict is not Optimizer.state_dict or "state_dict" in attributes
    if has_own or any(attributes.get(hooks, True) for hooks in _HOOKS):
        return None
    if hasattr(kind, "state") or hasattr(kind, "param_groups"):  # as properties
        return None
    parameters = [group["params"] for group in optimizer.param_groups]
    state = optimizer.state
    inner = state.values()
    if not set(map(type, state)) <= PLAIN_KINDS or not set(map(type, inner)) <= {dict}:
        return None
    keys = list(chain.from_iterable(inner))
    tensors = list(chain.from_iterable(map(dict.values, inner)))
    if not set(map(type, keys)) <= {str} or not set(map(type, tensors)) <= {Tensor}:
        return None
    # A parameter's number follows from its place among these, so it does no harm if another object
    # had the same identity before.
    identities = list(map(id, state)), list(map(id, chain.from_iterable(parameters)))
    return (*identities, list(map(len, parameters)), list(map(len, inner)), keys), tensors


def _is_other(one: object, other: object) -> bool:
    return one is not other
