"""An optimizer's state with the types that were saved, where torch's own loading has cast them."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor
from torch.optim import Optimizer


def undo_casts(optimizer: Optimizer, saved: Mapping[str, Any]) -> None:
    """Undo what torch's optimizers do to loaded state.

    They cast tensors to their parameter's type, even float32 moments of bfloat16 weights, and treat
    strings as sequences of values to cast.
    """
    keys = (key for group in saved["param_groups"] for key in group["params"])
    live = (parameter for group in optimizer.param_groups for parameter in group["params"])
    for key, parameter in zip(keys, live, strict=True):
        if key in saved["state"]:
            _set_right(optimizer.state[parameter], saved["state"][key])


def _set_right(live: Any, saved: Any) -> None:  # noqa: ANN401  # any tree
    for key, value in saved.items() if isinstance(saved, dict) else enumerate(saved):
        if isinstance(value, dict | list):
            _set_right(live[key], value)
        elif isinstance(value, str):
            live[key] = value
        elif isinstance(value, Tensor) and live[key].dtype != value.dtype:
            live[key] = value.to(live[key].device)
