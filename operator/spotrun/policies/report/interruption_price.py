"""The price of an interruption: what the loss of a worker would cost now, in dollars.

Schedulers, autoscalers and drainers must choose from which job they take a node, and a job knows
what that would cost: the work that is repeated, and the time in which no worker trains. It is the
price of a loss without notice; with notice a job can save first, and loses less.

Pods carry it as an annotation. That is a write for each worker, so the annotation follows the price
in steps: it is written again when the price has doubled or halved, a few pods at a time. All prices
below that of a minute of the job count as equal, and a pod without the annotation has such a price.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal

from spotrun.money.units import NO_USD, Usd, UsdPerHour
from spotrun.policies.cost.bill import to_show
from spotrun.policies.deadline.course import changeovers
from spotrun.policies.policy import Policy
from spotrun.state.actions import PriceWorker
from spotrun.state.job_state import JobState
from spotrun.state.replicas import by_slot
from spotrun.state.sizes import largest
from spotrun.state.snapshot import Worker
from spotrun.state.view import FINISHED, View
from spotrun.state.world_members import all_outlive_a_break, state_holders, training, world_members

CHANGE_SECONDS = 0.5
"""The time that survivors which keep the state need to change the world (docs/measured.md)."""
RESTART_SECONDS = 30.0
"""The time until processes that are started again train: Python, the rendezvous and a checkpoint of
a small model take 10 s on a quiet machine, and large models take longer to load."""
LITTLE_SECONDS = 60
"""Prices below this much time of the job count as equal."""
AT_ONCE = 16
"""The pods that are written in one pass: a job with thousands of pods has more urgent writes."""
_PAUSE_SECONDS = 1.0


@dataclass(frozen=True)
class LossSeconds:
    """The time of the whole job that the loss of a worker costs."""

    of_most: Decimal  # of a worker whose part of the state others hold as well
    of_last_holders: Decimal  # of a worker that alone holds its part
    last_holders: frozenset[int] = frozenset()

    @property
    def most(self) -> Decimal:
        """The time that the loss of the most expensive worker costs."""
        return self.of_last_holders if self.last_holders else self.of_most

    def of(self, worker: Worker) -> Decimal:
        """The time that the loss of this worker costs."""
        is_last = worker.worker_id in self.last_holders
        return self.of_last_holders if is_last else self.of_most


def loss_seconds(view: View, status: JobState) -> LossSeconds | None:
    """Return what a loss costs in time; None while no worker trains or no step was measured."""
    parts = (status.phase, status.pace, status.progress, status.checkpoint, status.world)
    return view.once("loss seconds", parts, lambda: _loss_seconds(view, status))


def _loss_seconds(view: View, status: JobState) -> LossSeconds | None:
    pace = status.pace
    if status.phase in FINISHED or pace.step_seconds is None or not training(status):
        return None
    restart = _seconds(_restart_seconds(view, status))
    holders = state_holders(view, status)
    slots = by_slot(holders, view.job.effective_workers)
    if not all(slots) or not all_outlive_a_break(holders):
        return LossSeconds(restart, restart)
    wait = CHANGE_SECONDS if _goes_on_with_fewer(view, status) else changeovers(pace)[0]
    last = frozenset(slot[0].worker_id for slot in slots if len(slot) == 1)
    return LossSeconds(pace.step_seconds + _seconds(wait), restart, last)


def shrink_usd(status: JobState, *, in_process: bool) -> Usd:
    """Return what a change to fewer workers costs: no work is lost, but training pauses."""
    return _rate(status).over(_seconds(CHANGE_SECONDS if in_process else RESTART_SECONDS))


def suspension_usd(status: JobState) -> Usd:
    """Return what the loss of all workers costs: the unsaved work, and the restart."""
    return _rate(status).over(_seconds(_unsaved_seconds(status) + RESTART_SECONDS))


def _rate(status: JobState) -> UsdPerHour:
    """Return the rate of the job; a worker of unknown price counts as a dollar an hour."""
    return status.cost.usd_per_hour or UsdPerHour(max(len(training(status)), 1))


def show_interruption(view: View, status: JobState) -> JobState:
    """Show in the status what the loss of the most expensive worker would cost."""
    lost, rate = loss_seconds(view, status), status.cost.usd_per_hour
    usd = to_show(rate.over(lost.most)) if lost is not None and rate else None
    if usd == status.cost.interruption_usd:
        return status
    return replace(status, cost=replace(status.cost, interruption_usd=usd))


def price_workers(view: View, status: JobState) -> Iterable[PriceWorker]:
    """Write the price on the pods of workers that train, a few at a time."""
    return _news(view, status)[:AT_ONCE]


def wake_after_seconds(view: View, status: JobState) -> float | None:
    """Return when to continue with the other pods."""
    return _PAUSE_SECONDS if len(_news(view, status)) > AT_ONCE else None


def _news(view: View, status: JobState) -> tuple[PriceWorker, ...]:
    """Return the prices that are not yet on their pods."""
    parts = (status.phase, status.pace, status.progress, status.checkpoint, status.world)
    return view.once(
        "interruption news", (*parts, status.cost), lambda: tuple(_find_news(view, status))
    )


def _find_news(view: View, status: JobState) -> Iterator[PriceWorker]:
    lost, rate = loss_seconds(view, status), status.cost.usd_per_hour
    if lost is None or not rate:
        return
    little = rate.over(LITTLE_SECONDS)
    # A large job has thousands of workers, and two prices.
    prices = {time: to_show(rate.over(time)) for time in (lost.of_most, lost.of_last_holders)}
    judged: dict[tuple[Usd | None, Usd], bool] = {}
    for worker in world_members(view, status):
        said, usd = worker.pod.interruption_usd, prices[lost.of(worker)]
        is_news = judged.get((said, usd))
        if is_news is None:
            is_news = _is_news(max(said or NO_USD, little), max(usd, little))
            judged[said, usd] = is_news
        if is_news and not worker.pod.deleting:
            yield PriceWorker(worker.worker_id, worker.pod.uid, usd)


def _is_news(said: Usd, usd: Usd) -> bool:
    """Whether the price is at least twice the written one, or at most half of it."""
    return usd >= said + said or usd + usd <= said


def _restart_seconds(view: View, status: JobState) -> float:
    """Return the time that a loss costs if all workers start again from the last checkpoint."""
    wait = 0.0 if _goes_on_with_fewer(view, status) else changeovers(status.pace)[0]
    return _unsaved_seconds(status) + max(wait, RESTART_SECONDS)


def _unsaved_seconds(status: JobState) -> float:
    saved = status.checkpoint.step if status.checkpoint is not None else 0
    unsaved = max((status.progress.step or 0) - saved, 0)
    return unsaved * float(status.pace.step_seconds or 0)


def _goes_on_with_fewer(view: View, status: JobState) -> bool:
    """Whether enough workers are left to train."""
    return largest(view.job.effective_workers, len(training(status)) - 1) > 0


def _seconds(number: float) -> Decimal:
    return Decimal(f"{number:.3f}")


INTERRUPTION_PRICE = Policy(
    show_interruption, wake_after_seconds, actions=price_workers, is_for_readers=True
)
