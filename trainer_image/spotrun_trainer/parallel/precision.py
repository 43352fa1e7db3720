"""The precision that a model computes in; its parameters, and so checkpoints, stay in 32 bits."""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

Precision = Literal["bf16", "fp16"]
_DTYPES = {None: None, "bf16": torch.bfloat16, "fp16": torch.float16}


def dtype_of(precision: str | None) -> torch.dtype | None:
    """Return the dtype to compute in; None: the model's own. Raises ValueError for others."""
    if precision not in _DTYPES:
        raise ValueError(f'precision={precision!r}: give "bf16" or "fp16", or leave it out')
    return _DTYPES[precision]


def autocast(model: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Let a model that is not sharded compute within torch's autocast, and return 32 bits."""
    model.forward = partial(_within, model.forward, device.type, dtype)


def _within(
    forward: Callable[..., Any],
    kind: str,
    dtype: torch.dtype,
    *args: Any,  # noqa: ANN401 - the model's own
    **kwargs: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    with torch.autocast(kind, dtype=dtype):
        result = forward(*args, **kwargs)
    return tree_map(partial(_widened, dtype), result)


def _widened(dtype: torch.dtype, value: object) -> object:
    return value.float() if isinstance(value, Tensor) and value.dtype is dtype else value
