"""A job in Python: its state as it was last read, and its methods."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
from typing_extensions import override

from spotrun.api.names import Phase
from spotrun.cli.cluster.installation import Installation, installation
from spotrun.cli.cluster.session import Cluster
from spotrun.cli.cluster.troubles import NoSuchJob, Refused
from spotrun.cli.jobs import actions, model
from spotrun.cli.jobs.logs.following import Wanted, lines_of, logs_of
from spotrun.cli.jobs.logs.lines import Line
from spotrun.cli.jobs.logs.profiling import FAILED, profiled
from spotrun.cli.jobs.reading import events_of, read_job, read_jobs
from spotrun.cli.jobs.watch import in_a_line
from spotrun.cli.jobs.watching import states_of
from spotrun.cli.python.calling import blocking, iterating
from spotrun.cli.python.connection import Connection
from spotrun.cli.python.errors import JobFailedError
from spotrun.cli.python.report import Report
from spotrun.cli.report import content
from spotrun.cli.report.content import report_on
from spotrun.observe.kube_objects import EventObject
from spotrun.wire import MOST_PROFILED_STEPS

if TYPE_CHECKING:
    from spotrun.api.cost import Cost
    from spotrun.api.status import TrainingJobStatus
    from spotrun.api.trainingjob import TrainingJob


@dataclass(frozen=True)
class Seen:
    """A job as it was read, with the events of that time."""

    body: bytes
    read_at: datetime
    events: tuple[EventObject, ...] = ()

    @cached_property
    def shown(self) -> model.Job:
        """The job as screens show it."""
        return msgspec.json.decode(self.body, type=model.Job)

    @cached_property
    def manifest(self) -> "TrainingJob":
        """The job as the API has it, without fields that this version does not know."""
        from spotrun.api.trainingjob import TrainingJob  # noqa: PLC0415 - pydantic takes long

        return TrainingJob.model_validate_json(
            self.body, extra="ignore", by_alias=True, by_name=False
        )


async def read_one(cluster: Cluster, name: str) -> Seen:
    """Read a job and its events; raises NoSuchJob."""
    seen = Seen(bytes(await read_job(cluster, name, msgspec.Raw)), cluster.client.clock.now())
    return replace(seen, events=await events_of(cluster, seen.shown))


async def read_all(cluster: Cluster) -> tuple[Seen, ...]:
    """Read the jobs of a namespace, or of all, without their events."""
    bodies, now = await read_jobs(cluster, msgspec.Raw), cluster.client.clock.now()
    return tuple(Seen(bytes(body), now) for body in bodies)


class Job:
    """A training job. `manifest`, `status`, `phase` and `cost` are as they were last read.

    Each method reads them again, `refresh` does nothing else. Every method blocks; its `.aio` is
    the same as a coroutine: `await job.wait.aio()`.
    """

    def __init__(self, connection: Connection, seen: Seen) -> None:
        self._connection = connection
        self._seen = seen

    @property
    def name(self) -> str:
        """The name."""
        return self._seen.shown.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace."""
        return self._seen.shown.metadata.namespace

    @property
    def uid(self) -> str:
        """The UID: a later job with the same name has another one."""
        return self._seen.shown.metadata.uid

    @property
    def manifest(self) -> "TrainingJob":
        """The whole object."""
        return self._seen.manifest

    @property
    def status(self) -> "TrainingJobStatus":
        """The state; empty until an operator has seen it."""
        from spotrun.api.status import TrainingJobStatus  # noqa: PLC0415 - pydantic takes long

        return self.manifest.status or TrainingJobStatus()

    @property
    def phase(self) -> str:
        """Pending, Running and so on; empty until an operator has seen it."""
        return self._seen.shown.status.phase

    @property
    def cost(self) -> "Cost | None":
        """The cost: spent, saved, by pool, and its forecast; None before anything was spent."""
        return self.status.cost

    @property
    def is_over(self) -> bool:
        """Whether it has succeeded or failed."""
        return self.phase in actions.OVER

    @blocking
    async def refresh(self) -> "Job":
        """Read it again."""
        return await self._refreshed(await self._cluster())

    @blocking
    async def wait(
        self,
        timeout: float | None = None,  # noqa: ASYNC109 - for those who block
    ) -> "Job":
        """Wait until it is over, at most `timeout` seconds.

        Raises JobFailedError if it has failed, TimeoutError if it is not over then.
        """
        cluster, last = await self._cluster(), self._seen.shown
        async with asyncio.timeout(timeout), aclosing(states_of(cluster, self.name, self.uid)) as s:
            async for last in s:
                if last.status.phase in actions.OVER:
                    break
            else:
                raise NoSuchJob(f"{self.name} was deleted before it was over")
        await self._refreshed(cluster)
        if last.status.phase == Phase.FAILED:
            raise JobFailedError(f"{self.name} has failed: {last.status.message}")
        return self

    @iterating
    async def logs(
        self,
        *,
        follow: bool = False,
        rank: int | None = None,
        all: bool = False,  # noqa: A002 - as the flag is called
        tail: int | None = None,
    ) -> AsyncGenerator[Line, None]:
        """Yield the lines of rank 0, of another rank, or of all workers in the order of time.

        A line has `text`, `source` (the rank; empty for a change of the world) and `time`. With
        `follow` it continues until the job is over.
        """
        cluster, wanted = await self._cluster(), Wanted(rank, all, tail)
        if follow:
            async with aclosing(lines_of(cluster, self.name, wanted)) as lines:
                async for line in lines:
                    yield line
            return
        for line in (await logs_of(cluster, self.name, wanted)).lines:
            yield line

    @blocking
    async def profile(
        self,
        *,
        steps: int = 20,
        rank: int = 0,
        timeout: float = 300,  # noqa: ASYNC109 - for those who block
    ) -> str:
        """Ask the first process of a worker to record its next steps with torch's profiler.

        Returns the operators that take most time, and where the trace is. Raises RefusedError
        if it could not be made, or no answer came in time.
        """
        if not 1 <= steps <= MOST_PROFILED_STEPS:
            raise ValueError(f"--steps {steps}: give a number from 1 to {MOST_PROFILED_STEPS}")
        cluster = await self._cluster()
        await self._refreshed(cluster)
        said = profiled(cluster, self._seen.shown, steps=steps, rank=rank, seconds=timeout)
        async with aclosing(said) as sentences:
            _asked, *answer = [one async for one in sentences]
        if answer and answer[-1].startswith(FAILED):
            raise Refused(f"{self.name} made no profile: {answer[-1].removeprefix(FAILED)}")
        return "\n".join(answer)

    @blocking
    async def report(self) -> Report:
        """Return a report: what was trained, for how long, at what cost, and what was lost."""
        cluster = await self._cluster()
        await self._refreshed(cluster)
        return Report(self._told(await installation(cluster)))

    @blocking
    async def suspend(self, *, wait: bool = False) -> "Job":
        """Give all workers back, after a checkpoint; with `wait` until they are gone."""
        cluster = await self._cluster()
        asked = await actions.suspend(cluster, self._seen.shown)
        if wait:
            await actions.until(cluster, asked, actions.is_suspended, "suspended")
        return await self._refreshed(cluster)

    @blocking
    async def resume(self) -> "Job":
        """Continue from the newest checkpoint. `status.suspended_by` says what else suspends it."""
        cluster = await self._cluster()
        await actions.resume(cluster, self._seen.shown)
        return await self._refreshed(cluster)

    @blocking
    async def scale(self, workers: int) -> "Job":
        """Ask for a number of workers, between workers.min and workers.max."""
        cluster = await self._cluster()
        await actions.scale(cluster, self._seen.shown, workers)
        return await self._refreshed(cluster)

    @blocking
    async def checkpoint(
        self,
        *,
        timeout: float = 300,  # noqa: ASYNC109 - for those who block
    ) -> model.Checkpoint:
        """Save now, and return the checkpoint when it is durable."""
        cluster = await self._cluster()
        await self._refreshed(cluster)  # for its newest checkpoint: wait for another one
        saved = await actions.checkpoint(cluster, self._seen.shown, seconds=timeout)
        await self._refreshed(cluster)
        return saved

    @blocking
    async def delete(self) -> None:
        """Delete this job at once; checkpoints stay. To save before, call `suspend(wait=True)`."""
        await actions.delete(await self._cluster(), self._seen.shown)

    @override
    def __repr__(self) -> str:
        return f"<Job {self.namespace}/{self.name}: {in_a_line(self._seen.shown)}>"

    def _repr_html_(self) -> str:
        """Show the job in a notebook, as it was last read: its state, and its timeline."""
        made = self._told(None)
        return Report(replace(made, sections=made.sections[:1]))._repr_html_()

    def _told(self, known: Installation | None) -> content.Report:
        seen = self._seen
        manifest = msgspec.json.decode(seen.body, type=dict[str, Any])
        return report_on(seen.shown, manifest, seen.events, known, seen.read_at)

    async def _cluster(self) -> Cluster:
        return await self._connection.cluster(self.namespace)

    async def _refreshed(self, cluster: Cluster) -> "Job":
        self._seen = await read_one(cluster, self.name)
        return self
