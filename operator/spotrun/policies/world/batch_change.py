"""Scripts whose processes take a fixed number of samples: at another size the batch changes.

`Run` keeps the global batch at every size. Other scripts take as many samples per process as
before, which silently changes the training. So the operator reports this, once per change, as soon
as a step was made at the new size.
"""

from dataclasses import replace

from spotrun.api.names import Reason
from spotrun.policies.policy import Policy
from spotrun.state.actions import Announce
from spotrun.state.job_state import JobState
from spotrun.state.stored.failures import TriedSizes
from spotrun.state.stored.training import BatchChange
from spotrun.state.view import View
from spotrun.wire import batch_change


def size_change(before: TriedSizes, now: TriedSizes) -> tuple[int, int] | None:
    """Return the sizes before and after, if a script was just seen to train at another size.

    For another template nothing is known: it may treat its samples differently.
    """
    if not before.trained or not now.trained or before.template != now.template:
        return None
    sizes = before.trained[-1], now.trained[-1]
    return sizes if sizes[0] != sizes[1] else None


def note_batch_change(view: View, status: JobState) -> JobState:
    """Record in the status what a change of size means for the batches."""
    sizes = size_change(view.job.status.restarts.sizes, status.restarts.sizes)
    if sizes is None:
        return status
    before, now = sizes
    change = BatchChange(
        time=view.now,
        from_workers=before,
        to_workers=now,
        message=batch_change(before, now, "workers"),
    )
    return replace(status, batch_change=change)


def batch_news(view: View, status: JobState) -> tuple[Announce, ...]:
    """Announce each change once."""
    change = status.batch_change
    if change is None or change == view.job.status.batch_change:
        return ()
    return (Announce(Reason.BATCH_CHANGED, change.message, is_warning=True),)


BATCH_CHANGE = Policy(note_batch_change, announce=batch_news, is_for_readers=True)
