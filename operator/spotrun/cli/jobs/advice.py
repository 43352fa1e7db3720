"""Troubles of a job, from its conditions and its phase, and what to do about each.

docs/job-life.md explains every reason; these are the ones that need an action.
"""

from dataclasses import dataclass

from spotrun.api.names import ConditionType, Phase, Reason, SuspendedBy
from spotrun.cli.jobs.model import Condition, Job

_ADVICE: dict[str, str] = {
    Reason.WAITING_FOR_CAPACITY: "allow more pools or on-demand (placement.capacity: Mixed), lower "
    "workers.min, or request less for a worker; `kubectl get cpool` shows what there is",
    Reason.CANNOT_START: "fix the image's name, its pull secret, or the Secret or ConfigMap that "
    "is missing; to change the template, suspend the job, edit it, and resume it",
    Reason.WAITING_FOR_GANG: "wait until the other job has its nodes, or raise spec.priority",
    Reason.GIVES_WAY: "wait until there is room again, or raise spec.priority",
    Reason.SPEND_LIMITED: "raise limitUsd of the SpendLimit that the message names, wait for its "
    "next period, or ask for fewer or cheaper workers; `kubectl get spend` shows what is left",
    Reason.QUEUED: "wait for quota, or ask for fewer workers (workers.min); "
    "`kubectl get workloads` shows what Kueue says",
    Reason.EVICTED_BY_QUEUE: "wait until Kueue admits it again; `kubectl get workloads` shows "
    "why it does not",
    Reason.QUOTA_EXCEEDED: "wait until others have ended, raise the ResourceQuota, or lower "
    "workers.min",
    Reason.TEMPLATE_REFUSED: "suspend the job, fix the template as the message says, resume it",
    Reason.NAME_TAKEN: "rename or delete the object that the message names, or rename the job",
    Reason.WRITE_FAILED: "look at the webhook or policy that the message names",
    Reason.UNDECIDED: "report the traceback in the operator's log; the workers train on",
    Reason.LEDGER_REFUSED: "restore what the message names, with "
    "`kubectl edit --subresource=status`",
    Reason.VOLUME_NOT_SHARED: "use a ReadWriteMany claim or nfs, or set workers.max: 1",
    Reason.PROCESSES_UNKNOWN: "create the claim that the message names, or set workers.processes",
    Reason.AGENT_TOO_OLD: "build the image with a newer spotrun_trainer",
    Reason.SLOW_WORKER: "look at its node: other load, clocks, temperature, power limit; to move "
    "the worker, cordon the node and delete the pod; for GPUs of several types, use "
    'balance="measured"',
    Reason.SIZE_REFUSED: "write the sizes that work in workers.sizes",
    Reason.PRICE_UNKNOWN: "add the price that the message names to a table, or annotate the node; "
    "`kubectl get cpool` shows the command",
    Reason.BUDGET_EXCEEDED: "raise budget.maxCostUsd to continue, or leave the job as it is",
    Reason.RATE_LIMITED: "raise budget.maxUsdPerHour for more workers",
    Reason.DEADLINE_AT_RISK: "allow more workers or on-demand capacity, or a later deadline",
    Reason.DEADLINE_MISSED: "set a later deadline, or create the job again: it continues from its "
    "newest checkpoint",
    Reason.ONLY_SPOT: "choose placement.capacity: Mixed, if the job must meet its deadline",
    Reason.TOTAL_UNKNOWN: "pass total to run.steps, or set the annotation spotrun.dev/total-steps",
    Reason.NOTHING_USED: "read the logs of rank 0; suspend the job to stop paying",
    Reason.IDLE: "find out why nothing was used, then suspend and resume the job",
    Reason.OOM_KILLED: "raise the memory limit, or use smaller microbatches",
    Reason.EVICTED: "raise the request for ephemeral-storage, or write less to the node",
    Reason.EXIT_CODE: "read the worker's log, fix the script, and create the job again: it "
    "continues from its newest checkpoint",
    Reason.FAULTY_DEVICE: "have the node in the message repaired, which this job avoids already: "
    "kubectl cordon keeps other jobs off it",
    Reason.TOO_MANY_RESTARTS: "fix what failed last, and create the job again: it continues from "
    "its newest checkpoint",
    Reason.FATAL_EXIT_CODE: "fix what failed, and create the job again",
    Reason.UNUSABLE_IMAGE: "use an image with Python 3.10 and torch 2.10 or newer",
    Reason.HUNG: "look for a deadlock on the ranks in the message, or raise failures.hangAfter",
}
_WANTED_FALSE = frozenset({ConditionType.IDLE, ConditionType.INTERRUPTED})
_SERIOUS = frozenset(
    {
        ConditionType.TEMPLATE_ACCEPTED,
        ConditionType.CHECKPOINT_USABLE,
        ConditionType.AGENTS_SUPPORTED,
        ConditionType.DECIDED,
        ConditionType.WRITTEN,
        ConditionType.SIZE_ACCEPTED,
        ConditionType.EVEN_SPEED,
        ConditionType.WITHIN_BUDGET,
        ConditionType.ON_SCHEDULE,
        ConditionType.PRICING_COMPLETE,
        ConditionType.IDLE,
    }
)
_BY_PHASE = {
    "": 3,
    Phase.FAILED: 0,
    Phase.RECOVERING: 2,
    Phase.PENDING: 3,
    Phase.STARTING: 4,
    Phase.SUSPENDED: 5,
    Phase.RUNNING: 6,
    Phase.SUCCEEDED: 7,
}
_OVER = frozenset({Phase.SUCCEEDED, Phase.FAILED})


@dataclass(frozen=True)
class Trouble:
    """One thing that is wrong, and how to fix it."""

    title: str
    message: str
    advice: str = ""


def troubles(job: Job) -> tuple[Trouble, ...]:
    """Return the troubles of a job, the one that holds it up first."""
    found = [*_phase_trouble(job)]
    said = {one.message for one in found}
    if job.status.phase not in _OVER:
        found += [
            Trouble(one.reason or one.type, one.message, advice_for(one.reason))
            for one in job.status.conditions
            if is_trouble(one) and one.message not in said
        ]
    return tuple(found)


def is_trouble(condition: Condition) -> bool:
    """Whether a condition needs attention."""
    if condition.type not in _SERIOUS:
        return False
    bad = "True" if condition.type in _WANTED_FALSE else "False"
    return condition.status == bad


def advice_for(reason: str) -> str:
    """Return what to do about a reason; empty where nothing is to be done."""
    return _ADVICE.get(reason, "")


def severity(job: Job) -> int:
    """Return where a job stands in a list by trouble: the smallest is first."""
    rank = _BY_PHASE.get(job.status.phase, 3)
    if rank > 1 and job.status.phase not in _OVER and any(map(is_trouble, job.status.conditions)):
        return 1
    return rank


def _phase_trouble(job: Job) -> tuple[Trouble, ...]:
    status = job.status
    if not status.phase and job.spec.managed_by is not None:
        return (_handed_over(job.spec.managed_by),)
    if not status.phase:
        return (
            Trouble(
                "NotSeen",
                "no operator has looked at this job yet",
                "`kubectl tjob doctor` checks whether one runs and serves this namespace",
            ),
        )
    is_held = status.phase == Phase.SUSPENDED
    if status.phase not in (Phase.FAILED, Phase.PENDING, Phase.RECOVERING) and not is_held:
        return ()
    advice = _hold(job) if is_held else advice_for(status.reason)
    return (Trouble(status.reason or status.phase, status.message, advice),) if advice else ()


def _handed_over(controller: str) -> Trouble:
    return Trouble(
        "HandedOver",
        f"the job is managed by {controller}, which has not reported its state yet",
        "if that is Kueue, look at the Workload of the job: `kubectl get workloads "
        "-l spotrun.dev/job=NAME`; there is none if the job has no label that names its queue",
    )


def _hold(job: Job) -> str:
    holders = job.status.suspended_by
    if SuspendedBy.USER in holders:
        return f"`kubectl tjob resume {job.metadata.name}` continues it"
    if SuspendedBy.BUDGET in holders or SuspendedBy.QUEUE in holders:
        said = advice_for(job.status.reason)
        if said:
            return said
    return next((_ADVICE[reason] for who, reason in _HELD.items() if who in holders), "")


_HELD = {
    SuspendedBy.IDLE: Reason.IDLE,
    SuspendedBy.BUDGET: Reason.BUDGET_EXCEEDED,
    SuspendedBy.SPEND_LIMIT: Reason.SPEND_LIMITED,
    SuspendedBy.PREEMPTION: Reason.GIVES_WAY,
    SuspendedBy.QUEUE: Reason.QUEUED,
}
"""The reason whose advice counts for a holder; the holder to act on first is first."""
