"""The containers of one pod: starts them, waits for them, and starts them again."""

import asyncio
import uuid
from dataclasses import replace
from datetime import UTC, datetime

from devcluster.kubelet.closing import ClosedError, Closing
from devcluster.kubelet.ledger import Ledger
from devcluster.kubelet.lifecycle import Timing, is_restarted, restart_delay, start_retry_delay
from devcluster.kubelet.records import ContainerRecord, Running, Terminated, Waiting
from devcluster.kubelet.runtime import Container, Exit, Manifest, Sandbox, StartError

# How much of the logs the kubelet uses with terminationMessagePolicy FallbackToLogsOnError.
FALLBACK_LINES = 80
FALLBACK_BYTES = 2048


class Containers:
    """The containers of one sandbox; nothing new is started once `closing` is closed."""

    def __init__(self, sandbox: Sandbox, ledger: Ledger, closing: Closing, timing: Timing) -> None:
        self.running: dict[str, Container] = {}
        self._sandbox = sandbox
        self._ledger = ledger
        self._closing = closing
        self._timing = timing

    async def keep(
        self, container: Manifest, policy: str, tried: asyncio.Event | None = None
    ) -> None:
        """Run one container, and restart it by its policy; `tried` is set after its first start."""
        name = container["name"]
        before = self._ledger.containers[name].state
        # Ended before this kubelet knew it: the policy decides, as after any other end.
        ended = before if isinstance(before, Terminated) else None
        failures = 0
        try:
            while not self._closing.is_closed:
                if ended is not None:
                    if not is_restarted(policy, ended.exit.code):
                        return
                    failures = 1 if _ran_long(ended, self._timing) else failures + 1
                    await self._back_off(name, ended, restart_delay(failures, self._timing))
                ended = await self._run_once(container, tried)
                if ended is None:
                    return
        finally:
            if tried is not None:
                tried.set()

    def kill_all(self) -> None:
        """End all running containers now."""
        for container in list(self.running.values()):
            container.kill()

    async def _run_once(
        self, container: Manifest, tried: asyncio.Event | None
    ) -> Terminated | None:
        name = container["name"]
        started = await self._start(container)
        if started is None:
            return None
        self.running[name] = started
        began = datetime.now(UTC)
        container_id = f"devcluster://{uuid.uuid4().hex}"
        record = self._ledger.containers[name]
        running = ContainerRecord(Running(began), record.last, record.restarts, container_id)
        self._report(name, running)
        if tried is not None:
            tried.set()
        try:
            ended = await self._with_fallback_message(container, await started.wait())
        finally:
            del self.running[name]
        state = Terminated(ended, datetime.now(UTC), began, container_id)
        # Written after the pod's next action in this turn, which is often its end: one write.
        self._report(name, replace(running, state=state))
        return state

    async def _start(self, container: Manifest) -> Container | None:
        """Start a container, with retries; None if it is not wanted any more."""
        name = container["name"]
        attempts = 0
        while not self._closing.is_closed:
            record = self._ledger.containers[name]
            try:
                async with self._closing.unless_closed():
                    return await self._sandbox.start(container, record.restarts)
            except StartError as error:
                attempts += 1
                self._report(name, replace(record, state=Waiting(error.reason, error.message)))
                await self._closing.pause(start_retry_delay(attempts, self._timing))
            except ClosedError:
                break
        return None

    async def _back_off(self, name: str, ended: Terminated, seconds: float) -> None:
        record = replace(self._ledger.containers[name], last=ended)
        if seconds:
            words = f"back-off {seconds:g}s restarting failed container={name}"
            record = replace(record, state=Waiting("CrashLoopBackOff", words))
            self._report(name, record)
            await self._closing.pause(seconds)
        if not self._closing.is_closed:
            waiting = Waiting("ContainerCreating")
            self._report(name, replace(record, state=waiting, restarts=record.restarts + 1))

    async def _with_fallback_message(self, container: Manifest, ended: Exit) -> Exit:
        policy = container.get("terminationMessagePolicy")
        if ended.message or not ended.code or policy != "FallbackToLogsOnError":
            return ended
        lines = self._sandbox.logs(container["name"], follow=False, tail=FALLBACK_LINES)
        text = b"".join([line async for line in lines])[-FALLBACK_BYTES:]
        return replace(ended, message=text.decode(errors="replace"))

    def _report(self, name: str, record: ContainerRecord) -> None:
        self._ledger.containers[name] = record
        self._ledger.report()


def _ran_long(ended: Terminated, timing: Timing) -> bool:
    if ended.started_at is None or ended.finished_at is None:
        return False
    return (ended.finished_at - ended.started_at).total_seconds() > timing.restart_backoff_reset
