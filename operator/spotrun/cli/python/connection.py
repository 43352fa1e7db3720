"""The connection of a client: opened when it is first needed, closed with its client."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from weakref import finalize

from spotrun.cli.cluster.session import Cluster, connection
from spotrun.cli.python.calling import end_soon


class Connection:
    """One connection for a client and all of its jobs."""

    def __init__(self, kubeconfig: str | None, context: str | None, namespace: str | None) -> None:
        self._connect = partial(
            connection,
            "spotrun-python",
            kubeconfig=kubeconfig,
            context=context,
            namespace=namespace,
        )
        self._open = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._cluster: Cluster | None = None
        finalize(self, end_soon, self._open)  # at the end of the process, too

    async def cluster(
        self, namespace: str | None = None, *, is_everywhere: bool = False
    ) -> Cluster:
        """Return the cluster, for another namespace if one is named; raises AccessError."""
        async with self._lock:
            if self._cluster is None:
                self._cluster = await self._open.enter_async_context(self._connect())
        here = namespace or self._cluster.namespace
        return replace(self._cluster, namespace=here, is_everywhere=is_everywhere)

    async def close(self) -> None:
        """Close it; the next call opens it again."""
        async with self._lock:
            self._cluster = None
            await self._open.aclose()
