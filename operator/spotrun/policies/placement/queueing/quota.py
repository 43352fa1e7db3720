"""ResourceQuotas: whether one is used up, since when, and how much of it a job would need."""

import re
from datetime import datetime

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason
from spotrun.state.conditions import find, read_reason
from spotrun.state.snapshot import JobSnapshot

_REQUESTED = re.compile(r"requested: (\S+), used: ")
_AMOUNT = re.compile(r"((?!count/)\S+|count/pods)=(\d+)([A-Za-z]*)")
"""Amounts as the API server writes them: whole numbers, with a unit if there is one. `count/...` of
other objects is left out: a job has one of each, not one for each worker."""


def is_over_quota(job: JobSnapshot) -> bool:
    """Whether a quota refused the worker that the operator tried to create last.

    A new leader has tried none yet: the status holds the answer that its predecessor got.
    """
    said = job.refusal.reason if job.refusal is not None else job.status.reason
    return said == Reason.QUOTA_EXCEEDED


def over_quota_since(job: JobSnapshot) -> datetime | None:
    """Return since when a quota is known to refuse workers of a job; None if none does."""
    stated = find(job.status, ConditionType.TEMPLATE_ACCEPTED)
    if stated is None or stated.status is not ConditionStatus.FALSE:
        return None
    is_quota = read_reason(stated.reason, Reason.TEMPLATE_REFUSED) is Reason.QUOTA_EXCEEDED
    return stated.last_transition_time if is_quota else None


def need(words: str, workers: int) -> str:
    """Return how much of a quota so many workers need, such as `pods=8`, from its refusal of one.

    The result is empty if the refusal has an unknown form.
    """
    found = _REQUESTED.search(words)
    amounts = [_AMOUNT.fullmatch(one) for one in found[1].split(",")] if found is not None else []
    return ",".join(f"{one[1]}={int(one[2]) * workers}{one[3]}" for one in amounts if one)
