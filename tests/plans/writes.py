"""The writes of a run by name, and the plans that disturb one of them. Pure.

A write is named by what it is (verb, kind, subresource), whose pod it concerns, and the how-manieth
of these it is: that is the same in every run of a scenario, whatever the order among them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

from typing_extensions import override

from tests.faults.proxy import Request
from tests.faults.rules import Rule

Disturbance = Literal["crash_before", "crash_after", "lose_answer", "drop"]
DISTURBANCES: tuple[Disturbance, ...] = ("crash_before", "crash_after", "lose_answer", "drop")

_PATH = re.compile(r"/apis?/(?:[^/]+/)?v\w+/(?:namespaces/[^/]+/)?(?P<rest>.+)")
_STATUS = "patch trainingjobs/status"
_OF_SEARCH = "patch tuningjobs/status"
_MERGED = frozenset({_STATUS, _OF_SEARCH, "create events"})
_SEARCHES = frozenset({"searched", "evolved"})
"""The scenarios in which the writes of the trials' own lives are not disturbed again."""
_PREEMPTION = "gives_way"
"""The scenario of which each time one write is disturbed in each way, those by which jobs give
way: its others are as in the scenarios of resizing."""
_OF_SEARCHES = frozenset(
    {_OF_SEARCH, "create trainingjobs", "patch trainingjobs", "delete trainingjobs"}
)
_BEGINNING = 3  # writes of status until a job's first world stands
_NOT_COUNTED = frozenset({"tokenreviews", "subjectaccessreviews"})  # writes in form only


@dataclass(frozen=True, order=True)
class Write:
    """One write of a run."""

    what: str  # e.g. "patch trainingjobs/status"
    worker_id: str = ""  # of the worker it is about
    nth: int = 1

    @override
    def __str__(self) -> str:
        return " ".join(filter(None, (self.what, self.worker_id, f"#{self.nth}")))

    @classmethod
    def read(cls, text: str) -> Self:
        """The inverse of `str`."""
        matched = re.fullmatch(r"(?P<what>.+?)(?: (?P<worker_id>\d+))? #(?P<nth>\d+)", text)
        assert matched is not None, f"{text!r} names no write"
        return cls(matched["what"], matched["worker_id"] or "", int(matched["nth"]))


@dataclass(frozen=True)
class Plan:
    """One thing that goes wrong in one scenario."""

    scenario: str
    write: Write
    disturbance: Disturbance

    @override
    def __str__(self) -> str:
        return f"{self.scenario}-{self.disturbance}-{self.write}".replace(" ", "-")

    def rule(self) -> Rule:
        """The rule for the proxy."""
        verb, _, rest = self.write.what.partition(" ")
        kind, _, dry = rest.partition(" ")
        plural, _, subresource = kind.partition("/")
        one = rf"/[^/]*{f'-{self.write.worker_id}' if self.write.worker_id else ''}"
        named = "" if verb == "create" and not subresource else one
        return Rule(
            self.disturbance,
            verb=verb,
            path=rf"/{plural}{named}{f'/{subresource}' if subresource else ''}$",
            match=self._is_about if verb == "create" else None,
            query=lambda query: ("dryRun" in query) == bool(dry),
            nth=self.write.nth,
        )

    def _is_about(self, body: Any) -> bool:
        return not self.write.worker_id or _name_in(body).endswith(f"-{self.write.worker_id}")


def writes_of(log: Iterable[Request]) -> list[Write]:
    """The writes of a run in their order, renewals of leases left out."""
    seen: Counter[tuple[str, str]] = Counter()
    found = []
    for request in log:
        named = _named(request)
        if named is None:
            continue
        seen[named] += 1
        if named[0] != "patch leases":
            found.append(Write(*named, seen[named]))
    return found


def met_another(write: Write, made: Iterable[Write]) -> bool:
    """Whether a write can be missing from a run: two changes were told in one.

    That happens to statuses and events alone, and only to later ones of their kind.
    """
    same = sum((one.what, one.worker_id) == (write.what, write.worker_id) for one in made)
    return write.what in _MERGED and 0 < same < write.nth


def all_plans(recorded: Mapping[str, Sequence[str]]) -> list[Plan]:
    """Every disturbance of every write of every scenario."""
    return [
        Plan(scenario, Write.read(write), how)
        for scenario, writes in recorded.items()
        for write in writes
        for how in DISTURBANCES
    ]


def pruned(plans: Sequence[Plan]) -> list[Plan]:
    """The first plan of each kind: what is written, and what goes wrong.

    The status is written for another reason each time: every such write is disturbed in one way,
    these taking turns; but not again those with which all scenarios begin.
    """
    kept: dict[object, Plan] = {}
    for plan in plans:
        write, turn = plan.write, DISTURBANCES.index(plan.disturbance)
        if plan.scenario in _SEARCHES:
            if write.what in _OF_SEARCHES and _turn_of(write) == turn:
                kept[plan] = plan
        elif plan.scenario == _PREEMPTION:
            if write.what == _STATUS and write.nth - _BEGINNING == turn + 1:
                kept[plan] = plan
        elif write.what != _STATUS:
            kept.setdefault((write.what, plan.disturbance), plan)
        elif write.nth % len(DISTURBANCES) == turn and (
            write.nth > _BEGINNING or plan.scenario == plans[0].scenario
        ):
            kept[plan] = plan
    return list(kept.values())


def _turn_of(write: Write) -> int:
    """Return the way to disturb a write where all of a kind take turns."""
    return (write.nth + len(write.what)) % len(DISTURBANCES)


def _named(request: Request) -> tuple[str, str] | None:
    """Return what a request writes; None if it changes nothing that anybody sees."""
    matched = _PATH.fullmatch(request.path)
    if matched is None or request.verb not in {"create", "update", "patch", "delete"}:
        return None
    kind, *rest = matched["rest"].split("/")
    if kind in _NOT_COUNTED:
        return None
    name = rest[0] if rest else _name_in(request.body)
    what = f"{request.verb} {kind}" + "".join(f"/{part}" for part in rest[1:])
    if request.query.get("dryRun"):
        what += " (dry run)"
    return what, name.rpartition("-")[2] if kind == "pods" else ""


def _name_in(body: Any) -> str:
    return str(body["metadata"].get("name", "")) if isinstance(body, dict) else ""
