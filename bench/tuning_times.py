"""The parts of the time between two trials on one node: moments of each, seen by watches."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median

from devcluster.client import Client, Manifest, at
from tests.integration.trainer.traces import Trace

PARTS = (
    ("its checkpoint and its report", "last_step", "complete"),
    ("until the next job is made", "complete", "made"),
    ("until that has a pod", "made", "pod"),
    ("until the pod's node has room", "pod", "bound"),
    ("until its container runs", "bound", "running"),
    ("until its agent is ready", "running", "world"),
    ("until its first step", "world", "first_step"),
)
"""Name, from what, to what: the first of each is the trial before, for two parts."""
_OF_THE_ONE_BEFORE = frozenset({"last_step", "complete", "ended"})


@dataclass
class Moments:
    """The moments of a trial: seconds of the machine's clock, by the names in `PARTS`."""

    node: str = ""
    at: dict[str, float] = field(default_factory=dict)

    def note(self, what: str) -> None:
        self.at.setdefault(what, time.time())


async def watch_trials(kube: Client, namespace: str, seen: dict[str, Moments]) -> None:
    """Note what becomes of all trials, by their jobs' names, until this is cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_watch_pods(kube, namespace, seen))
        group.create_task(_watch_jobs(kube, namespace, seen))


def turnarounds(notes: Trace, seen: Mapping[str, Moments]) -> list[dict[str, float]]:
    """Return the parts of each pause between two trials on one node, and `all` of it."""
    for line in notes:
        at = seen[line["job"]].at
        at.setdefault("first_step", line["time"])
        at["last_step"] = line["time"]
    return [
        {"all": after["first_step"] - before["last_step"], **_parts(before, after)}
        for before, after in _pairs(seen.values())
    ]


def medians(pauses: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Return the median of each part."""
    known = list(pauses)
    names = [*(name for name, _, _ in PARTS), "until the pod before has ended"]
    return {name: round(median(one[name] for one in known), 2) for name in names} if known else {}


def _pairs(trials: Iterable[Moments]) -> Iterable[tuple[dict[str, float], dict[str, float]]]:
    by_node: dict[str, list[dict[str, float]]] = {}
    for one in trials:
        if "first_step" in one.at:
            by_node.setdefault(one.node, []).append(one.at)
    for moments in by_node.values():
        ordered = sorted(moments, key=lambda at: at["first_step"])
        yield from pairwise(ordered)


def _parts(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    def moment(what: str) -> float:
        return (before if what in _OF_THE_ONE_BEFORE else after).get(what, float("nan"))

    parts = {name: moment(to) - moment(since) for name, since, to in PARTS}
    return {**parts, "until the pod before has ended": moment("ended") - moment("last_step")}


async def _watch_pods(kube: Client, namespace: str, seen: dict[str, Moments]) -> None:
    async for event in kube.watch(at("pods", namespace)):
        pod = event.object
        one = seen.setdefault(pod["metadata"]["labels"]["spotrun.dev/job"], Moments())
        one.note("pod")
        if node := pod["spec"].get("nodeName"):
            one.node = node
            one.note("bound")
        phase = pod["status"].get("phase")
        if phase == "Running":
            one.note("running")
        if phase in ("Succeeded", "Failed"):
            one.note("ended")


async def _watch_jobs(kube: Client, namespace: str, seen: dict[str, Moments]) -> None:
    async for event in kube.watch(at("trainingjobs", namespace, group="spotrun.dev/v1alpha1")):
        one = seen.setdefault(event.object["metadata"]["name"], Moments())
        one.note("made")
        status: Manifest = event.object.get("status") or {}
        if status.get("world", {}).get("number"):
            one.note("world")
        if status.get("phase") == "Succeeded":
            one.note("complete")
