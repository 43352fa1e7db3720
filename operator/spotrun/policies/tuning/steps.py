"""The actions for the trials: they follow from the stored status and the existing jobs.

So if an operator dies after it has stored a status and before it acts, its successor does the same.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spotrun.api.field_types.bounded import DnsName
from spotrun.api.spec.begin_from import BeginFrom
from spotrun.api.tuning.limits import Keep
from spotrun.api.tuning.words import TrialPhase, TuningReason
from spotrun.money.units import Usd
from spotrun.policies.tuning.snapshot import Child, TuningSnapshot
from spotrun.policies.tuning.state import OVER, Trial, TuningState
from spotrun.search.space import Values
from spotrun.state.view import FINISHED


@dataclass(frozen=True)
class CreateTrial:
    """Create the TrainingJob of a trial; its name is a function of search and number."""

    number: int
    values: Values
    cap_usd: Usd | None
    begin_from: BeginFrom | None = None  # the checkpoint of another trial
    until_step: int | None = None  # of its round


@dataclass(frozen=True)
class SuspendTrial:
    """Suspend a trial, which first saves a checkpoint, or resume it."""

    number: int
    uid: str
    suspend: bool
    why: str


@dataclass(frozen=True)
class DeleteTrial:
    """Delete the TrainingJob of a trial that has ended, if it is still the same job."""

    number: int
    uid: str
    why: str


Step = CreateTrial | SuspendTrial | DeleteTrial


def steps(search: TuningSnapshot, status: TuningState) -> tuple[Step, ...]:
    """Return the actions that the status asks for and that are not done yet."""
    if search.is_deleting:
        return ()  # Kubernetes deletes the jobs of its trials
    return tuple(step for one in status.trials for step in _of(search, status, one))


def _of(search: TuningSnapshot, status: TuningState, trial: Trial) -> Iterator[Step]:
    child = search.children.get(trial.number)
    if trial.phase is TrialPhase.PENDING:
        if child is None and trial.number not in search.taken | search.refused.keys():
            yield _create(search, status, trial)
        return
    if child is None or child.is_deleting:
        return
    if trial.has_ended:
        yield from _cleaning(search, status, trial, child)
    elif trial.phase is TrialPhase.STOPPING:
        if not child.is_suspended and not trial.is_complete:
            yield SuspendTrial(trial.number, child.uid, suspend=True, why=trial.message or "")
    elif trial.reason is TuningReason.SUSPENDED_BY_USER and (
        child.is_suspended is not search.spec.suspend
    ):
        why = "spec.suspend of the TuningJob has changed"
        yield SuspendTrial(trial.number, child.uid, suspend=search.spec.suspend, why=why)


def _create(search: TuningSnapshot, status: TuningState, trial: Trial) -> CreateTrial:
    population = search.spec.search.population
    made = CreateTrial(trial.number, trial.values, trial.cap_usd)
    if population is None:
        return made
    this_round = trial.number // population.size + 1
    parent = status.trials[trial.parent] if trial.parent is not None else None
    return replace(
        made,
        begin_from=_checkpoint_of(parent) if parent is not None else None,
        until_step=this_round * population.steps_per_round,
    )


def _checkpoint_of(parent: Trial) -> BeginFrom:
    """Return the last checkpoint of a complete trial, which is no longer deleted."""
    assert parent.checkpoint is not None, "without one it has failed"
    _, job, name = parent.checkpoint.split("/")
    return BeginFrom(job=DnsName(job), checkpoint=name)


def _cleaning(
    search: TuningSnapshot, status: TuningState, trial: Trial, child: Child
) -> Iterator[Step]:
    """Delete jobs that are not kept; a kept job cannot start again before the search is over.

    A job that a user resumes after that is not suspended again, so its cost is the user's.
    """
    if child.state.phase not in FINISHED and not child.is_suspended:
        if search.status.phase in OVER:
            return
        why = f"the trial has ended as {trial.phase.value}, so it may not cost anything more"
        yield SuspendTrial(trial.number, child.uid, suspend=True, why=why)
        return
    is_best = status.best is not None and status.best.trial == trial.number
    if search.spec.trials.keep is Keep.BEST and not is_best:
        yield DeleteTrial(trial.number, child.uid, f"the trial ended as {trial.phase.value}")
