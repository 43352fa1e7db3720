"""The cache of TuningJobs, and the snapshot of a search that it makes with the cache of jobs."""

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import ValidationError
from typing_extensions import override

from spotrun.api.tuning.status import TuningJobStatus
from spotrun.api.tuning.tuningjob import TuningJobSpec
from spotrun.kube.resource import Key
from spotrun.kube.rest.client import Client, Selection
from spotrun.kube.watch.reflector import Handler, Reflector
from spotrun.kube.watch.reflector_owner import ReflectorOwner
from spotrun.observe.jobs.caches import JobCaches
from spotrun.observe.kube_objects import TUNING_JOBS, JobObject, TuningObject
from spotrun.policies.tuning.codec import read
from spotrun.policies.tuning.snapshot import Child, TuningSnapshot
from spotrun.state.job_state import JobState
from spotrun.state.names import checkpoint_folder

log = logging.getLogger(__name__)


class TuningCaches(ReflectorOwner):
    """The cache of TuningJobs, kept up to date in an `async with` block."""

    def __init__(
        self,
        client: Client,
        *,
        namespace: str | None,
        changed: Handler[TuningObject],
        jobs: JobCaches,
    ) -> None:
        self.objects: Reflector[TuningObject] = Reflector(
            client, Selection(TUNING_JOBS, namespace), TuningObject, changed
        )
        self._jobs = jobs
        self._read: dict[Key, tuple[TuningObject, TuningSnapshot | None]] = {}

    @property
    @override
    def reflectors(self) -> dict[str, Reflector[Any]]:
        """The reflector, by its name in the metric of caches' age."""
        return {"tuningjobs": self.objects}

    def all_keys(self) -> list[Key]:
        """The names of all searches."""
        return sorted(self.objects.store.names())

    @property
    def known(self) -> list[TuningSnapshot]:
        """The searches that were read and still exist, without the jobs of their trials."""
        reads = [(key, search) for key, (_, search) in list(self._read.items())]
        exist = self.objects.get
        return [one for key, one in reads if one is not None and exist(*key) is not None]

    def snapshot(self, key: Key) -> TuningSnapshot | None:
        """Return a search and the known facts about its trials; None if there is none to decide."""
        found = self.objects.get(*key)
        if found is None:
            self._read.pop(key, None)
            return None
        known, search = self._read.get(key, (None, None))
        if known is not found:  # a thousand trials take a tenth of a second to read
            search = read_search(found)
            self._read[key] = (found, search)
        if search is None:
            return None
        return replace(search, children=dict(self._children(search)))

    def _children(self, search: TuningSnapshot) -> Iterator[tuple[int, Child]]:
        for job in self._jobs.owned_by(search.uid):
            number = number_of(search, job.metadata.name)
            if number is not None:
                yield number, self._child(job)

    def _child(self, job: JobObject) -> Child:
        meta = job.metadata
        spec, state = self._jobs.readings.spec(job).spec, self._jobs.readings.status(job).status
        state = state if state is not None else JobState()
        return Child(
            name=meta.name,
            uid=meta.uid,
            version=meta.resource_version,
            state=state,
            folder=checkpoint_folder(meta.name, meta.annotations.checkpoint_folder),
            metrics=metrics_of(state),
            is_suspended=spec is not None and spec.suspend,
            is_current=state.observed_generation == meta.generation,
            is_deleting=meta.deletion_timestamp is not None,
        )


def number_of(search: TuningSnapshot, job: str) -> int | None:
    """Return the number of the trial whose TrainingJob has this name; None if none has."""
    digits = job.removeprefix(f"{search.name}-")
    is_number = digits.isascii() and digits.isdigit() and len(digits) < 5
    return int(digits) if is_number and search.job_name(int(digits)) == job else None


def metrics_of(state: JobState) -> dict[str, tuple[int, float]]:
    """Return the newest value of each metric that a job reports, with its step."""
    return {one.name: (one.step or 0, one.value) for one in state.metrics}


def read_search(found: TuningObject) -> TuningSnapshot | None:
    """Read a search; None if it cannot be read: then nothing is done for it, or forgotten."""
    meta = found.metadata
    try:
        spec = TuningJobSpec.model_validate_json(bytes(found.spec), by_alias=True, by_name=False)
        stored = TuningJobStatus.model_validate_json(
            bytes(found.status), by_alias=True, by_name=False
        )
    except ValidationError as error:
        log.warning(
            "tuningjob %s/%s cannot be read, so nothing is done for it: %s",
            meta.namespace,
            meta.name,
            error,
        )
        return None
    return TuningSnapshot(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        version=meta.resource_version,
        generation=meta.generation,
        created_at=datetime.fromisoformat(meta.creation_timestamp),
        spec=spec,
        status=read(stored),
        is_deleting=meta.deletion_timestamp is not None,
    )
