"""A wave of jobs that are made, resized, interrupted, suspended, resumed and deleted."""

from collections.abc import Callable, Iterable
from functools import partial

from bench.operator_bench import GROUP, JOBS, NAMESPACE, PODS, Rig, in_parallel, job, until
from devcluster.client import ApiError, Manifest, at
from spotrun.api.field_types.text_values import WorkerIds
from spotrun.api.names import LABEL_JOB
from tests.support.cluster.scripted_agent import worker_id_of

STEADY = "steady"
"""The job that lives through all waves, and has the troubles of each."""
SIZE, GROWN, SHRUNK = 3, 4, 2
_SECONDS = 90.0


async def wave(rig: Rig, names: list[str]) -> None:
    """Let these jobs live; returns when nothing is left of them."""
    await create(rig, names)
    await _run(rig, [*names, STEADY], dict.fromkeys(names, SIZE))
    await resize(rig, {name: GROWN if n % 2 else SHRUNK for n, name in enumerate(names)})
    await resize(rig, {STEADY: GROWN})
    await lose_workers(rig, [*names, STEADY])
    await resize(rig, {STEADY: SIZE})
    await suspend(rig, names[::2])
    await delete(rig, names)
    await _run(rig, [STEADY], {STEADY: SIZE})


async def create(rig: Rig, names: list[str]) -> None:
    """Make jobs that may grow and shrink."""
    bodies = [job(name, GROWN) for name in names]
    for body in bodies:
        body["spec"]["workers"] |= {"min": 1, "replicas": SIZE}
    await in_parallel([partial(rig.kube.create, JOBS, body) for body in bodies])


async def resize(rig: Rig, sizes: dict[str, int]) -> None:
    """Ask for other sizes; returns when each job trains with its own."""
    for name, size in sizes.items():
        await _patch(rig, name, {"workers": {"replicas": size}})
    await _run(rig, list(sizes), sizes)


async def lose_workers(rig: Rig, names: list[str]) -> None:
    """Delete a pod of each job by force; returns when each trains with all it had."""
    jobs = await _jobs(rig)
    sizes = {name: _replicas(jobs[name]) for name in names}
    known = {name: jobs[name]["status"]["nextWorkerId"] for name in names}
    chosen = {(name, _members(jobs[name])[0]) for name in names}
    doomed = [
        pod["metadata"]["name"]
        for pod in await rig.kube.list(PODS)
        if (pod["metadata"]["labels"].get(LABEL_JOB), worker_id_of(pod)) in chosen
    ]
    await in_parallel([partial(_force, rig, name) for name in doomed])

    def is_replaced(one: Manifest) -> bool:
        name = one["metadata"]["name"]
        return one["status"]["nextWorkerId"] > known[name] and _trains(one, sizes[name])

    await _all(rig, names, is_replaced, "each lost worker is replaced")


async def suspend(rig: Rig, names: list[str]) -> None:
    """Suspend jobs and resume them."""
    for is_suspended, phase in ((True, "Suspended"), (False, "Running")):
        await in_parallel([partial(_patch, rig, n, {"suspend": is_suspended}) for n in names])
        await _all(rig, names, partial(_is_in, phase), f"all are {phase}")


async def delete(rig: Rig, names: Iterable[str]) -> None:
    """Delete jobs; returns when neither they nor their pods are there any more."""
    gone = set(names)
    await in_parallel([partial(rig.kube.delete, f"{JOBS}/{name}") for name in gone])

    async def are_gone() -> bool:
        pods = await rig.kube.list(PODS)
        left = {pod["metadata"]["labels"].get(LABEL_JOB) for pod in pods} | set(await _jobs(rig))
        return not gone & left

    await until(are_gone, _SECONDS, "what was deleted is gone")


async def status_of(rig: Rig, name: str) -> Manifest:
    """Return a job's status."""
    found: Manifest = (await rig.kube.get(f"{JOBS}/{name}"))["status"]
    return found


async def _run(rig: Rig, names: list[str], sizes: dict[str, int]) -> None:
    def runs(one: Manifest) -> bool:
        name = one["metadata"]["name"]
        return name not in sizes or _trains(one, sizes[name])

    await _all(rig, names, runs, f"{len(names)} jobs train")


async def _all(rig: Rig, names: list[str], holds: Callable[[Manifest], bool], what: str) -> None:
    async def do() -> bool:
        jobs = await _jobs(rig)
        return all(name in jobs and "status" in jobs[name] and holds(jobs[name]) for name in names)

    await until(do, _SECONDS, what)


async def _jobs(rig: Rig) -> dict[str, Manifest]:
    return {one["metadata"]["name"]: one for one in (await rig.kube.get(JOBS))["items"]}


def _trains(one: Manifest, size: int) -> bool:
    world = one["status"].get("world") or {}
    is_active = _phase(one) == "Running" and bool(world.get("active"))
    return is_active and len(_members(one)) == size


def _members(one: Manifest) -> list[int]:
    """Return the ids of the workers of a job's newest world."""
    text = (one["status"].get("world") or {}).get("members")
    return list(WorkerIds(text).numbers) if text else []


def _is_in(phase: str, one: Manifest) -> bool:
    return _phase(one) == phase


def _phase(one: Manifest) -> str:
    return str(one["status"].get("phase"))


def _replicas(one: Manifest) -> int:
    return int(one["spec"]["workers"]["replicas"])


async def _patch(rig: Rig, name: str, spec: Manifest) -> None:
    await rig.kube.patch(at("trainingjobs", NAMESPACE, name, group=GROUP), {"spec": spec})


async def _force(rig: Rig, pod: str) -> None:
    try:
        await rig.kube.delete(at("pods", NAMESPACE, pod), grace_seconds=0)
    except ApiError as error:
        if error.status != 404:
            raise
