"""Six questions to every run. Each returns what is wrong, in words."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from fractions import Fraction
from typing import Any

from devcluster.client import Manifest, at
from spotrun.api.names import FINALIZER_METERED
from tests.campaign.ground import Ground
from tests.campaign.scenarios import USD_PER_HOUR
from tests.plans.endstate import differences
from tests.plans.history import Event
from tests.plans.run import removed_by
from tests.plans.safety import HEALTHY_AND_WANTED, numbers, owner_of, violations

CENT = Fraction(1, 100)
UNREPORTED_SECONDS = 10
"""The end of a pod that vanishes has no date: each side takes when it hears of it."""
_LEFT = {
    "pods": "v1",
    "secrets": "v1",
    "configmaps": "v1",
    "poddisruptionbudgets": "policy/v1",
    "networkpolicies": "networking.k8s.io/v1",
    "trainingjobs": "spotrun.dev/v1alpha1",
}
_OF_TIME_AND_MONEY = frozenset(
    {
        "cost",
        "accumulators",
        "decisions",
        "report",
        "goodput",
        "spotrun.dev/template",
        "spotrun.dev/cost-as-of",
        "spotrun.dev/cost-usd",
    }
)


def same_end(expected: Manifest, actual: Manifest, *, is_exact: bool) -> list[str]:
    """Whether a run ended as the undisturbed one, but for what it cost and when."""
    if is_exact:
        return differences(_without(expected), _without(actual))
    return differences(_shape(expected), _shape(actual))


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without(v) for k, v in value.items() if k not in _OF_TIME_AND_MONEY}
    if isinstance(value, list):
        return [_without(one) for one in value if not _is_passing(one)]
    return value


def _is_passing(value: object) -> bool:
    """Whether it is a condition that is stated on the way, unless the end is seen before."""
    return isinstance(value, dict) and value.get("type") == "CapacityAvailable"


def _shape(state: Manifest) -> Manifest:
    """Return the part of an end that does not depend on who was lost on the way."""
    status = state.get("trainingjobs/job", {}).get("status", {})
    world = status.get("world") or {}
    is_all_settled = len(numbers(status.get("settled"))) == status.get("nextWorkerId", 0)
    # The pods of a job that is over are kept for their logs; who deletes them does no harm.
    kinds = sorted({name.partition("/")[0] for name in state} - {"workers", "pods"})
    # An earlier release leaves the members of the last world to a job that is over.
    is_over = status.get("phase") in {"Succeeded", "Failed"}
    size = 0 if is_over else len(numbers(world.get("members")))
    kept = {"phase": status.get("phase"), "size": size, "settled": is_all_settled}
    return {**kept, "kinds": kinds}


async def same_cost(ground: Ground) -> list[str]:
    """Whether the last cost that was told is, to the cent, what an independent meter says."""
    told = [
        e.object.get("status", {}) for e in ground.history.in_order() if e.kind == "TrainingJob"
    ]
    told = [status for status in told if status.get("cost", {}).get("asOf")]
    if not told:  # a job may be ended before it was ever looked at
        is_unseen = ground.is_blind and not _jobs_in(ground.history.in_order())
        is_excused = ground.is_job_ended.is_set() or is_unseen
        return [] if is_excused else ["the job has told no cost"]
    cost, is_over = told[-1]["cost"], told[-1].get("phase") == "Succeeded"
    until = datetime.fromisoformat(cost["asOf"])
    metered = ground.meter.usd("job", until)
    # Ends are told in whole seconds, and of those that came after the job's last word only later.
    allowed = CENT if is_over else CENT + Fraction(USD_PER_HOUR, 3600)
    num_undated = ground.meter.unreported_ends("job") + len(ground.released)
    allowed += num_undated * UNREPORTED_SECONDS * Fraction(USD_PER_HOUR, 3600)
    # Who deletes a job takes the sums along: they are as of when it was last told.
    said = told[-1]["accumulators"]["usd"] if is_over else cost["usd"]
    off = Fraction(said) - metered
    if abs(off) <= allowed:
        return []
    return [f"the job says {said} USD, the meter {float(metered):.6f} by {until}"]


async def orphans(ground: Ground, *, is_deleted: bool) -> list[str]:
    """Whether anything is left of a job that is gone, or held of one that is over."""
    namespace, found = ground.world.namespace, []
    lists = {
        kind: await ground.world.kube.list(at(kind, namespace, group=group))
        for kind, group in _LEFT.items()
    }
    owners = {one["metadata"]["uid"] for several in lists.values() for one in several}
    for kind, several in lists.items():
        for one in several:
            meta = one["metadata"]
            name = f"{kind}/{meta['name']}"
            owned = [ref["uid"] for ref in meta.get("ownerReferences", ())]
            if owned and not owners.intersection(owned):
                found.append(f"{name} has no owner any more")
            if FINALIZER_METERED in meta.get("finalizers", ()):
                found.append(f"{name} is still held")
            if kind == "pods" and one.get("status", {}).get("phase") == "Running":
                found.append(f"{name} still runs")
            if kind == "trainingjobs" and is_deleted:
                found.append(f"{name} is still there")
    return found


def duplicates(ground: Ground, *, is_exact: bool) -> list[str]:
    """Whether two workers ever had one rank, or another rule of every moment was broken."""
    seen = ground.history.in_order()
    log = [request for proxy in ground.proxies for request in proxy.log]
    if ground.is_blind:  # a job that came and went meanwhile has left pods of nobody
        jobs = {*_jobs_in(seen), ""}  # of a deletion that a list found the owner is not known
        pods = (one for one in seen if one.kind == "Pod")
        of_nobody = {one.uid for one in pods if owner_of(one.object) not in jobs}
        seen = [one for one in seen if one.uid not in of_nobody]
    broken = violations(seen, removed=removed_by(log), doomed=ground.stage.doomed)
    if not is_exact:  # of two workers one may be taken back while a fault takes the other
        broken = [one for one in broken if not one.endswith(HEALTHY_AND_WANTED)]
    by_fault = {f"released before worker {n} was settled" for n in ground.released}
    broken = [one for one in broken if one.partition(": ")[2] not in by_fault]
    return [*broken, *_two_of_a_rank(seen)]


def _jobs_in(seen: Iterable[Event]) -> set[str]:
    """Return the jobs that were seen from their beginning, in the order of versions."""
    first: dict[str, Event] = {}
    for one in seen:
        if one.kind == "TrainingJob":
            first.setdefault(one.uid, one)
    return {uid for uid, one in first.items() if one.type == "ADDED"}


def _two_of_a_rank(seen: list[Event]) -> Iterator[str]:
    for event in seen:
        world = (event.object.get("status") or {}).get("world") or {}
        if event.kind == "TrainingJob" and world.get("members"):
            ids = str(world["members"])
            if len(numbers(ids)) != _length(ids):
                yield f"at {event.version}: a worker is twice in world {world['number']}: {ids}"


def _length(ids: str) -> int:
    parts = (part.partition("-") for part in ids.split(","))
    return sum(int(last or first) - int(first) + 1 for first, _, last in parts)


def torn(ground: Ground) -> list[str]:
    """Whether a checkpoint was acknowledged, or restored, that no agent has made whole."""
    made = {name for agent in ground.play.everyone for name in agent.committed}
    found, step = [], 0
    for event in ground.history.in_order():
        if event.kind != "TrainingJob":
            continue
        status = event.object.get("status") or {}
        known = status.get("checkpoint") or {}
        restored = (status.get("world") or {}).get("restore")
        unknown = {known.get("name"), restored} - made - {None}
        found += [f"at {event.version}: nobody has made {name}" for name in unknown]
        if known.get("step", step) < step:
            found.append(f"at {event.version}: step {step} became {known['step']}")
        step = known.get("step", step)
    return found
