"""The sizes of what is stored, what admission costs, and how many requests the operator sends."""

import json
import re
import time
from collections.abc import Awaitable, Callable
from statistics import median

from bench.operator_bench import GROUP, JOBS, NAMESPACE, Child, Rig, job, say
from bench.reaction import all_pods
from bench.soaking.etcd import ask
from devcluster.client import MERGE, Manifest, at

CONFIG_MAPS = at("configmaps", NAMESPACE)
LEASES = at("leases", NAMESPACE, group="coordination.k8s.io/v1")
REPEATS = 20
_CEL = re.compile(r"^(apiserver_cel_evaluation_duration_seconds_(?:sum|count))(?:\{.*\})? (\S+)$")


def kb(stored: object) -> float:
    """Return the length of a part of an object, as JSON in kB."""
    return len(json.dumps(stored, separators=(",", ":"))) / 1e3


async def objects(rig: Rig, name: str, **facts: object) -> None:
    """Print the sizes of what is stored of the jobs."""
    jobs = (await rig.kube.get(JOBS))["items"]
    statuses = [kb(one["status"]) for one in jobs]
    say(f"{name}_status_kb", max(statuses), "kB", median=round(median(statuses), 1), **facts)
    say(f"{name}_job_kb", max(map(kb, jobs)), "kB", **facts)
    pods = await all_pods(rig)
    say(f"{name}_pod_kb", median(map(kb, pods)), "kB", all_mb=round(sum(map(kb, pods)) / 1e3, 1))
    maps = await rig.kube.list(CONFIG_MAPS)
    ours = [one for one in maps if one["metadata"]["name"] != "kube-root-ca.crt"]
    names = sorted(one["metadata"]["name"] for one in ours)
    say(f"{name}_config_maps_kb", sum(map(kb, ours)), "kB", names=names[:4])
    say(f"{name}_lease_kb", sum(map(kb, await rig.kube.list(LEASES))), "kB")
    stored = ask(rig.cluster, "maintenance/status", {})
    in_use = round(int(stored["dbSizeInUse"]) / 1e6, 1)
    say(f"{name}_etcd_mb", int(stored["dbSize"]) / 1e6, "MB", in_use=in_use, **facts)


async def admission(rig: Rig, name: str, size: int) -> None:
    """Print what it takes to create, and to write the status of, a job of that size.

    Nothing is stored (`dryRun`), but all else is done. Beside it the same bytes in a ConfigMap,
    which is admitted without rules.
    """
    big = job("admitted", size)
    found = (await rig.kube.get(JOBS))["items"][0]
    path = at("trainingjobs", NAMESPACE, found["metadata"]["name"], "status", group=GROUP)
    await _compare(
        rig,
        f"{name}_admission_create",
        lambda: rig.kube.create(JOBS, big, dryRun="All"),
        big,
    )
    status = {"status": found["status"]}
    patch = {**status, "metadata": {"annotations": {}}}
    await _compare(
        rig,
        f"{name}_admission_status",
        lambda: rig.kube.patch(path, patch, content_type=MERGE, dryRun="All"),
        status,
    )


async def _compare(
    rig: Rig, name: str, send: Callable[[], Awaitable[Manifest]], body: Manifest
) -> None:
    data = {"data": {"all": json.dumps(body)}, "metadata": {"name": "admitted"}}
    ours: list[float] = []
    theirs: list[float] = []
    before = _cel(rig)
    for _ in range(REPEATS):
        ours.append(await _ms(send))
        theirs.append(await _ms(lambda: rig.kube.create(CONFIG_MAPS, data, dryRun="All")))
    rules = [1e3 * (late - early) / REPEATS for late, early in zip(_cel(rig), before, strict=True)]
    say(f"{name}_ms", ours, "ms", kb=round(kb(body), 1), config_map_ms=round(median(theirs), 1))
    say(f"{name}_cel_ms", rules[0], "ms", evaluations=round(rules[1] / 1e3, 1))


async def _ms(send: Callable[[], Awaitable[Manifest]]) -> float:
    began = time.monotonic()
    await send()
    return 1e3 * (time.monotonic() - began)


def _cel(rig: Rig) -> tuple[float, float]:
    """Return the seconds that the API server has spent on rules in CEL, and on how many."""
    found = {"sum": 0.0, "count": 0.0}
    for line in rig.cluster.kubectl("get", "--raw", "/metrics").stdout.splitlines():
        if matched := _CEL.match(line):
            found[matched[1].rpartition("_")[2]] += float(matched[2])
    return found["sum"], found["count"]


class Traffic:
    """The operator's requests since it was asked last."""

    def __init__(self, operator: Child) -> None:
        self._operator = operator
        self._before: dict[str, float] = {}

    async def since(self) -> dict[str, float]:
        """Return the requests by method, decisions and what watches brought since then."""
        stats = await self._operator.ask("stats")
        now = {**stats["traffic"], "decisions": stats["decisions"], "at": stats["at"]}
        found = {name: now[name] - self._before.get(name, 0) for name in now}
        self._before = now
        return found

    async def tell(self, name: str, **facts: object) -> dict[str, float]:
        """Print the rate of requests since the last time."""
        found = await self.since()
        requests = sum(found.get(one, 0) for one in ("GET", "POST", "PATCH", "PUT", "DELETE"))
        rest = {one: round(many) for one, many in found.items() if one != "at" and many}
        say(f"{name}_qps", requests / found["at"], "requests/s", **rest, **facts)
        return found
