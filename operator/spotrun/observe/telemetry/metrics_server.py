"""CPU and memory of workers whose scripts report no steps, from metrics.k8s.io, as an HPA does.

Only such jobs are asked about, and rarely: a metrics server measures pods every 15 to 60 s.
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
"""Usage is ignored for this long after a change of the world, while processes start, load and
compile; an HPA ignores the CPU of a new pod for the same time. A script with `Run` has reported a
step by then."""
ASK_SECONDS = 60.0
REFUSED_SECONDS = 600.0
"""The pause if a cluster does not serve the API or refuses access: that rarely changes within a
minute."""
KEPT_SECONDS = 300.0
"""The last answer counts for this long if no new one comes."""
_LOOK_SECONDS = 5.0  # between checks for jobs to ask about
_DECODER = msgspec.json.Decoder(PodMetricsObject)


class Usage:
    """The usage of such jobs, asked for while `follow` runs; `pods_of` returns a job's own pods."""

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
        self._obstacle = ""  # why the last question got no answer
        self._refused_until = float("-inf")

    def added_to(self, job: JobSnapshot) -> JobSnapshot:
        """Return a job with its workers' usage if no agent reports steps; else unchanged."""
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
        """Ask about each such job for which it is time."""
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
        """Ask again in a minute if there was no answer, later if it was a refusal."""
        if isinstance(error, NotFound | Forbidden):
            self._refused_until = self._clock() + REFUSED_SECONDS
        before, self._obstacle = self._obstacle, _advice(error)
        if not before:
            log.info("cannot size jobs whose scripts report no steps: %s", self._obstacle)


def _read(item: msgspec.Raw) -> PodMetricsObject | None:
    """Read one entry; None if it cannot be read, so that the others still count."""
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
