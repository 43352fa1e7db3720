"""An autoscaler played in Python: it makes nodes for pods that find none, when the test lets it.

Real ones take minutes, which nobody waits for here: `may_deliver` is what they take. Where nothing
that it sells will do it says so, with an event as the real one writes it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from devcluster.client import Manifest, at
from devcluster.platforms import Capacity, Marks, Platform, pool_labels
from tests.support.cluster.operator_world import World

ROOM = {"cpu": "8", "memory": "32Gi"}
UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
"""The taint on every node of Karpenter's until Karpenter has looked at it."""


@dataclass(frozen=True)
class Refusal:
    """The event by which an autoscaler says that it makes no node."""

    by: str
    kind: str
    reason: str
    message: str

    @property
    def words(self) -> str:
        """The words as they are quoted."""
        return f"{self.by}: {self.message}"


BY_KARPENTER = Refusal(
    "karpenter",
    "Warning",
    "FailedScheduling",
    "Failed to schedule pod, no instance type which had enough resources",
)
BY_CLUSTER_AUTOSCALER = Refusal(
    "cluster-autoscaler",
    "Normal",
    "NotTriggerScaleUp",
    "pod didn't trigger scale-up: 1 max node group size reached",
)


@dataclass(frozen=True)
class Offering:
    """An offer of a cloud: nodes of one kind, or none at present."""

    instance_type: str = "g5.xlarge"
    zone: str = "us-east-1a"
    capacity: Capacity = "spot"
    is_dry: bool = False


@dataclass
class Provisioner:
    """Makes a node for each pod that the scheduler finds none for."""

    world: World
    platform: Platform
    offerings: Sequence[Offering]  # the cheapest first
    may_deliver: asyncio.Event = field(default_factory=asyncio.Event)
    asked: dict[str, Offering] = field(default_factory=dict)  # by the name of the pod
    refused: set[str] = field(default_factory=set)  # the names of pods

    @property
    def refusal(self) -> Refusal:
        """The event for pods for which it has nothing."""
        return BY_KARPENTER if self.platform is Platform.KARPENTER else BY_CLUSTER_AUTOSCALER

    async def run(self) -> None:
        """Look at pods until cancelled."""
        pods = at("pods", self.world.namespace)
        async with aclosing(self.world.kube.watch(pods)) as events, asyncio.TaskGroup() as tasks:
            async for event in events:
                pod = event.object
                name = pod["metadata"]["name"]
                if event.type == "DELETED" or name in self.asked or not finds_no_node(pod):
                    continue
                offering = self.choose(pod)
                if offering is not None:
                    self.asked[name] = offering
                    tasks.create_task(self._deliver(f"node-{len(self.asked)}", offering))
                elif name not in self.refused:
                    self.refused.add(name)
                    await self._refuse(pod)

    def choose(self, pod: Manifest) -> Offering | None:
        """The cheapest that the pod accepts; Karpenter goes by what it prefers, too."""
        fit = [one for one in self.offerings if accepts(pod, self._labels(one))]
        if self.platform is Platform.KARPENTER:
            fit.sort(key=lambda one: -liking(pod, self._labels(one)))
        return next(iter(fit), None)

    def _labels(self, offering: Offering) -> Mapping[str, str]:
        return self._marks(offering).labels

    def _marks(self, offering: Offering) -> Marks:
        return pool_labels(
            self.platform,
            capacity=offering.capacity,
            zone=offering.zone,
            instance_type=offering.instance_type,
        )

    async def _refuse(self, pod: Manifest) -> None:
        meta, said, now = pod["metadata"], self.refusal, datetime.now(UTC)
        about = {name: meta[name] for name in ("namespace", "name", "uid")}
        event = {
            "metadata": {"name": f"{meta['name']}.refused"},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **about},
            "type": said.kind,
            "reason": said.reason,
            "message": said.message,
            "source": {"component": said.by},
            "reportingComponent": said.by,
            "firstTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "lastTimestamp": f"{now:%Y-%m-%dT%H:%M:%SZ}",
            "count": 1,
        }
        await self.world.kube.create(at("events", self.world.namespace), event)

    async def _deliver(self, name: str, offering: Offering) -> None:
        if offering.is_dry:
            return
        await self.may_deliver.wait()
        marks = self._marks(offering)
        is_karpenters = self.platform is Platform.KARPENTER
        taints = (*marks.taints, *((UNREGISTERED,) if is_karpenters else ()))
        await self.world.nodes.add(name, labels=marks.labels, taints=taints, capacity=ROOM)
        if is_karpenters:
            registered = {"spec": {"taints": list(marks.taints) or None}}
            await self.world.kube.patch(at("nodes", None, name), registered)


@asynccontextmanager
async def provisioning(
    world: World, platform: Platform, *offerings: Offering
) -> AsyncIterator[Provisioner]:
    """An autoscaler that works while the block lasts."""
    provisioner = Provisioner(world, platform, offerings)
    task = asyncio.create_task(provisioner.run())
    try:
        yield provisioner
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task  # what went wrong with it is what went wrong with the test


def finds_no_node(pod: Manifest) -> bool:
    """Whether the scheduler has said so."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(c["type"] == "PodScheduled" and c["status"] == "False" for c in conditions)


def accepts(pod: Manifest, labels: Mapping[str, str]) -> bool:
    """Whether a pod may run on a node with these labels."""
    selector = pod["spec"].get("nodeSelector", {})
    terms = _node_affinity(pod).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    alternatives = terms.get("nodeSelectorTerms", ())
    return selector.items() <= labels.items() and (
        not alternatives or any(_holds(term, labels) for term in alternatives)
    )


def liking(pod: Manifest, labels: Mapping[str, str]) -> int:
    """Return how much a pod prefers a node with these labels."""
    wishes = _node_affinity(pod).get("preferredDuringSchedulingIgnoredDuringExecution", ())
    return sum(wish["weight"] for wish in wishes if _holds(wish["preference"], labels))


def _node_affinity(pod: Manifest) -> Manifest:
    found: Manifest = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
    return found


def _holds(term: Manifest, labels: Mapping[str, str]) -> bool:
    return all(_is_met(one, labels) for one in term.get("matchExpressions", ()))


def _is_met(wanted: Manifest, labels: Mapping[str, str]) -> bool:
    holds = _OPERATORS[wanted["operator"]]
    return holds(labels.get(wanted["key"]), wanted.get("values", ()))


_OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, wanted: value in wanted,
    "NotIn": lambda value, wanted: value not in wanted,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
    "Gt": lambda value, wanted: value is not None and int(value) > int(wanted[0]),
    "Lt": lambda value, wanted: value is not None and int(value) < int(wanted[0]),
}
"""All that Kubernetes has."""
