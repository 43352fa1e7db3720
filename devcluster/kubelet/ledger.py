"""A pod's records, and the task that writes the status made of them: few writes, none lost."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from devcluster.kubelet.records import PodRecord, Verdict, first_records
from devcluster.kubelet.runtime import Manifest
from devcluster.kubelet.status import pod_status

WriteStatus = Callable[[Manifest, Manifest], Awaitable[Manifest | None]]


class Ledger:
    """Holds the pod as the API server has it, and the newer facts of the kubelet.

    Changes in one turn of the event loop, or during a write, are written together.
    """

    def __init__(self, pod: Manifest, host_ip: str, write: WriteStatus) -> None:
        self.pod = pod
        self.containers = first_records(pod)
        self.is_over = pod.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        self.verdict: Verdict | None = None
        self.pod_ip = ""
        self._host_ip = host_ip
        self._start_time = datetime.now(UTC)
        self._write_status = write
        self._is_dirty = False
        self._written: Manifest | None = None
        self._writer: asyncio.Task[None] | None = None

    def record(self) -> PodRecord:
        """Return the facts from which the pod's status is computed."""
        return PodRecord(
            containers=self.containers,
            start_time=self._start_time,
            host_ip=self._host_ip,
            pod_ip=self.pod_ip,
            is_over=self.is_over,
            verdict=self.verdict,
        )

    def see(self, pod: Manifest) -> None:
        """Store the pod from a watch, unless the answer to a write was newer."""
        if _version(pod) >= _version(self.pod):
            self.pod = pod
            if self.is_over and not self._is_writing:
                self._forget_all_but_the_name()

    def report(self) -> None:
        """Have the status written."""
        self._is_dirty = True
        if not self._is_writing:
            self._writer = asyncio.create_task(self._write())

    def repeat(self) -> None:
        """Write the status again, in case another component has changed it."""
        self._written = None
        self.report()

    @property
    def _is_writing(self) -> bool:
        return self._writer is not None and not self._writer.done()

    async def flushed(self) -> None:
        """Return when everything reported so far is written."""
        if self._writer is not None:
            await self._writer

    async def close(self) -> None:
        """Stop writing, even if something is left to write."""
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)

    async def _write(self) -> None:
        while self._is_dirty:
            self._is_dirty = False
            status = pod_status(self.pod, self.record(), datetime.now(UTC))
            if status == self._written:
                continue
            written = await self._write_status(self.pod, status)
            if written is None:
                return
            self._written = status
            # The content of the write is known; the answer tells its version.
            if _version(written) > _version(self.pod):
                meta = self.pod["metadata"] | {
                    "resourceVersion": written["metadata"]["resourceVersion"]
                }
                merged = self.pod.get("status", {}) | status
                self.pod = self.pod | {"metadata": meta, "status": merged}
        if self.is_over:
            self._forget_all_but_the_name()

    def _forget_all_but_the_name(self) -> None:
        """Free the memory of a pod that is over; nothing reads more than its name."""
        meta = self.pod["metadata"]
        kept = {k: meta[k] for k in ("name", "namespace", "uid", "resourceVersion")}
        self.pod = {"metadata": kept, "spec": {}, "status": {}}
        self._written = None


def _version(pod: Manifest) -> int:
    return int(pod["metadata"]["resourceVersion"])
