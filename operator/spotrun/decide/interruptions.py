"""Interruptions: workers that the platform took away, counted in the write that settles them."""

from spotrun.api.status import Interruption, Interruptions, TrainingJobStatus
from spotrun.api.values import Serials, Time
from spotrun.decide.view import View


def count_interruptions(view: View, status: TrainingJobStatus) -> TrainingJobStatus:
    """Count those workers that this status settles and the stored one did not."""
    before = set((view.job.status.settled or Serials("")).numbers)
    now = set((status.settled or Serials("")).numbers)
    taken = [n for n in sorted(now - before) if n in view.ends and view.ends[n].is_interruption]
    if not taken:
        return status
    known = status.interruptions or Interruptions()
    worker, fate = view.job.worker(taken[-1]), view.ends[taken[-1]]
    last = Interruption(
        time=Time.of(view.now),
        worker=taken[-1],
        reason=fate.cause.value if fate.cause is not None else "",
        node=worker.pod.node if worker is not None else None,
    )
    counted = known.model_copy(update={"count": (known.count or 0) + len(taken), "last": last})
    return status.model_copy(update={"interruptions": counted})
