"""The leader's memory of a job; if it is lost, that costs time, but makes no decision wrong."""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime

from spotrun.state.snapshot import JobSnapshot, Refusal, Undone

STATUS = "the status"
"""The name of a status write among the failed writes. Users never see it: the failure can be
written into the status only once it is over."""
_ACCIDENTS = 3
"""A write that failed this many times in a row is reported: it is no longer an accident."""


@dataclass
class Refused:
    """A refusal of this job's pods by Kubernetes; times are on the monotonic clock."""

    refusal: Refusal
    template: str  # another template is tried at once
    times: int = 1
    retry_at: float = 0.0


@dataclass(frozen=True)
class Failing:
    """A failing write with the last answer's message; times are on the monotonic clock."""

    times: int  # in a row
    words: str
    retry_at: float


@dataclass
class Memory:
    """The memory of one job; `act` writes what it did, `observe` what it saw."""

    uid: str | None = None  # of the job, once it was seen
    leading_since: float | None = None  # of the term as leader in which it was gathered
    written_at: float = float("-inf")  # when status was last written
    conflicts: int = 0  # status writes in a row that failed because another client wrote first
    lost_at: dict[int, float] = field(default_factory=dict)  # when each loss was noticed
    missed_at: dict[int, float] = field(default_factory=dict)  # when both neighbours missed it
    refused: Refused | None = None
    failing: dict[str, Failing] = field(default_factory=dict)  # by what was to be written
    accepted: str | None = None  # the template of which a dry run accepted a pod
    is_restricted: bool = False  # the namespace takes only pods of Pod Security's `restricted`
    policy_at: float = float("-inf")  # when its NetworkPolicy was last made
    budget_at: float = float("-inf")  # when its PodDisruptionBudget was last made
    broken: str = ""  # why the last pass could not decide it
    undecided: int = 0  # how often in a row a policy failed
    shown: frozenset[int] = frozenset()  # the workers that had a pod in the last pass
    # The workers that should have a pod and have none, since when; None: since before
    # an operator watched.
    hidden: dict[int, datetime | None] = field(default_factory=dict)
    vanished: frozenset[int] = frozenset()  # those of them that really have no pod any more
    last: JobSnapshot | None = None  # as it was stored last, without its workers
    event_times: deque[float] = field(default_factory=deque)

    @property
    def undone(self) -> Undone | None:
        """Return the write that failed most often in a row, if often enough; never the status."""
        known = (one for one in self.failing.items() if not one[0].startswith(STATUS))
        failing = max(known, key=lambda one: one[1].times, default=None)
        if failing is None or failing[1].times < _ACCIDENTS:
            return None
        what, last = failing
        return Undone(what, last.words)

    def is_of_former(self, uid: str | None, leading_since: float) -> bool:
        """Whether it is of a deleted job, whose name now belongs to another job or to none.

        What was seen before another replica was the leader is too old to be reported.
        """
        was_led = self.leading_since == leading_since
        return was_led and self.last is not None and self.last.uid != uid

    def keep_only(self, uid: str | None, leading_since: float) -> None:
        """Forget a deleted job of that name, and what was known before another replica led.

        What protected the old job does not protect a new one. And what another leader did meanwhile
        is unknown: a job that was last seen long ago need not have cost its rate since then.
        """
        is_another = None not in {uid, self.uid} and uid != self.uid
        others_led = self.leading_since not in {None, leading_since}
        if is_another or others_led:
            vars(self).update(vars(Memory()))
        self.uid, self.leading_since = uid or self.uid, leading_since
