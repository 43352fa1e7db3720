"""PyTorch training that a spotrun operator can move, grow and shrink."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spotrun_trainer.elastic.replica_group import random_of_part
    from spotrun_trainer.hooks.notice import notice
    from spotrun_trainer.hooks.progress import progress
    from spotrun_trainer.kept.keep import keep
    from spotrun_trainer.parallel import Parallel
    from spotrun_trainer.run import Run

__all__ = ["Parallel", "Run", "keep", "notice", "progress", "random_of_part"]


def __getattr__(name: str) -> object:
    # Lazily: the agent imports this package too, and has no use for a second of `import torch`.
    if name == "Run":
        from spotrun_trainer.run import Run  # noqa: PLC0415 - see above

        return Run
    if name == "Parallel":
        from spotrun_trainer.parallel import Parallel  # noqa: PLC0415 - see above

        return Parallel
    if name == "keep":
        from spotrun_trainer.kept.keep import keep  # noqa: PLC0415 - see above

        return keep
    if name == "random_of_part":
        from spotrun_trainer.elastic.replica_group import random_of_part  # noqa: PLC0415 - see above

        return random_of_part
    if name == "notice":
        from spotrun_trainer.hooks.notice import notice  # noqa: PLC0415 - see above

        return notice
    if name == "progress":
        from spotrun_trainer.hooks.progress import progress  # noqa: PLC0415 - see above

        return progress
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
