"""ResourceQuotas: whether one is used up, since when, and what a job would need of it."""

import re
from datetime import datetime

from spotrun.api.meta import ConditionStatus
from spotrun.api.names import ConditionType, Reason
from spotrun.state.conditions import find, read_reason
from spotrun.state.snapshot import JobSnapshot

_REQUESTED = re.compile(r"requested: (\S+), used: ")
_AMOUNT = re.compile(r"((?!count/)\S+|count/pods)=(\d+)([A-Za-z]*)")
"""Amounts as the API server writes them: whole numbers, and a unit where there is one. A job has
one of each other object that it counts, not one for each worker."""


def is_over_quota(job: JobSnapshot) -> bool:
    """Whether a quota refused the worker that was to be made last.

    A new leader has asked for none yet: status has what its predecessor was told.
    """
    said = job.refusal.reason if job.refusal is not None else job.status.reason
    return said == Reason.QUOTA_EXCEEDED


def over_quota_since(job: JobSnapshot) -> datetime | None:
    """Since when a quota is known to refuse workers of a job; None if none is."""
    stated = find(job.status, ConditionType.TEMPLATE_ACCEPTED)
    if stated is None or stated.status is not ConditionStatus.FALSE:
        return None
    is_quota = read_reason(stated.reason, Reason.TEMPLATE_REFUSED) is Reason.QUOTA_EXCEEDED
    return stated.last_transition_time if is_quota else None


def need(words: str, workers: int) -> str:
    """Return what so many workers need of a quota: `pods=8`, by the words in which it refused one.

    Nothing if it has used other words.
    """
    found = _REQUESTED.search(words)
    amounts = [_AMOUNT.fullmatch(one) for one in found[1].split(",")] if found is not None else []
    return ",".join(f"{one[1]}={int(one[2]) * workers}{one[3]}" for one in amounts if one)
