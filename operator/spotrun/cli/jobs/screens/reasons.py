"""Answers to `why`: sentences from what the operator recorded, and nothing else."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spotrun.api.names import Choice, Phase, Reason, ScalingReason
from spotrun.cli.jobs.advice import troubles
from spotrun.cli.jobs.model import Decision, Job
from spotrun.cli.jobs.pool_model import Pool
from spotrun.cli.jobs.workers import members_of, numbers
from spotrun.cli.text.look import Look
from spotrun.cli.text.words import age, sentence, things, usd

_SIZE = frozenset({"Grow", "Shrink", "Stay", Reason.RATE_LIMITED})
_NODES = frozenset(
    {
        Reason.PLACED,
        Reason.FALLBACK,
        Reason.BACK_TO_SPOT,
        Reason.BETTER_POOL,
        Reason.REPLICA_MOVED,
        Reason.REJECTED,
        Reason.WAITING_FOR_CAPACITY,
    }
)
_MOST_POOLS = 6
_CAPACITY = {
    "Spot": "The capacity is Spot: only capacity that can be taken away is used",
    "OnDemand": "The capacity is OnDemand: only capacity that stays is used",
    "Mixed": "The capacity is Mixed: spot comes first, on demand if no spot is available",
}


@dataclass(frozen=True)
class Answer:
    """A question, and the sentences that answer it."""

    question: str
    sentences: tuple[str, ...]


def why(job: Job, pools: Sequence[Pool], look: Look) -> list[str]:
    """Return the lines of all answers."""
    lines: list[str] = []
    for one in answers(job, pools, look):
        lines += ["", look.paint(one.question, "bold")]
        for text in one.sentences:
            lines += look.filled(sentence(text), "  ", "  ")
    return lines[1:]


def answers(job: Job, pools: Sequence[Pool], look: Look) -> tuple[Answer, ...]:
    """Answer why the job has its phase, its size, its nodes and its price."""
    phase = job.status.phase or "not seen"
    found = [
        Answer(f"Why is it {phase}?", tuple(_state(job, look))),
        Answer("Why this size?", tuple(_size(job, look))),
        Answer("Why these nodes?", tuple(_nodes(job, look))),
        Answer("Why this price?", tuple(_price(job, pools, look))),
    ]
    return tuple(one for one in found if one.sentences)


def _state(job: Job, look: Look) -> Iterator[str]:
    status = job.status
    if status.message:
        yield f"{status.message} ({status.reason})" if status.reason else status.message
    explained = _purpose(Reason, status.reason)
    if explained and status.phase != Phase.RUNNING:
        yield f"{status.reason} means: {explained}"
    for one in troubles(job):
        if one.message != status.message:
            yield f"{one.title}: {one.message}"
        if one.advice:
            yield f"To fix it: {one.advice}"
    yield from _precedence(job, look)


def _precedence(job: Job, look: Look) -> Iterator[str]:
    """Say what the job last gave to one of higher priority, and what others gave to it."""
    for what in (Reason.GIVES_WAY, Reason.MAKES_ROOM):
        if last := _last(job, frozenset({what})):
            yield f"{age(last.time, look.now)} ago, {last.what}: {last.why}"


def _size(job: Job, look: Look) -> Iterator[str]:
    workers, shown, scaling = job.spec.workers, job.status.workers, job.status.scaling
    if not job.spec.is_auto:
        yield (
            f"The spec asks for {workers.replicas} of {workers.min} to {workers.max}; the "
            "number is chosen by you (`kubectl tjob scale`)"
        )
    elif last := _last(job, _SIZE):
        yield f"{age(last.time, look.now)} ago, {last.what}: {last.why}"
    if scaling and scaling.reason and (text := _purpose(ScalingReason, scaling.reason)):
        yield f"{scaling.reason} means: {text}"
    if shown.allowed and shown.allowed.size < workers.max:
        yield f"No more than {shown.allowed.size} are allowed now ({shown.allowed.reason})"
    if scaling and len(scaling.efficiency) > 1:
        measured = ", ".join(
            f"{size} workers {float(share):.0%}" for size, share in scaling.efficiency.items()
        )
        yield f"Throughput per worker as it was measured: {measured}"
    if workers.sizes:
        named = ", ".join(map(str, workers.sizes))
        yield f"Only sizes that workers.sizes names are allowed: {named}"


def _nodes(job: Job, look: Look) -> Iterator[str]:
    if text := _CAPACITY.get(job.spec.placement.capacity):
        yield text
    said = set()
    for one in reversed(job.status.decisions):
        if one.what in _NODES and one.what not in said:
            said.add(one.what)
            yield f"{age(one.time, look.now)} ago, {one.what}: {one.why}"
    if last := job.status.interruptions.last:
        where = f" on node {last.node}" if last.node else ""
        yield (
            f"The last worker that was taken away ({last.reason}, {age(last.time, look.now)} ago) "
            f"was {last.worker}{where}"
        )


def _price(job: Job, pools: Sequence[Pool], look: Look) -> Iterator[str]:
    by_name = {pool.metadata.name: pool for pool in pools}
    groups = _rates(job)
    for (pool_name, rate, is_spot), count in groups[:_MOST_POOLS]:
        kind = {True: "spot worker", False: "on-demand worker", None: "worker"}[is_spot]
        where = f" in pool {pool_name}" if pool_name else ""
        source = _source(by_name.get(pool_name), look)
        yield f"{things(count, kind)}{where} at {usd(rate)} an hour each{source}"
    if len(groups) > _MOST_POOLS:
        yield f"{len(groups) - _MOST_POOLS} more prices; `kubectl tjob show` has them by worker"
    cost = job.status.cost
    if cost.usd_per_hour and groups:
        yield f"Together that is {usd(cost.usd_per_hour)} an hour"
    if cost.pricing and cost.pricing != "Complete":
        yield f"Prices are {cost.pricing}: capacity without a known price counts as $0"


def _rates(job: Job) -> list[tuple[tuple[str, str, bool | None], int]]:
    """Return the different rates of workers that train or run, and how many workers have each."""
    training = set(members_of(job))
    found: dict[tuple[str, str, bool | None], int] = defaultdict(int)
    for rate in job.status.accumulators.rates:
        ids = [number for number in numbers(rate.workers) if number in training or not training]
        if ids:
            found[rate.pool or "", rate.usd_per_hour, rate.is_spot] += len(ids)
    return sorted(found.items(), key=lambda item: -item[1])


def _source(pool: Pool | None, look: Look) -> str:
    if pool is None or pool.status.price.usd_per_hour is None:
        return ""
    price = pool.status.price
    of = f" from {price.source}" if price.source else ""
    old = f", {age(price.as_of, look.now)} old" if price.as_of else ""
    return f" (a node there costs {usd(price.usd_per_hour)}{of}{old})"


def _last(job: Job, kinds: frozenset[str]) -> Decision | None:
    return next((one for one in reversed(job.status.decisions) if one.what in kinds), None)


def _purpose(kinds: type[Choice], value: str) -> str:
    """Return what a reason means, as the API describes it."""
    return next((one.purpose for one in kinds if one.value == value), "")
