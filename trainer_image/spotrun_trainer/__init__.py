"""PyTorch training that a spotrun operator can move, grow and shrink."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spotrun_trainer.elastic.replica_group import random_of_part
    from spotrun_trainer.hooks.notice import notice
    from spotrun_trainer.hooks.progress import progress, report
    from spotrun_trainer.kept.keep import keep
    from spotrun_trainer.parallel import Parallel
    from spotrun_trainer.process.params import params
    from spotrun_trainer.run import Run
    from spotrun_trainer.state.bf16_state import bf16_state
    from spotrun_trainer.step.reduce.compression import PowerSGD, TopK

__all__ = [
    "Parallel",
    "PowerSGD",
    "Run",
    "TopK",
    "bf16_state",
    "keep",
    "notice",
    "params",
    "progress",
    "random_of_part",
    "report",
]


_MODULES = {
    "Parallel": "parallel",
    "PowerSGD": "step.reduce.compression",
    "Run": "run",
    "TopK": "step.reduce.compression",
    "bf16_state": "state.bf16_state",
    "keep": "kept.keep",
    "notice": "hooks.notice",
    "params": "process.params",
    "progress": "hooks.progress",
    "random_of_part": "elastic.replica_group",
    "report": "hooks.progress",
}


def __getattr__(name: str) -> object:
    # Lazily: the agent imports this package too, and does not need `import torch`, which takes a
    # second.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
