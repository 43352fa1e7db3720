"""The copy of the state in this worker's memory; none if there is no room for it."""

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import Tensor

from spotrun_trainer.kept.image import Image
from spotrun_trainer.kept.slots import Header, Slots
from spotrun_trainer.process.node_memory import offered_memory
from spotrun_trainer.telemetry.container_usage import memory_left

log = logging.getLogger(__name__)

SPARE_BYTES = 256 << 20
"""Left for the training, whose own use of memory varies."""


class NodeCopy:
    """The memory of this worker, as one of its processes sees it."""

    def __init__(self, files: tuple[Path, ...], left: Callable[[], float] | None = None) -> None:
        self._left = left or (lambda: memory_left(os.getpid()))
        self._slots: Slots | None = None
        if not files:
            self._go_without("this is no worker of a TrainingJob with an agent that offers memory")
            return
        try:
            self._slots = Slots(files)
        except OSError as error:
            self._go_without(f"the memory that the agent offers cannot be opened: {error}")

    @property
    def is_there(self) -> bool:
        """Whether states are kept at all."""
        return self._slots is not None

    def header(self) -> Header | None:
        """Return what is known of the newest whole state."""
        newest = self._slots.newest() if self._slots is not None else None
        return newest[0] if newest is not None else None

    def content(self) -> Tensor:
        """Return the bytes of the newest whole state."""
        newest = self._slots.newest() if self._slots is not None else None
        assert newest is not None, "there is one"
        return newest[1].content()

    def write(self, step: int, image: Image) -> None:
        """Write a state beside the existing one; without room for it, keep none from now on."""
        if self._slots is None:
            return
        missing = self._slots.missing(image.size)
        if missing and missing + SPARE_BYTES > (left := self._left()):
            self._go_without(
                f"two copies of {_mib(image.size)} are needed and {_mib(left)} of memory are left: "
                "raise the container's memory limit"
            )
            return
        try:
            writing = self._slots.begin(image.size)
        except OSError as error:
            self._go_without(f"there is no room for a copy of {_mib(image.size)}: {error}")
            return
        image.write(writing.memory)
        writing.finish(step)

    def _go_without(self, why: str) -> None:
        self._slots = None
        log.warning(
            "the state is not kept in memory, and the training continues without that: %s", why
        )


def open_copy(environment: Mapping[str, str] = os.environ) -> NodeCopy:
    """Open the memory that this worker's agent offers."""
    return NodeCopy(offered_memory(environment))


def _mib(size: float) -> str:
    return f"{size / 2**20:.0f} MiB"
