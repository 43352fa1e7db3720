"""The names of the parameters that optimizers have by number."""

from collections.abc import Iterator, Mapping

from torch.nn import Module
from torch.optim import Optimizer


def names_of_optimizers(things: Mapping[str, object]) -> dict[str, list[list[str]]]:
    """Return the names of each optimizer's parameters, by group, in the order of their numbers.

    A name is the tracked module's, and that of the parameter in it. Optimizers of parameters that
    no tracked module has are left out.
    """
    names = {id(parameter): name for name, parameter in named_parameters(things)}
    found = {}
    for thing, one in things.items():
        if isinstance(one, Optimizer):
            groups = [[names.get(id(each), "") for each in g["params"]] for g in one.param_groups]
            if all(name for group in groups for name in group):
                found[thing] = groups
    return found


def named_parameters(things: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield the parameters of modules, each once, with the module's name in front of its own."""
    seen = set[int]()
    for thing, one in things.items():
        if isinstance(one, Module):
            for name, parameter in one.named_parameters():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield f"{thing}/{name}", parameter
