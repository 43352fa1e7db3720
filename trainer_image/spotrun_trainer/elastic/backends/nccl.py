"""NCCL's groups: made so that they can be left, and ended after a loss.

A lost peer ends nobody's kernels: the others wait for it until they abort their communicator. Then
their kernels end early, without an error, and leave partial sums to the kernels behind them. So a
process goes on only once its GPU is idle, and believes no sum that no commit has proved (ADR 16).
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import torch
from torch import distributed
from torch.distributed import Store  # type: ignore[attr-defined]  # not in __all__

from spotrun_trainer.elastic import background_call
from spotrun_trainer.elastic.backends.gloo import COLLECTIVE_SECONDS
from spotrun_trainer.elastic.errors import StrandedError

VARIABLE = "SPOTRUN_NCCL_IN_PROCESS"
END_SECONDS = 10.0
"""An abort took up to 4.9 s on an H200; a restart of all processes takes longer than this."""
_WATCHDOG = "TORCH_NCCL_ASYNC_ERROR_HANDLING"  # torch reads it when a group is made


def make(store: Store, rank: int, size: int, gpu: torch.device) -> Any:  # noqa: ANN401 - torch's, untyped
    """Connect to the others."""
    options = distributed.ProcessGroupNCCL.Options()
    options._timeout = timedelta(seconds=COLLECTIVE_SECONDS)  # noqa: SLF001 - torch gives it no other name
    with _without_watchdog():
        nccl: Any = distributed.ProcessGroupNCCL(store, rank, size, options)
    # Otherwise it connects in the first collective, and again in the first message to a peer: there
    # the training's own thread would wait for a peer lost meanwhile, and could not be interrupted.
    nccl.bound_device_id = gpu
    nccl.eager_connect_single_device(gpu)
    return nccl


def outlives_a_break(env: Mapping[str, str], shards: int) -> bool:
    """Whether a process continues after its world has broken; else a new one takes its place.

    Not where several processes hold a copy of the model: their sums are on communicators that carry
    no commit.
    """
    asked = env.get(VARIABLE, "0")
    if asked not in {"0", "1"}:
        raise ValueError(
            f"{VARIABLE} is {asked!r}: 1 lets processes continue after a loss over NCCL, and 0 (as "
            "without it) starts all of them again"
        )
    return asked == "1" and shards == 1


class Ending:
    """The end of a broken group's work on its GPU, in a thread of its own."""

    def __init__(self, backend: Any, device: torch.device) -> None:  # noqa: ANN401 - torch's
        self._until = time.monotonic() + END_SECONDS
        self._ended = background_call.begin(lambda: _end(backend, device))

    def wait(self, look: Callable[[], None]) -> None:
        """Return once the GPU is idle; `look` is called meanwhile, and may raise."""

        def look_at_time() -> None:
            look()
            if time.monotonic() > self._until:
                raise StrandedError(
                    f"{END_SECONDS:.0f} s after the loss the GPU still works for the broken world; "
                    "this process is started again"
                )

        try:
            background_call.result_of(self._ended, look_at_time)
        except RuntimeError as error:
            raise StrandedError(
                f"the GPU has failed amid the loss ({error}); this process is started again"
            ) from error


def _end(backend: Any, device: torch.device) -> None:  # noqa: ANN401 - torch's
    """Abort a group, and wait until nothing runs on its GPU any more, which alone counts.

    By hand, an abort that had ended all kernels still said that an operation was in progress.
    """
    with suppress(RuntimeError):
        backend.abort()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


@contextmanager
def _without_watchdog() -> Iterator[None]:
    """Make groups without torch's watchdog, because we handle errors ourselves.

    torchrun asks for a watchdog that ends the process; groups of the user's own keep it.
    """
    asked = os.environ.get(_WATCHDOG)
    os.environ[_WATCHDOG] = "0"
    try:
        yield
    finally:
        if asked is None:
            del os.environ[_WATCHDOG]
        else:
            os.environ[_WATCHDOG] = asked
