"""Random lives of jobs that cost something, at the same time in one namespace.

Workers are lost, nodes vanish, sizes and prices change, and the operator is killed in the middle of
its writes. Whatever it said of a job's cost at any moment is compared, in the end, with what the
meter knows by then.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from random import Random

from devcluster.client import Manifest, at
from devcluster.cluster import Cluster
from spotrun.kube.tasks import running
from tests.faults.proxy import FaultProxy
from tests.faults.rules import Action, Rule
from tests.meter.meter import PRICE, Meter, metered
from tests.plans.replica import Deployment, deployed
from tests.plans.writes import writes_of
from tests.support.cluster.operator_world import GROUP, World, open_world

POOL_LABEL = "price-pool"
_ROOM = {"cpu": "8", "memory": "32Gi"}
_ASKED = {"requests": {"cpu": "1", "memory": "3Gi"}}
_NUM_NODES = 4
_PAUSE_SECONDS = (0.1, 0.6)
_WRITES = ("create", "patch", "delete")
_CRASHES: tuple[Action, ...] = ("crash_before", "crash_after")


@dataclass(frozen=True)
class Look:
    """The cost that was said of a job at a moment."""

    job: str
    as_of: datetime
    usd: Fraction


@dataclass(frozen=True)
class Result:
    """The differences between operator and meter."""

    errors_usd: list[Fraction]  # at every look
    final_errors_usd: list[Fraction]  # of each job's exact sum
    pool_errors_usd: list[Fraction]  # of each exact sum of a job in a pool
    costs_usd: list[Fraction]
    num_kills: int
    pod_writes_per_worker: float  # creations and releases


@dataclass
class Lives:
    """A batch of jobs, and what befalls them."""

    world: World
    random: Random
    proxy: FaultProxy
    deployment: Deployment
    jobs: list[str]
    looks: list[Look] = field(default_factory=list)
    num_nodes: int = 0

    async def begin(self) -> None:
        """Make pools, nodes and jobs."""
        for letter in "ab":
            selector = {POOL_LABEL: self.pool(letter)}
            spec = {"capacity": "OnDemand", "nodeSelector": selector, "usdPerHour": self.price()}
            pool = {"apiVersion": GROUP, "kind": "CapacityPool", "spec": spec}
            pool["metadata"] = {"name": self.pool(letter)}
            await self.world.kube.create(at("capacitypools", group=GROUP), pool)
        for _ in range(_NUM_NODES):
            await self.add_node()
        for job in self.jobs:
            container = {"name": "trainer", "image": "x", "args": ["t.py"], "resources": _ASKED}
            size = {"min": 1, "max": 4, "replicas": self.random.randint(1, 4)}
            template = {"spec": {"containers": [container]}}
            await self.world.create_job(job, workers={**size, "template": template})

    async def befall(self, troubles: Sequence["Trouble"], seconds: float) -> None:
        """Let things happen for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while loop.time() < end:
            await asyncio.sleep(self.random.uniform(*_PAUSE_SECONDS))
            await self.random.choice(troubles)(self)

    async def end(self) -> dict[str, Manifest]:
        """Let all jobs finish; returns them once every worker is settled."""
        for job in self.jobs:
            self.world.play(job).may_finish.set()
        return {job: await self.world.until_job(is_settled, job) for job in self.jobs}

    async def look(self) -> None:
        """Note whatever is said of costs."""
        async with aclosing(self.world.kube.watch(self.world.jobs())) as events:
            async for event in events:
                cost = event.object.get("status", {}).get("cost", {})
                if "usd" in cost:
                    moment = datetime.fromisoformat(cost["asOf"])
                    name = event.object["metadata"]["name"]
                    self.looks.append(Look(name, moment, Fraction(cost["usd"])))

    def pool(self, letter: str) -> str:
        """The name of a pool of this batch."""
        return f"{self.world.namespace}-{letter}"

    def price(self) -> str:
        """Return a random price of a node, in USD per hour."""
        return str(self.random.randint(1, 400) / 10)

    async def add_node(self) -> None:
        """A node with a price of its own, or of a pool."""
        letter = self.random.choice(("a", "b", None))
        labels = {} if letter is None else {POOL_LABEL: self.pool(letter)}
        annotations = {} if letter is not None else {PRICE: self.price()}
        self.num_nodes += 1
        name = f"{self.world.namespace}-{self.num_nodes}"
        await self.world.nodes.add(name, capacity=_ROOM, labels=labels, annotations=annotations)


async def lose_a_worker(lives: Lives) -> None:
    pods = await lives.world.kube.list(at("pods", lives.world.namespace))
    alive = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    if alive:
        name = lives.random.choice(alive)["metadata"]["name"]
        await lives.world.kube.delete(at("pods", lives.world.namespace, name), grace_seconds=0)


async def change_a_size(lives: Lives) -> None:
    workers = {"workers": {"replicas": lives.random.randint(1, 4)}}
    await lives.world.patch_job(workers, lives.random.choice(lives.jobs))


async def change_a_price(lives: Lives) -> None:
    nodes = await lives.world.kube.list(at("nodes"))
    priced = [node for node in nodes if PRICE in node["metadata"].get("annotations", {})]
    if priced:
        name = lives.random.choice(priced)["metadata"]["name"]
        change = {"metadata": {"annotations": {PRICE: lives.price()}}}
        await lives.world.kube.patch(at("nodes", None, name), change)


async def change_a_pools_price(lives: Lives) -> None:
    path = at("capacitypools", None, lives.pool(lives.random.choice("ab")), group=GROUP)
    await lives.world.kube.patch(path, {"spec": {"usdPerHour": lives.price()}})


async def lose_a_node(lives: Lives) -> None:
    nodes = [node["metadata"]["name"] for node in await lives.world.kube.list(at("nodes"))]
    if len(nodes) >= _NUM_NODES:
        await lives.world.nodes[lives.random.choice(nodes)].vanish(delete_node=True)
        await lives.add_node()


async def finish_a_job(lives: Lives) -> None:
    lives.world.play(lives.random.choice(lives.jobs)).may_finish.set()


async def kill_the_operator(lives: Lives) -> None:
    """Kill the operator in the middle of one of its next writes."""
    when = lives.random.choice(_CRASHES)
    verb = lives.random.choice(_WRITES)
    lives.proxy.inject(Rule(when, verb=verb, nth=lives.random.randint(1, 4)))


Trouble = Callable[[Lives], Awaitable[None]]

_ALWAYS: tuple[Trouble, ...] = (
    lose_a_worker,
    lose_a_worker,
    change_a_size,
    change_a_size,
    change_a_pools_price,
    finish_a_job,
)
KILLED: tuple[Trouble, ...] = (*_ALWAYS, kill_the_operator)
"""Somebody says when each thing happened, so it does not matter who is there to see it."""
WATCHED: tuple[Trouble, ...] = (*_ALWAYS, change_a_price, change_a_price, lose_a_node)
"""Troubles whose moment is when they are seen: an annotation changed or a node vanished."""
UNSEEN: tuple[Trouble, ...] = (*WATCHED, kill_the_operator)
"""The same while nobody looks: it counts from when somebody does again."""


async def live(
    cluster: Cluster,
    seed: int,
    troubles: Sequence[Trouble],
    *,
    jobs: int = 4,
    seconds: float = 12.0,
) -> Result:
    """Live a batch of lives, and compare."""
    random = Random(seed)  # noqa: S311 - a test that can be played again
    async with (
        open_world(cluster) as world,
        metered(world.kube, world.namespace) as meter,
        FaultProxy(cluster.admin.server, cluster.admin.ssl_context()) as proxy,
        deployed(world, proxy.url) as [deployment],
    ):
        proxy.on_crash = deployment.kill
        names = [f"job-{number}" for number in range(jobs)]
        lives = Lives(world, random, proxy, deployment, names)
        async with running(lives.look()):
            await lives.begin()
            await lives.befall(troubles, seconds)
            final = await lives.end()
        await _all_noted(meter, names)
        return _compared(lives, meter, final)


def _compared(lives: Lives, meter: Meter, final: dict[str, Manifest]) -> Result:
    errors = [abs(look.usd - meter.usd(look.job, look.as_of)) for look in lives.looks]
    costs = {name: meter.usd(name, _as_of(job)) for name, job in final.items()}
    finals = [
        abs(Fraction(job["status"]["accumulators"]["usd"]) - costs[name])
        for name, job in final.items()
    ]
    in_pools = [
        error for name, job in final.items() for error in _errors_in_pools(meter, name, job)
    ]
    writes = [write.what for write in writes_of(lives.proxy.log)]
    made = sum(job["status"]["nextWorkerId"] for job in final.values())
    pods = writes.count("create pods") + writes.count("patch pods")
    kills = lives.deployment.num_kills
    return Result(errors, finals, in_pools, list(costs.values()), kills, pods / made)


def _errors_in_pools(meter: Meter, name: str, job: Manifest) -> list[Fraction]:
    """Nodes of a pool have its name as a label, and others are in none."""
    stored = job["status"]["accumulators"].get("byPool", ())
    said = {one["pool"]: Fraction(one["usd"]) for one in stored}
    known = meter.usd_by(POOL_LABEL, name, _as_of(job))
    nothing = Fraction(0)
    pools = {*said, *known}
    return [abs(said.get(pool, nothing) - known.get(pool, nothing)) for pool in pools]


async def _all_noted(meter: Meter, names: list[str]) -> None:
    for name in names:
        await meter.has_seen_all_ends(name)


def _as_of(job: Manifest) -> datetime:
    return datetime.fromisoformat(job["status"]["cost"]["asOf"])


def is_settled(status: Manifest) -> bool:
    """Whether a job has succeeded, and all its workers are in its sums."""
    numbers: set[int] = set()
    for part in filter(None, status.get("settled", "").split(",")):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return status.get("phase") == "Succeeded" and len(numbers) == status["nextWorkerId"]
