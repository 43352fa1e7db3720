"""The zones and instance types of a job's nodes, read as its pods get them."""

import asyncio
from collections.abc import Callable, Iterable

from spotrun.cli.cluster.session import Cluster
from spotrun.cli.jobs.reading import read_places
from spotrun.cli.jobs.screens.detail import MOST_WORKERS
from spotrun.cli.jobs.workers import NOWHERE, Place
from spotrun.kube.errors import Forbidden, KubeError
from spotrun.observe.kube_objects import PodObject

_AGAIN_SECONDS = 10.0
_AT_ONCE = MOST_WORKERS
_FORBIDDEN = "Your rights do not let you read nodes: zones and types of machines are missing."


class Places:
    """The places of nodes: each is read once, and again if that failed."""

    def __init__(
        self,
        cluster: Cluster,
        found: Callable[[PodObject], None],
        hidden: Callable[[str], None],
        again_seconds: float = _AGAIN_SECONDS,
    ) -> None:
        """Call `found` when a pod's place becomes known, `hidden` if nodes may not be read."""
        self._cluster = cluster
        self._found = found
        self._hidden = hidden
        self._again_seconds = again_seconds
        self.known: dict[str, Place] = {}

    def of(self, pod: PodObject) -> Place:
        """Return the place of a pod's node; `NOWHERE` while it is not known."""
        return self.known.get(pod.spec.node_name or "", NOWHERE)

    async def follow(self, pods: Iterable[PodObject], news: asyncio.Event) -> None:
        """Read the nodes of the pods at each news; ends if that is forbidden."""
        while True:
            news.clear()
            new = [one for one in pods if one.spec.node_name not in {None, "", *self.known}]
            try:
                while new:
                    await self._read(new[:_AT_ONCE])
                    new = new[_AT_ONCE:]
            except Forbidden:
                self._hidden(_FORBIDDEN)
                return
            except KubeError:
                await asyncio.sleep(self._again_seconds)
            else:
                await news.wait()

    async def _read(self, pods: list[PodObject]) -> None:
        found = await read_places(self._cluster, pods)
        for pod in pods:
            name = pod.spec.node_name or ""
            self.known[name] = found.get(name, NOWHERE)  # a node that is gone stays unknown
            self._found(pod)
