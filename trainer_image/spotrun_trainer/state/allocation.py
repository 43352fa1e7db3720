"""Room for the tensors of a state that will be loaded and that no object holds yet."""

import os
from collections.abc import Mapping

import torch
from torch import Tensor

from spotrun_trainer.state.flatten import DTYPES, Spec


def check_room(specs: Mapping[str, Spec]) -> None:
    """Raise ValueError for more memory than there is: Linux grants it, and kills later."""
    sizes = {name: spec.numel * spec.itemsize for name, spec in specs.items()}
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if (claimed := sum(sizes.values())) > there:
        name = max(sizes, key=sizes.__getitem__)
        raise ValueError(
            f"{name} would be {specs[name].title()}, and there is no room: {claimed / 2**30:.0f} "
            f"GiB are asked for in all, and the machine has {there / 2**30:.0f} GiB"
        )


def allocate(name: str, spec: Spec, device: torch.device) -> Tensor:
    """Return a tensor without content; raises ValueError if there is no room for it."""
    try:
        return torch.empty(spec.shape, dtype=DTYPES[spec.dtype], device=device)
    except RuntimeError as error:
        problem = f"{name} would be {spec.title()}, and there is no room: {error}"
        raise ValueError(problem) from error
