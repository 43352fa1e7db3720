"""Commands to the supervisor of a cluster, for which it must run."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Self

import aiohttp

from devcluster.client import ApiError
from devcluster.cluster import Cluster, to_stderr
from devcluster.nodes import Machine, Nodes
from devcluster.notices import Dialect
from devcluster.platforms import Platform, pool_labels
from devcluster.process.options import Options
from devcluster.process.runtime import ProcessRuntime
from devcluster.scripted import Scripted

Command = Mapping[str, Any]

_GOODBYE_SECONDS = 10


class NodeCommands:
    """The nodes of one running cluster, and the commands about them."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._kinds: dict[str, str] = {}
        self._nodes = Nodes(
            cluster.admin,
            address=cluster.block.host,
            port=cluster.block.ports.kubelets,
            tls=cluster.kubelet_tls(),
        )
        options = Options(
            root=cluster.directory / "pods",
            memory=cluster.memory,
            marker=cluster.marker,
            server=cluster.admin.server,
        )
        self._process = ProcessRuntime(self._nodes.client, options, cluster.block.pod_address)
        self._scripted = Scripted()
        self._verbs: Mapping[str, Callable[[Command], Awaitable[Any]]] = {
            "status": self._status,
            "env": self._env,
            "add-node": self._add,
            "remove-node": self._remove,
            "notice": self._notice,
            "take-back-notice": self._take_back,
            "shut-down": self._shut_down,
            "vanish": self._vanish,
            "silence": self._silence,
            "come-back": self._come_back,
        }

    async def __aenter__(self) -> Self:
        await self._nodes.__aenter__()
        return self

    async def __aexit__(self, *exit_: object) -> None:
        # The whole cluster ends right after this, so a killed API server does not matter.
        try:
            async with asyncio.timeout(_GOODBYE_SECONDS):
                await self._nodes.__aexit__(*exit_)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            to_stderr(f"the nodes could not be removed in order: {error!r}")

    async def perform(self, command: Command) -> Any:  # noqa: ANN401 - JSON
        """Run a command; the answer is JSON."""
        return await self._verbs[command["verb"]](command)

    async def _status(self, _: Command) -> dict[str, Any]:
        return {
            "kubernetes": self._cluster.pin.kubernetes,
            "server": self._cluster.admin.server,
            "directory": str(self._cluster.directory),
            "components": self._cluster.control.pids(),
            "nodes": [{"name": name, "kind": kind} for name, kind in self._kinds.items()],
        }

    async def _env(self, _: Command) -> dict[str, str]:
        return self._cluster.environment

    async def _add(self, command: Command) -> str:
        name, kind = command["node"], command["kind"]
        if name in self._kinds:
            raise ValueError(f"there is a node {name!r} already: choose another name")
        marks = pool_labels(
            Platform(command["platform"]),
            capacity=command["capacity"],
            zone=command["zone"],
            instance_type=command["instance_type"],
        )
        capacity = {"cpu": command["cpu"], "memory": command["memory"]}
        if command["gpus"]:
            capacity["nvidia.com/gpu"] = str(command["gpus"])
        await self._nodes.add(
            name,
            labels={**marks.labels, **dict(command["label"])},
            taints=marks.taints,
            capacity=capacity,
            runtime=self._process if kind == "process" else self._scripted,
        )
        self._kinds[name] = kind
        return f"node {name} is ready"

    async def _remove(self, command: Command) -> str:
        self._machine(command)
        await self._nodes.remove(command["node"])
        del self._kinds[command["node"]]
        return f"node {command['node']} is removed"

    async def _notice(self, command: Command) -> str:
        deadline = await self._machine(command).notice(
            Dialect(command["dialect"]), command["seconds"]
        )
        return f"node {command['node']} announces its end at {deadline:%H:%M:%S} UTC"

    async def _take_back(self, command: Command) -> None:
        await self._machine(command).take_back_notice(Dialect(command["dialect"]))

    async def _shut_down(self, command: Command) -> None:
        await self._machine(command).shut_down(command["grace"])

    async def _vanish(self, command: Command) -> None:
        await self._machine(command).vanish(delete_node=command["delete_node"])

    async def _silence(self, command: Command) -> None:
        self._machine(command).go_silent()

    async def _come_back(self, command: Command) -> None:
        await self._machine(command).come_back()

    def _machine(self, command: Command) -> Machine:
        name = command["node"]
        if name not in self._kinds:
            known = ", ".join(self._kinds) or "none; add one with add-node"
            raise ValueError(f"there is no node {name!r}; there are: {known}")
        return self._nodes[name]
