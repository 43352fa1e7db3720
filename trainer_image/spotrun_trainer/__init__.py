"""PyTorch training that a spotrun operator can move, grow and shrink."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spotrun_trainer.elastic.replica_group import random_of_part
    from spotrun_trainer.hooks.notice import notice
    from spotrun_trainer.hooks.progress import progress
    from spotrun_trainer.kept.keep import keep
    from spotrun_trainer.parallel import Parallel
    from spotrun_trainer.run import Run
    from spotrun_trainer.state.bf16_state import bf16_state

__all__ = ["Parallel", "Run", "bf16_state", "keep", "notice", "progress", "random_of_part"]


_MODULES = {
    "Parallel": "spotrun_trainer.parallel",
    "Run": "spotrun_trainer.run",
    "bf16_state": "spotrun_trainer.state.bf16_state",
    "keep": "spotrun_trainer.kept.keep",
    "notice": "spotrun_trainer.hooks.notice",
    "progress": "spotrun_trainer.hooks.progress",
    "random_of_part": "spotrun_trainer.elastic.replica_group",
}


def __getattr__(name: str) -> object:
    # Lazily: the agent imports this package too, and has no use for a second of `import torch`.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
