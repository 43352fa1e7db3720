"""The report of a finished job, kept once with `finished.report` when its cost is final."""

from spotrun.api.names import ANNOTATION_KEPT_REPORT
from spotrun.policies.policy import Policy
from spotrun.state.actions import KeepReport
from spotrun.state.job_state import JobState
from spotrun.state.view import FINISHED, View


def is_at_rest(status: JobState) -> bool:
    """Whether the job spends no more money until somebody changes it."""
    is_over = status.phase in FINISHED or bool(status.suspended_by)
    # A lost worker may never report again, and then it is never settled.
    num_paid = status.settled.size + len(status.accumulators.ends)
    return is_over and num_paid == (status.next_worker_id or 0)


def is_final(status: JobState) -> bool:
    """Whether the job is over and all its workers are settled: its cost changes no more."""
    return status.phase in FINISHED and is_at_rest(status)


def lacks_report(view: View) -> bool:
    """Whether the user asks for a report, and none is kept yet."""
    finished = view.job.spec.finished
    is_kept = str(ANNOTATION_KEPT_REPORT) in view.job.annotated
    return finished is not None and finished.report and not is_kept


def reports(view: View, status: JobState) -> tuple[KeepReport, ...]:
    """Keep the report when nothing in it changes any more."""
    return (KeepReport(),) if lacks_report(view) and is_final(status) else ()


KEPT_REPORT = Policy(actions=reports)
