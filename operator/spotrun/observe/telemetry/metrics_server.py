"""CPU and memory of workers whose scripts report no steps, from metrics.k8s.io, as an HPA does.

It is asked about such jobs only, and rarely: a metrics server measures pods once in a quarter of a
minute, or in a whole one.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import replace
from typing import NoReturn

import msgspec

from spotrun.api.names import LABEL_JOB_UID
from spotrun.kube.errors import Forbidden, KubeError, NotFound
from spotrun.kube.json_depth import decode
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.observe.kube_objects import POD_METRICS, PodMetricsObject, PodObject
from spotrun.observe.telemetry.silent_scripts import SilentJob, incomparable, reports_no_steps
from spotrun.state.snapshot import JobSnapshot
from spotrun.state.world_members import world_number

log = logging.getLogger(__name__)

IGNORED_SECONDS = 300.0
"""Usage is ignored this long after a change of the world, while processes start, load and compile;
an HPA ignores the CPU of a new pod as long. A script with `Run` has reported a step by then."""
ASK_SECONDS = 60.0
REFUSED_SECONDS = 600.0
"""A cluster that serves no such API, or does not let us ask, seldom will a minute later."""
KEPT_SECONDS = 300.0
"""The last answer counts this long while no other one comes."""
_LOOK_SECONDS = 5.0  # for jobs about which to ask
_DECODER = msgspec.json.Decoder(PodMetricsObject)


class Usage:
    """The usage of such jobs, asked for while `follow` runs; `pods_of` are a job's own."""

    def __init__(
        self,
        client: Client,
        *,
        clock: Callable[[], float],
        wake: Callable[[Key], None],
        pods_of: Callable[[Key], Iterable[PodObject]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._wake = wake
        self._pods_of = pods_of
        self._jobs: dict[Key, SilentJob] = {}
        self._obstacle = ""  # why there was no answer last
        self._refused_until = float("-inf")

    def added_to(self, job: JobSnapshot) -> JobSnapshot:
        """Return a job with its workers' usage, if no agent reports it; else as it is."""
        key, now = Key(job.namespace, job.name), self._clock()
        if not reports_no_steps(job):
            self.forget(key)
            return job
        known = self._followed(key, job)
        known.incomparable = incomparable(job, self._pods_of(key))
        if now < known.settled_at:
            return job
        workers = tuple(replace(worker, used=known.used(worker)) for worker in job.workers)
        why = known.incomparable or ("" if known.samples else self._obstacle)
        return replace(job, workers=workers, is_mute=True, use_unknown=why)

    def forget(self, key: Key) -> None:
        """Forget a job that is deleted, or whose agents report its steps."""
        self._jobs.pop(key, None)

    def forget_all(self) -> None:
        """Forget all answers: they are too old."""
        self._jobs.clear()

    async def follow(self) -> NoReturn:
        """Keep asking, until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(_LOOK_SECONDS)

    async def refresh(self) -> None:
        """Ask about each such job, if it is time to."""
        for key, job in list(self._jobs.items()):
            if not job.incomparable and self._clock() >= max(job.ask_at, self._refused_until):
                await self._ask(key, job)

    def _followed(self, key: Key, job: JobSnapshot) -> SilentJob:
        known, present = self._jobs.get(key), world_number(job.status)
        if known is None or (known.uid, known.world_number) != (job.uid, present):
            settled_at = self._clock() + IGNORED_SECONDS
            known = self._jobs[key] = SilentJob(job.uid, present, settled_at, ask_at=settled_at)
        return known

    async def _ask(self, key: Key, job: SilentJob) -> None:
        job.ask_at = self._clock() + ASK_SECONDS
        try:
            measured = await self._listed(key.namespace, job.uid)
        except KubeError as error:
            self._do_without(error)
            if self._clock() - job.heard_at > KEPT_SECONDS:
                job.samples.clear()
        else:
            self._obstacle = ""
            job.take(measured, self._pods_of(key), self._clock())
        self._wake(key)

    async def _listed(self, namespace: str, uid: str) -> list[PodMetricsObject]:
        """Return the metrics of a job's pods."""
        selection = Selection(POD_METRICS, namespace, label_selector=f"{LABEL_JOB_UID}={uid}")
        async with aclosing(self._client.pages(selection)) as pages:
            found = [_read(item) async for page in pages for item in page.items or ()]
        return [one for one in found if one is not None]

    def _do_without(self, error: KubeError) -> None:
        """Ask again in a minute after no answer, later after a refusal."""
        if isinstance(error, NotFound | Forbidden):
            self._refused_until = self._clock() + REFUSED_SECONDS
        before, self._obstacle = self._obstacle, _advice(error)
        if not before:
            log.info("jobs whose scripts report no steps cannot be sized: %s", self._obstacle)


def _read(item: msgspec.Raw) -> PodMetricsObject | None:
    """Read one entry; None for one that cannot be read: it spoils no other."""
    try:
        read: PodMetricsObject = decode(_DECODER, item)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    return read


def _advice(error: KubeError) -> str:
    match error:
        case NotFound():
            return (
                "the script does not train through Run, and this cluster serves no metrics.k8s.io: "
                "install metrics-server, or choose scaling.mode Manual"
            )
        case Forbidden():
            return (
                "the script does not train through Run, and the operator's account may not list "
                "pods of metrics.k8s.io: apply the roles of this version"
            )
        case _:
            return f"the script does not train through Run, and metrics.k8s.io says: {error}"
