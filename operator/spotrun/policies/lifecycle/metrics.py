"""The values that a job's script measures, by name, each with its step."""

from collections.abc import Sequence
from dataclasses import replace

from spotrun.policies.policy import Policy
from spotrun.state.job_state import JobState
from spotrun.state.view import View
from spotrun.state.world_members import training
from spotrun.wire import MOST_METRICS, Metric


def follow(view: View, status: JobState) -> JobState:
    """Take over the newest values of the first rank whose worker reports any.

    Each rank may compute another value from its own samples. At the end of the training the values
    of the worker that reports completion first count: the job is over then, and a search uses its
    last values. Steps that are repeated after a loss report their values again: the first ones
    stay, so that a step counts once.
    """
    reported = _reported(view, status)
    if not reported:
        return status
    known = {one.name: one for one in status.metrics}
    newer = [one for one in reported if _is_newer(one, known.get(one.name))]
    if not newer:
        return status
    merged = {**known, **{one.name: one for one in newer}}
    newest = sorted(merged.values(), key=_step, reverse=True)[:MOST_METRICS]
    return replace(status, metrics=tuple(sorted(newest, key=lambda one: one.name)))


def _is_newer(metric: Metric, known: Metric | None) -> bool:
    return known is None or _step(metric) > _step(known)


def _reported(view: View, status: JobState) -> Sequence[Metric]:
    agents = {worker.worker_id: worker.agent for worker in view.job.workers}
    found = (agents.get(worker_id) for worker_id in training(status))
    reports = [agent.report for agent in found if agent is not None]
    # By rank, but completed workers first: others may have reported only an earlier step.
    for report in sorted(reports, key=lambda one: not one.completed):
        progress = report.progress
        if progress is not None and progress.metrics:
            return [
                one if one.step is not None else Metric(one.name, one.value, step=progress.step)
                for one in progress.metrics
            ]
    return ()


def _step(metric: Metric) -> int:
    return metric.step or 0


METRICS = Policy(follow)
