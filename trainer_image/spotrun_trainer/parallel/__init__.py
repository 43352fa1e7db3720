"""One copy of the model on several processes, with torch's own parallelism."""

from spotrun_trainer.parallel.degrees import Parallel

__all__ = ["Parallel"]
