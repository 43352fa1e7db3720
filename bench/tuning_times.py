"""The parts of the time between two trials on one node: times of each part, seen by watches."""

import asyncio
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, product
from statistics import median

from bench.tuning_processes import Process
from devcluster.client import Client, Manifest, at
from tests.integration.trainer.traces import Trace

PARTS = (
    ("its checkpoint and its report", "last_step", "complete"),
    ("until the next job is made", "complete", "made"),
    ("until that has a pod", "made", "pod"),
    ("until the pod's node has room", "pod", "bound"),
    ("until its container runs", "bound", "running"),
    ("until its agent is ready", "running", "world"),
    ("until its script begins", "world", "script"),
    ("until its first step", "script", "first_step"),
)
"""Name, begin and end of each part: for two parts, the begin is of the trial before."""
_OF_THE_ONE_BEFORE = frozenset({"last_step", "complete", "ended"})


@dataclass
class Moments:
    """The times of a trial: seconds of the machine's clock, by the names in `PARTS`."""

    node: str = ""
    at: dict[str, float] = field(default_factory=dict)

    def note(self, what: str) -> None:
        self.at.setdefault(what, time.time())


async def watch_trials(kube: Client, namespace: str, seen: dict[str, Moments]) -> None:
    """Record what happens to all trials, by the names of their jobs, until cancelled."""
    async with asyncio.TaskGroup() as group:
        group.create_task(_watch_pods(kube, namespace, seen))
        group.create_task(_watch_jobs(kube, namespace, seen))


def turnarounds(notes: Trace, seen: Mapping[str, Moments]) -> list[dict[str, float]]:
    """Return the parts of each pause between two trials on one node, and the sum, `all`."""
    for line in notes:
        at = seen[line["job"]].at
        at.setdefault("first_step" if line["step"] else "script", line["time"])
        at["last_step"] = line["time"]
    return [
        {"all": _pause(before, after), **_parts(before, after)}
        for before, after in _pairs(seen.values())
    ]


def timeline(
    seen: Mapping[str, Moments], processes: Iterable[Process]
) -> tuple[list[tuple[float, str]], dict[str, float]]:
    """Return the events in the pause of median length, and the CPU time of each process in it.

    Both are in seconds since the last step of the trial before. Call it after `turnarounds`.
    """
    pairs = sorted(_pairs(seen.values()), key=lambda pair: _pause(*pair))
    before, after = pairs[len(pairs) // 2]
    since, until = before["last_step"], after["first_step"]
    names = {id(one.at): job for job, one in seen.items()}
    events = [(before[what], f"before: {what}") for what in _OF_THE_ONE_BEFORE & before.keys()]
    events += [(moment, what) for what, moment in after.items() if what != "last_step"]
    cpu: dict[str, float] = {}
    roles = ((names[id(before)], "before: "), (names[id(after)], ""))
    for one, (job, role) in product(processes, roles):
        if one.job != job or one.ended < since or one.began > until:
            continue
        name = role + ("torchrun" if one.is_agent else "its script")
        cpu[name] = cpu.get(name, 0.0) + one.cpu_between(since, until)
        events += [(one.began, f"{name} begins"), (one.ended, f"{name} has ended")]
    shown = [(round(t - since, 2), what) for t, what in sorted(events) if since <= t <= until]
    return shown, {name: round(seconds, 2) for name, seconds in cpu.items()}


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


def _pause(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    return after["first_step"] - before["last_step"]


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
