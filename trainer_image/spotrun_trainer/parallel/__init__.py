"""One copy of the model on several processes, with torch's own parallelism."""

from spotrun_trainer.parallel.plan import Parallel

__all__ = ["Parallel"]
