"""The rules that hold at every moment of every run, whatever goes wrong. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import FINALIZER_METERED, LABEL_WORKER_ID
from tests.plans.history import Event, Manifest

HEALTHY_AND_WANTED = "is healthy and wanted"
_OVER = frozenset({"Succeeded", "Failed"})


@dataclass
class State:
    """The jobs and pods of one moment."""

    jobs: dict[str, Manifest] = field(default_factory=dict)  # by UID
    pods: dict[str, Manifest] = field(default_factory=dict)  # by UID

    def take(self, event: Event) -> None:
        of_kind = self.jobs if event.kind == "TrainingJob" else self.pods
        if event.type == "DELETED":
            of_kind.pop(event.uid, None)
        else:
            of_kind[event.uid] = event.object

    def live(self, owner: str, worker_id: int) -> list[Manifest]:
        return [
            pod
            for pod in self.pods.values()
            if owner_of(pod) == owner and worker_id_of(pod) == worker_id and not has_ended(pod)
        ]


def violations(
    events: Iterable[Event], *, removed: Collection[str], doomed: Collection[int]
) -> list[str]:
    """Every rule that was broken.

    `removed` are the UIDs of pods that the operator deleted, `doomed` the workers that the test
    took away.
    """
    state, found, known = State(), [], list(events)
    gaps = [
        (event.missed_since, event.version)
        for event in known
        if event.kind == "TrainingJob" and event.missed_since is not None
    ]
    for event in known:
        old = (state.jobs if event.kind == "TrainingJob" else state.pods).get(event.uid)
        # What a job was when something happened to its pod is not known where changes were missed.
        is_in_gap = event.missed_since is not None or any(a < event.version < b for a, b in gaps)
        if event.kind == "Pod" and is_in_gap:
            state.take(event)
            continue
        rules = _job_rules if event.kind == "TrainingJob" else _pod_rules
        found += [f"at {event.version}, {event.name}: {e}" for e in rules(state, old, event)]
        if event.kind == "Pod" and event.uid in removed and _begins_to_go(old, event):
            found += [
                f"at {event.version}, {event.name}: {error}"
                for error in _removal(state, old or event.object, doomed)
            ]
        state.take(event)
    return found


def _job_rules(_: State, old: Manifest | None, event: Event) -> Iterator[str]:
    if old is None or (event.type == "DELETED" and event.missed_since is not None):
        return  # of a deletion that a list found nothing but the name is known
    before, after = old.get("status", {}), event.object.get("status", {})
    if after.get("nextWorkerId", 0) < before.get("nextWorkerId", 0):
        yield f"nextWorkerId fell from {before['nextWorkerId']} to {after.get('nextWorkerId')}"
    if not numbers(before.get("settled")) <= numbers(after.get("settled")):
        yield f"settled shrank from {before.get('settled')} to {after.get('settled')}"
    if any(n >= after.get("nextWorkerId", 0) for n in numbers(after.get("settled"))):
        yield f"settled {after['settled']}, though only {after.get('nextWorkerId')} were given out"
    was, now = before.get("world") or {}, after.get("world") or {}
    if event.missed_since is None and now.get("number", 0) > was.get("number", 0) + 1:
        yield f"the number of the world jumped from {was.get('number', 0)} to {now['number']}"
    yield from _world_rules(was, now)
    if before.get("phase") in _OVER and after.get("phase") != before["phase"]:
        yield f"{before['phase']} became {after.get('phase')}"


def _world_rules(before: Manifest, after: Manifest) -> Iterator[str]:
    was, now = before.get("number", 0), after.get("number", 0)
    if now < was:
        yield f"the number of the world fell from {was} to {now}"
    if now == was and now:
        # Of a world that nobody is told of only those may be gone who would have brought the state.
        is_told = bool(before.get("members"))
        has_fewer = numbers(after.get("stateHolders")) < numbers(before.get("stateHolders"))
        for name in ("members", "entry", "stateHolders"):
            may_change = name == "stateHolders" and has_fewer and not is_told
            if before.get(name) != after.get(name) and not may_change:
                yield f"world {now} changed its {name}: {before.get(name)}, {after.get(name)}"
        if before["active"] and not after["active"]:
            yield f"world {now} was active and is prepared again"
        if before.get("active") and before.get("store") not in {None, after.get("store")}:
            yield f"world {now} moved from {before['store']} to {after.get('store')}"
    if now > was and after.get("store") and after["store"] in (before.get("usedStores") or ()):
        yield f"the store {after['store']} is used twice"


def _pod_rules(state: State, old: Manifest | None, event: Event) -> Iterator[str]:
    pod, owner = event.object, state.jobs.get(owner_of(event.object))
    worker_id = worker_id_of(pod)
    if old is None and event.type == "ADDED":
        if owner is None:
            yield "made without an owner"
            return
        status = owner.get("status", {})
        if state.live(owner_of(pod), worker_id):
            yield f"a second live pod of worker {worker_id}"
        if worker_id >= status.get("nextWorkerId", 0):
            yield f"made before its number {worker_id} was stored"
        if worker_id in numbers(status.get("settled")):
            yield f"made though its number {worker_id} is settled"
        if worker_id in _relied_on(status):
            yield f"made anew though a world counts on worker {worker_id}"
    if old is not None and event.type == "MODIFIED":
        released = _is_metered(old) and not _is_metered(pod)
        if released and owner is not None:
            settled = numbers(owner.get("status", {}).get("settled"))
            if worker_id not in settled:
                yield f"released before worker {worker_id} was settled"


def _removal(state: State, pod: Manifest, doomed: Collection[int]) -> Iterator[str]:
    """Whether the operator may delete a pod, as it was before and as things stand."""
    job = state.jobs.get(owner_of(pod))
    if job is None or job["metadata"].get("deletionTimestamp"):
        return
    status, worker_id = job.get("status", {}), worker_id_of(pod)
    if status.get("suspendedBy") or status.get("phase") in _OVER:
        return
    if worker_id in doomed or has_ended(pod):
        return
    if worker_id in numbers(status.get("lost")):
        return  # it was given up, and that was stored first
    if worker_id in _relied_on(status):
        yield f"deleted though the world counts on worker {worker_id}"
    living = [p for p in state.pods.values() if owner_of(p) == job["metadata"]["uid"]]
    living = [p for p in living if not has_ended(p) and worker_id_of(p) not in doomed]
    if len(living) <= job["spec"]["workers"].get("replicas", 1):
        yield f"deleted though worker {worker_id} {HEALTHY_AND_WANTED}"


def worker_id_of(pod: Manifest) -> int:
    """Return a worker's id; of a deletion that a list found nothing but the name is known."""
    meta = pod["metadata"]
    return int(meta.get("labels", {}).get(LABEL_WORKER_ID) or meta["name"].rpartition("-")[2])


def owner_of(pod: Manifest) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return str(next((o["uid"] for o in owners if o.get("controller")), ""))


def has_ended(pod: Manifest) -> bool:
    is_going = pod["metadata"].get("deletionTimestamp") is not None
    return is_going or pod.get("status", {}).get("phase") in _OVER


def numbers(text: Any) -> frozenset[int]:
    return frozenset(WorkerIds(text).numbers) if text else frozenset()


def _relied_on(status: Manifest) -> frozenset[int]:
    world = status.get("world") or {}
    return numbers(world.get("members" if world.get("active") else "stateHolders"))


def _is_metered(pod: Manifest) -> bool:
    return FINALIZER_METERED in (pod["metadata"].get("finalizers") or ())


def _begins_to_go(old: Manifest | None, event: Event) -> bool:
    if old is not None and old["metadata"].get("deletionTimestamp"):
        return False
    return event.type == "DELETED" or bool(event.object["metadata"].get("deletionTimestamp"))
