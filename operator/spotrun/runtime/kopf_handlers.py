"""kopf's handlers: they start and end the process, and receive changes of users' objects.

kopf watches our feed (`spotrun.kube.watch.kopf_feed`), not the API server: its own watch loses
deletions and ends the process at errors that pass (ADR 0001).
"""

from typing import Any, Protocol, cast

import kopf
from typing_extensions import override

from spotrun.kube.resource import Key, Resource
from spotrun.kube.watch.kopf_feed import SERVER, Feed
from spotrun.observe.kube_objects import CAPACITY_POOLS, TRAINING_JOBS, TUNING_JOBS


class Receiver(Protocol):
    """The receiver of changes."""

    def job_changed(self, key: Key) -> None:
        """Reconcile a job soon."""

    def pool_changed(self, name: str) -> None:
        """Bring a pool up to date soon."""

    def search_changed(self, key: Key) -> None:
        """Reconcile a TuningJob soon."""


class HostedService(Receiver, Protocol):
    """The service that kopf starts, informs and ends."""

    feed: Feed

    async def begin(self) -> None:
        """Start, and return soon."""

    async def end(self) -> None:
        """End, and return when that is done."""

    def stalled(self) -> str | None:
        """Return the fault that only a restart may cure, in a sentence; None if there is none."""


def register(registry: kopf.OperatorRegistry, service: HostedService) -> None:
    """Add all handlers to a registry of kopf's."""

    @kopf.on.startup(registry=registry)
    async def begin(settings: kopf.OperatorSettings, **_: Any) -> None:  # noqa: ANN401 - kopf's
        configure(settings)
        await service.begin()

    @kopf.on.cleanup(registry=registry)
    async def end(**_: Any) -> None:  # noqa: ANN401 - kopf's keyword arguments
        await service.end()

    @kopf.on.probe(registry=registry)
    async def caches(**_: Any) -> str:  # noqa: ANN401 - kopf's keyword arguments
        wrong = service.stalled()
        if wrong is not None:
            raise kopf.PermanentError(wrong)
        return "ok"

    watch(registry, service.feed, service)


def watch(registry: kopf.OperatorRegistry, feed: Feed, receiver: Receiver) -> None:
    """Add the handlers of changes of jobs, pools and searches."""

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:  # noqa: ANN401 - kopf's keyword arguments
        return kopf.AiohttpSession(server=SERVER, aiohttp_session=cast("Any", feed))

    @kopf.on.event(*names(TRAINING_JOBS), registry=registry)
    async def training_job(namespace: str | None, name: str, **_: Any) -> None:  # noqa: ANN401
        key = Key(namespace or "", name)
        feed.handled(TRAINING_JOBS, key)
        receiver.job_changed(key)

    @kopf.on.event(*names(CAPACITY_POOLS), registry=registry)
    async def capacity_pool(name: str, **_: Any) -> None:  # noqa: ANN401 - kopf's arguments
        feed.handled(CAPACITY_POOLS, Key("", name))
        receiver.pool_changed(name)

    @kopf.on.event(*names(TUNING_JOBS), registry=registry)
    async def tuning_job(namespace: str | None, name: str, **_: Any) -> None:  # noqa: ANN401
        key = Key(namespace or "", name)
        feed.handled(TUNING_JOBS, key)
        receiver.search_changed(key)


_NEVER_SECONDS = 365 * 86_400.0


def configure(settings: kopf.OperatorSettings) -> None:
    """Prevent kopf from writing anything, and from spending time on unused features."""
    # Our streams need no such timeout, and in kopf 1.45 it can end a watch for ever: if it expires
    # while kopf starts a task for an object, it cancels what waits there.
    settings.watching.inactivity_timeout = _NEVER_SECONDS
    settings.scanning.disabled = True
    settings.posting.enabled = False  # events are written by `act`, at most ten per job and hour
    settings.persistence.diffbase_storage = _NoDiffs()


def names(resource: Resource) -> tuple[str, str, str]:
    """Return a resource in the form that kopf's decorators take."""
    return resource.group, resource.version, resource.plural


class _NoDiffs(kopf.DiffBaseStorage):
    """An empty diff: no handler needs to know what has changed, so no object is copied."""

    @override
    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    @override
    def fetch(self, **_: Any) -> None:
        return None

    @override
    def store(self, **_: Any) -> None:
        return None
