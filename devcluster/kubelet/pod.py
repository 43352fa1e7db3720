"""One pod's life on a node: starts its containers in order, watches them, and ends them."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

from devcluster.kubelet.closing import ClosedError, Closing
from devcluster.kubelet.containers import Containers
from devcluster.kubelet.ledger import Ledger
from devcluster.kubelet.lifecycle import Timing, start_retry_delay
from devcluster.kubelet.records import (
    DEADLINE_EXCEEDED,
    LOST,
    Terminated,
    Verdict,
    Waiting,
    is_sidecar,
)
from devcluster.kubelet.runtime import Manifest, Runtime, Sandbox, StartError
from devcluster.kubelet.status import not_initialized, rejected_status


class Host(Protocol):
    """The part of a node that its pods need; it writes nothing while the node is cut off."""

    runtime: Runtime
    timing: Timing
    node: Manifest

    @property
    def address(self) -> str:
        """The node's address."""

    async def write_status(self, pod: Manifest, status: Manifest) -> Manifest | None:
        """Write a pod's status, however long it takes, and return its new metadata.

        None when the pod is gone.
        """

    async def confirm_deletion(self, pod: Manifest) -> None:
        """Tell the API server that nothing is left of a deleted pod."""


@dataclass(frozen=True)
class Order:
    """An order to end: how long containers may take, and what the status then says."""

    grace_seconds: float
    verdict: Verdict | None = None


class PodWorker:
    """One pod on one node.

    Everything happens on one event loop: `see`, `end` and `reject` return at once, and the worker's
    own task acts on them.
    """

    def __init__(self, pod: Manifest, host: Host) -> None:
        self.sandbox: Sandbox | None = None
        self._host = host
        self._ledger = Ledger(pod, host.address, host.write_status)
        self._containers: Containers | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._sidecars: list[asyncio.Task[None]] = []
        self._order: Order | None = None
        self._closing = Closing()
        self._kill_at = float("inf")
        self._timers: list[asyncio.TimerHandle] = []
        self._deleted = asyncio.Event()
        self._over = asyncio.Event()

    @property
    def pod(self) -> Manifest:
        """The newest known version of the pod in the API server."""
        return self._ledger.pod

    @property
    def is_over(self) -> bool:
        """Whether no part of it runs, and none will be started."""
        return self._ledger.is_over

    def start(self) -> None:
        """Begin; must be called once."""
        self.see(self.pod)
        self._spawn(self._live())

    def see(self, pod: Manifest) -> None:
        """Store the pod as a watch shows it."""
        self._ledger.see(pod)
        if "deletionTimestamp" in pod["metadata"]:
            self._deleted.set()
            self.end(Order(pod["metadata"].get("deletionGracePeriodSeconds", 0)))

    def end(self, order: Order) -> None:
        """Ask the pod to end; a later order can only shorten the grace of an earlier one."""
        kill_at = asyncio.get_running_loop().time() + order.grace_seconds
        if self.is_over or kill_at >= self._kill_at:
            return
        self._kill_at = kill_at
        if self._order is None:
            self._order = order
            self._ledger.verdict = order.verdict
            self._closing.close()
            sidecars = {c["name"] for c in self._inits() if is_sidecar(c)}
            # A sidecar ends after the containers that it serves: see `_end_sidecars`.
            self._terminate(but=sidecars)
        self._kill_in(order.grace_seconds)

    def reject(self, verdict: Verdict) -> None:
        """Refuse a pod that has not been started; instead of `start`."""
        self._ledger.is_over = True
        self.see(self.pod)

        async def refuse() -> None:
            await self._host.write_status(self.pod, rejected_status(verdict, datetime.now(UTC)))
            await self._bury()

        self._spawn(refuse())

    async def abandon(self) -> None:
        """End everything at once without a report: the machine or the pod is gone."""
        for timer in self._timers:
            timer.cancel()
        if self._containers is not None:
            self._containers.kill_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._ledger.close()
        self._over.set()
        await self._remove_sandbox()

    async def ended(self) -> None:
        """Return when nothing of it runs any more."""
        if not self.is_over:
            await self._over.wait()

    async def reported_over(self) -> None:
        """Return when nothing of it runs any more and its status says so."""
        await self.ended()
        await self._ledger.flushed()

    def report_again(self) -> None:
        """Write the status again: the node lifecycle controller changed it during a silence."""
        if not self.is_over:
            self._ledger.repeat()

    def has_container(self, name: str) -> bool:
        """Whether the pod has a container (or init container) of that name."""
        return name in self._ledger.containers

    def waiting_reason(self, container: str) -> str | None:
        """Return why a container has no logs yet; None if it has logs."""
        record = self._ledger.containers[container]
        if record.last is not None or not isinstance(record.state, Waiting):
            return None
        return record.state.reason

    async def _live(self) -> None:
        if not self.is_over:
            self._set_deadline()
            # Reports that the pod is being started, unless it has started by the end of this turn.
            self._ledger.report()
            self._containers = await self._open_sandbox()
            if self._containers is not None:
                if await self._run_inits(self._containers):
                    await self._run_containers(self._containers)
                await self._end_sidecars()
            self._settle()
            self._ledger.is_over = True
            self._ledger.report()
            self._over.set()
        await self._bury()

    async def _bury(self) -> None:
        await self._deleted.wait()
        await self._ledger.flushed()
        await self._remove_sandbox()
        await self._host.confirm_deletion(self.pod)

    def _set_deadline(self) -> None:
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is not None:
            order = Order(self._grace_seconds(), DEADLINE_EXCEEDED)
            self._timers.append(asyncio.get_running_loop().call_later(seconds, self.end, order))

    async def _open_sandbox(self) -> Containers | None:
        attempts = 0
        while not self._closing.is_closed:
            try:
                async with self._closing.unless_closed():
                    sandbox = await self._host.runtime.sandbox(self.pod, self._host.node)
            except StartError as error:
                attempts += 1
                self._hold_up(Waiting(error.reason, error.message))
                await self._closing.pause(start_retry_delay(attempts, self._host.timing))
            except ClosedError:
                break
            else:
                self.sandbox = sandbox
                self._ledger.pod_ip = sandbox.pod_ip
                return Containers(sandbox, self._ledger, self._closing, self._host.timing)
        return None

    def _hold_up(self, state: Waiting) -> None:
        records = self._ledger.containers
        for container in self.pod["spec"]["containers"]:
            records[container["name"]] = replace(records[container["name"]], state=state)
        self._ledger.report()

    async def _run_inits(self, containers: Containers) -> bool:
        """Run the init containers; False if one has finally failed, or an order to end came."""
        policy = "Never" if self._policy() == "Never" else "OnFailure"
        for container in self._inits():
            if is_sidecar(container):
                self._sidecars.append(await self._spawn_started(containers, container, "Always"))
                continue
            await containers.keep(container, policy)
            if self._ledger.containers[container["name"]].exit_code != 0:
                return False
        return not self._closing.is_closed

    async def _run_containers(self, containers: Containers) -> None:
        first, *others = self.pod["spec"]["containers"]
        if not others:  # true for nearly all pods: saves a task
            await containers.keep(first, self._policy())
            return
        # In order, as a kubelet does: each is started after the one before has started.
        for_each = [
            await self._spawn_started(containers, c, self._policy()) for c in (first, *others)
        ]
        await asyncio.gather(*for_each)

    async def _spawn_started(
        self, containers: Containers, container: Manifest, policy: str
    ) -> asyncio.Task[None]:
        started = asyncio.Event()
        task = self._spawn(containers.keep(container, policy, started))
        await started.wait()
        return task

    async def _end_sidecars(self) -> None:
        if not self._sidecars:
            return
        self._closing.close()
        if self._order is None:
            self._kill_in(self._grace_seconds())
        self._terminate(but=set())
        await asyncio.gather(*self._sidecars)

    def _settle(self) -> None:
        """Set the final state of containers that never ran or were about to run again."""
        is_initialized = not not_initialized(self.pod, self._ledger.record())
        for name, record in self._ledger.containers.items():
            if not isinstance(record.state, Waiting):
                continue
            if record.last is not None:
                self._ledger.containers[name] = replace(record, state=record.last, last=None)
            elif self._order is not None and is_initialized:
                self._ledger.containers[name] = replace(record, state=Terminated(LOST))

    async def _remove_sandbox(self) -> None:
        if self.sandbox is not None:
            sandbox, self.sandbox = self.sandbox, None
            await sandbox.remove()

    def _spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=f"pod {self.pod['metadata']['name']}")
        self._tasks.append(task)
        return task

    def _inits(self) -> list[Manifest]:
        inits: list[Manifest] = self.pod["spec"].get("initContainers", [])
        return inits

    def _policy(self) -> str:
        return str(self.pod["spec"].get("restartPolicy", "Always"))

    def _grace_seconds(self) -> float:
        return float(self.pod["spec"].get("terminationGracePeriodSeconds", 30))

    def _terminate(self, *, but: set[str]) -> None:
        if self._containers is None:
            return
        # The newest first: sidecars end in the reverse order of their start.
        for name, container in reversed(list(self._containers.running.items())):
            if name not in but:
                container.terminate()

    def _kill_in(self, seconds: float) -> None:
        if self._containers is None:
            return
        if seconds <= 0:
            self._containers.kill_all()
        else:
            loop = asyncio.get_running_loop()
            self._timers.append(loop.call_later(seconds, self._containers.kill_all))
