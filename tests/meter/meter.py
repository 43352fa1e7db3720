"""The cost of a job's workers, as metered by somebody who only watches the API server.

It shares no code with the operator: it keeps every version of the pods, nodes and pools that the
API server tells, and adds up prices over pods' times. Where nobody says when a thing happened (an
annotation that changes, a node or a pod that vanishes) it happened when the watch told it. On a
node that Kubernetes does not hear of any more nothing runs, unless its kubelet comes back and says
otherwise. It does not see workers that speak while their kubelets do not.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from typing import Any

from devcluster.client import Client, at
from devcluster.watching import WatchEvent

Manifest = dict[str, Any]
Prices = list[tuple[datetime, Fraction]]

PRICE = "spotrun.dev/usd-per-hour"
POOL_GROUP = "spotrun.dev/v1alpha1"
_FOUND = ("Unknown", "ContainerStatusUnknown")
_LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
_UNITS = {
    "": Fraction(1),
    "m": Fraction(1, 1000),
    **{unit: Fraction(1024 ** (n + 1)) for n, unit in enumerate(("Ki", "Mi", "Gi", "Ti"))},
}
# A core and a GiB are weighed by what OpenCost takes them to cost.
_USD_PER_CORE, _USD_PER_GIB = Fraction(31611, 10**6), Fraction(4237, 10**6)


@dataclass
class _Node:
    allocatable: Manifest
    labels: Manifest
    prices: Prices = field(default_factory=list)
    gone_at: datetime | None = None
    silent_at: datetime | None = None  # since when it was not heard of, the last time
    back_at: datetime | None = None  # and since when it is again


@dataclass
class _Pod:
    manifest: Manifest
    node: _Node | None = None
    over_at: datetime | None = None  # when it was first told to be over
    gone_at: datetime | None = None  # when it was told to be no more


@dataclass
class Meter:
    """All that was told, and what follows from it."""

    _pods: dict[str, _Pod] = field(default_factory=dict)
    _nodes: dict[str, _Node] = field(default_factory=dict)
    _pools: dict[frozenset[tuple[str, str]], Prices] = field(default_factory=dict)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def usd(self, job: str, until: datetime) -> Fraction:
        """Return what the workers of a job have cost by a moment."""
        return sum((self._cost(pod, until) for pod in self._of(job)), Fraction(0))

    def usd_by(self, label: str, job: str, until: datetime) -> dict[str, Fraction]:
        """The same by the value of a label of their nodes, empty where a node has none."""
        found: dict[str, Fraction] = {}
        for pod in self._of(job):
            value = pod.node.labels.get(label, "") if pod.node is not None else ""
            found[value] = found.get(value, Fraction(0)) + self._cost(pod, until)
        return found

    def unreported_ends(self, job: str) -> int:
        """Count the workers whose end nobody dated: both sides take when they were told."""
        return sum(_reported_end(pod) is None and _end(pod) is not None for pod in self._of(job))

    async def has_seen_all_ends(self, job: str) -> None:
        """Wait until every worker of a job that had a node is known to have ended."""

        def all_over() -> bool:
            return all(_start(pod) is None or _end(pod) is not None for pod in self._of(job))

        async with asyncio.timeout(60), self._news:
            await self._news.wait_for(all_over)

    async def note(self, event: WatchEvent) -> None:
        """Take in what a watch tells."""
        one, now = event.object, datetime.now(UTC)
        kind = one["kind"]
        if kind == "Pod":
            self._note_pod(one, now, is_gone=event.type == "DELETED")
        elif kind == "Node":
            self._note_node(one, now, is_gone=event.type == "DELETED")
        else:
            self._note_pool(one)
        async with self._news:
            self._news.notify_all()

    def _note_pod(self, pod: Manifest, now: datetime, *, is_gone: bool) -> None:
        known = self._pods.setdefault(pod["metadata"]["uid"], _Pod(pod))
        if is_gone and "spec" not in pod:  # a list found it: what it was is as it was told before
            pod = known.manifest
        known.manifest = pod
        if known.over_at is None and pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}:
            known.over_at = now
        if is_gone:
            known.gone_at = now
        name = pod["spec"].get("nodeName")
        if known.node is None and name is not None:
            known.node = self._nodes.get(name)

    def _note_node(self, node: Manifest, now: datetime, *, is_gone: bool) -> None:
        name, status = node["metadata"]["name"], node.get("status", {})
        known = self._nodes.get(name)
        if known is None or known.gone_at is not None:
            labels = node["metadata"].get("labels", {})
            known = self._nodes[name] = _Node(status.get("allocatable", {}), labels)
        if is_gone:
            known.gone_at = now
            return
        _note_silence(known, status)
        said = node["metadata"].get("annotations", {}).get(PRICE)
        if said is not None:
            price = Fraction(said)
            if not known.prices or known.prices[-1][1] != price:
                known.prices.append((now if known.prices else _LONG_AGO, price))

    def _note_pool(self, pool: Manifest) -> None:
        price = pool.get("status", {}).get("price", {})
        changes = [(_moment(c["time"]), Fraction(c["usdPerHour"])) for c in price.get("recent", ())]
        if changes:
            selector = frozenset(pool["spec"].get("nodeSelector", {}).items())
            self._pools[selector] = [(_LONG_AGO, changes[0][1]), *changes[1:]]

    def _of(self, job: str) -> list[_Pod]:
        return [
            pod
            for pod in self._pods.values()
            if pod.manifest["metadata"]["labels"].get("spotrun.dev/job") == job
        ]

    def _cost(self, pod: _Pod, until: datetime) -> Fraction:
        start, node = _start(pod), pod.node
        if start is None or node is None:
            return Fraction(0)
        end = min(_end(pod) or until, until)
        share = _share(pod.manifest, node.allocatable)
        total = Fraction(0)
        ends: tuple[datetime, Fraction] = (_LONG_AGO + timedelta(days=365_000), Fraction(0))
        for (since, price), (following, _) in pairwise([*self._prices(node), ends]):
            seconds = _seconds(max(since, start), min(following, end))
            total += max(seconds, Fraction(0)) * price * share / 3600
        return total

    def _prices(self, node: _Node) -> Prices:
        """Return a node's own prices, else those of the pool whose labels it has."""
        labels = node.labels.items()
        pools = (prices for selector, prices in self._pools.items() if selector <= labels)
        return node.prices or next(pools, [])


def _note_silence(known: _Node, status: Manifest) -> None:
    for condition in status.get("conditions", ()):
        if condition["type"] != "Ready":
            continue
        since = _moment(condition["lastTransitionTime"])
        if condition["status"] == "Unknown":
            known.silent_at, known.back_at = since, None
        elif condition["status"] == "True":
            known.back_at = since


def _start(pod: _Pod) -> datetime | None:
    for condition in pod.manifest.get("status", {}).get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return _moment(condition["lastTransitionTime"])
    return None


def _end(pod: _Pod) -> datetime | None:
    """Return when the last container ended; a kubelet that does not know says no time."""
    end = _end_while_there(pod)
    moments = [moment for moment in (end, pod.gone_at) if moment is not None]
    return min(moments, default=None)


def _end_while_there(pod: _Pod) -> datetime | None:
    reported, node = _reported_end(pod), pod.node
    if reported is not None or node is None:
        return reported or pod.over_at
    if node.silent_at is not None and (node.back_at is None or pod.over_at is not None):
        return node.silent_at
    # Kubernetes fails the pods of a node that is gone, but only a minute later.
    return min((end for end in (pod.over_at, node.gone_at) if end is not None), default=None)


def _reported_end(pod: _Pod) -> datetime | None:
    """Return the end as the kubelet says it; None if it found it after the machine's restart."""
    states = [c["state"] for c in pod.manifest.get("status", {}).get("containerStatuses", ())]
    ended = [state.get("terminated", {}) for state in states]
    if any(one.get("reason") in _FOUND for one in ended) and _was_silent(pod):
        return None
    ends = [one.get("finishedAt") for one in ended]
    return max(map(_moment, ends)) if ends and all(ends) else None


def _was_silent(pod: _Pod) -> bool:
    return pod.node is not None and pod.node.silent_at is not None


def _share(pod: Manifest, allocatable: Manifest) -> Fraction:
    asked = [c.get("resources", {}).get("requests", {}) for c in pod["spec"]["containers"]]
    gpus = sum(int(one.get("nvidia.com/gpu", 0)) for one in asked)
    if gpus:
        return Fraction(gpus, int(allocatable["nvidia.com/gpu"]))
    if not any(asked):
        return Fraction(1)
    return min(sum(map(_weight, asked), Fraction(0)) / _weight(allocatable), Fraction(1))


def _weight(resources: Manifest) -> Fraction:
    cores, memory = _quantity(resources.get("cpu", "0")), _quantity(resources.get("memory", "0"))
    return cores * _USD_PER_CORE + memory / 2**30 * _USD_PER_GIB


def _quantity(text: str) -> Fraction:
    digits = text.rstrip("KMGTim")
    return Fraction(digits) * _UNITS[text[len(digits) :]]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _seconds(start: datetime, end: datetime) -> Fraction:
    return Fraction((end - start) // timedelta(microseconds=1), 10**6)


@asynccontextmanager
async def metered(kube: Client, namespace: str) -> AsyncIterator[Meter]:
    """Watch while the block lasts."""
    meter = Meter()
    paths = (
        at("nodes"),
        at("capacitypools", group=POOL_GROUP),
        at("pods", namespace),
    )
    tasks = [asyncio.create_task(_follow(kube, path, meter.note)) for path in paths]
    try:
        yield meter
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _follow(kube: Client, path: str, note: Callable[[WatchEvent], Any]) -> None:
    async with aclosing(kube.watch(path)) as events:
        async for event in events:
            await note(event)
