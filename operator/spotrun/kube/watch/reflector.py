"""A reflector: it keeps a store equal to the API server's objects, in spite of all faults.

It lists, then watches. Each list is compared with the store, so events that a broken watch lost
become changes, deletions included. Only cancelling ends it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from random import Random
from typing import Generic, NoReturn, TypeVar

from spotrun.kube.backoff import Backoff, Roll, log_level
from spotrun.kube.errors import Gone, KubeError, Retryable, Silent, from_status
from spotrun.kube.resource import Key, Object
from spotrun.kube.rest.client import PAGE, Client, Selection, version_of
from spotrun.kube.watch.store import Change, Index, Store
from spotrun.kube.watch.watch_events import Added, Broken, Codec, Deleted, Failure, Modified

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

MOST_REFUSALS = 8
"""A list that is older than what was seen is refused this often in a row, which takes some 20 s.
Lists are read from etcd: after that time no server lags any more, so etcd was restored from a
backup."""

Handler = Callable[[T | None, T | None], None]
"""Called with (old, new) after the store has changed; it only notes that, and never raises."""


@dataclass(frozen=True)
class Timing:
    """The time limits of a reflector."""

    # A connection may be dead without a sign, so a silent one is opened again. That is no failure:
    # a kind may have no events, and the API server sends its bookmark once a minute only if the
    # version has changed (which it does not without etcd's progress notices).
    silence_seconds: float = 75.0
    relist_seconds: float = 600.0  # an event that a server lost is noticed after this time
    relist_least_seconds: float = 10.0  # between two lists: a list costs the server much
    backoff: Backoff = Backoff()  # noqa: RUF009 - frozen


class Reflector(Generic[T]):
    """One kind of object, or a selection of it; `run` it as a task.

    `synced` is set once the first list has been handed over.
    """

    def __init__(
        self,
        client: Client,
        selection: Selection,
        as_type: type[T],
        handler: Handler[T],
        *,
        indices: Mapping[str, Index[T]] | None = None,
        timing: Timing = Timing(),
        page: int = PAGE,
        clock: Callable[[], float] = time.monotonic,
        roll: Roll | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.selection = selection
        self.store: Store[T] = Store(indices)
        self.synced = asyncio.Event()
        self.last_version = 0
        self.listed_at = float("-inf")  # when the last complete list began
        self.moved_at = float("-inf")  # when the last version last became a newer one
        self.failures = 0  # in a row
        self.unreadable: dict[Key, str] = {}
        self.refusals = 0  # in a row, of lists that are older than what was seen
        self.rewound: Callable[[], None] = lambda: None  # called when such a list was accepted
        self._refused_version = 0
        self._taken: set[Key] | None = None  # objects seen at the last version; None: all of them
        self._is_unsure = False  # whether the API server may be behind the one before
        self._client = client
        self._codec = Codec(as_type)
        self._handler = handler
        self._timing = timing
        self._page = page
        self._clock = clock
        self._roll = roll or Random().random  # noqa: S311 - jitter, not a secret
        self._sleep = sleep
        self._relist_at = clock()
        self._heard_at = clock()
        self._watching: asyncio.Timeout | None = None

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object of that name, as last seen."""
        return self.store.get(Key(namespace, name))

    def by_index(self, index: str, value: Hashable) -> tuple[T, ...]:
        """Return the objects that an index has under a value."""
        return self.store.by_index(index, value)

    def age_seconds(self) -> float:
        """Return the time since the API server last sent something, an opened watch included."""
        return self._clock() - self._heard_at

    def relist(self) -> None:
        """List again soon: the watch has missed an object that is known to exist."""
        now = self._clock()
        if now - self.listed_at < self._timing.relist_least_seconds or self._relist_at <= now:
            return
        self._relist_at = now
        if self._watching is not None:
            self._watching.reschedule(asyncio.get_running_loop().time())

    async def run(self) -> NoReturn:
        """Follow for ever."""
        while True:
            pause_seconds = 0.0
            try:
                if self._is_unsure and self._clock() < self._relist_at:
                    await self._compare_versions()
                if self._clock() >= self._relist_at:
                    await self._list()
                await self._watch()
            except Silent as silence:
                log.debug("%s: %s, watching again", self.selection.resource.plural, silence)
                self.failures = 0
                self._is_unsure = True
            except KubeError as error:
                self._is_unsure |= not error.status  # no server answered
                if isinstance(error, Gone):  # the server no longer keeps the version that we know
                    self._relist_at = self._clock()
                pause_seconds = self._failed(error, error.retry_after_seconds)
            except Exception as error:
                # A bug, ours or of an index: without a reflector the cache would never change.
                log.exception("the reflector of %s failed", self.selection.resource.plural)
                self._relist_at = self._clock()
                pause_seconds = self._failed(error)
            await self._sleep(pause_seconds)

    def _failed(self, error: Exception, retry_after_seconds: float | None = None) -> float:
        self.failures += 1
        # A refused list comes from a server that may have just started, after many failures: the
        # pauses begin again.
        times, backoff = self.refusals or self.failures, self._timing.backoff
        pause_seconds = backoff.pause_seconds(times, self._roll, retry_after_seconds)
        log.log(
            log_level(self.failures),
            "%s: %s (%d failures in a row), trying again in %.1f s",
            self.selection.resource.plural,
            error,
            self.failures,
            pause_seconds,
        )
        return pause_seconds

    async def _compare_versions(self) -> None:
        """List again if the API server is behind the version that was seen.

        A watch from a version that this server does not have yet would be silent until it has it.
        """
        if await self._client.newest_version(self.selection) < self.last_version:
            self._relist_at = self._clock()
        self._is_unsure = False

    async def _list(self) -> None:
        """List everything at one version and hand over the difference."""
        began = self._clock()
        items: list[T] = []
        unreadable: dict[Key, str] = {}
        version = 0
        async with aclosing(self._client.pages(self.selection, page=self._page)) as pages:
            async for one in pages:
                version = version_of(one.metadata.version)
                self._refuse_the_past(version)
                for raw in one.items or ():
                    item = self._codec.item(raw)
                    if isinstance(item, Broken):
                        unreadable[item.key] = item.why
                    else:
                        items.append(item)
        went_back = version < self.last_version
        self.last_version, self._taken, self.refusals = version, None, 0
        self._is_unsure = False
        self._note_unreadable(unreadable)
        self._compare(items, unreadable, even_older=went_back)
        self.listed_at = began
        self._heard_at = self.moved_at = self._clock()
        # A tenth earlier or later, so that not all reflectors list at once.
        self._relist_at = self._clock() + self._timing.relist_seconds * (0.9 + 0.2 * self._roll())
        self.synced.set()
        if went_back:
            log.warning("%s: the older list is used from now on", self.selection.resource.plural)
            self.rewound()

    def _refuse_the_past(self, version: int) -> None:
        """Refuse a list from a server that lags: it would undo deletions that we acted upon.

        After `MOST_REFUSALS` lists, none older than the one before, the next one is accepted.
        """
        if version >= self.last_version or self.refusals >= MOST_REFUSALS:
            return
        self.refusals = self.refusals + 1 if version >= self._refused_version else 1
        self._refused_version = version
        raise Retryable(
            f"a list at version {version} is older than the last version seen, {self.last_version}"
        )

    def _compare(self, items: list[T], unreadable: Mapping[Key, str], *, even_older: bool) -> None:
        present = {Key(item.metadata.namespace, item.metadata.name) for item in items}
        for key in self.store.names() - present - unreadable.keys():
            self._tell(self.store.remove(key))
        for item in items:
            self._tell(self.store.put(item, even_older=even_older))

    async def _watch(self) -> None:
        """Follow from the last version until the stream ends or it is time to list again."""
        began = self._clock()
        try:
            async with asyncio.timeout(None) as self._watching:
                lines_seen = await self._read(self._relist_at - began)
        except TimeoutError:
            return  # a list was asked for
        finally:
            self._watching = None
        lived_seconds = self._clock() - began
        if not lines_seen and lived_seconds < self._timing.backoff.most_seconds:
            # If a server closes streams at once, we would otherwise open them in a busy loop.
            raise Retryable(f"the watch ended after {lived_seconds:.1f} s without an event")

    async def _read(self, seconds: float) -> bool:
        """Read a watch to its end; return whether it brought anything."""
        lines_seen = False
        stream = self._client.watch(
            self.selection,
            version=self.last_version,
            seconds=seconds,
            silence_seconds=self._timing.silence_seconds,
        )
        async with aclosing(stream):
            async for lines in stream:
                before = self.last_version
                for line in lines:
                    self._take(line)
                self._heard_at = self._clock()
                if self.last_version > before:
                    self.moved_at = self._heard_at
                if lines:
                    lines_seen = True
                    self.failures = 0
                if self._heard_at >= self._relist_at:
                    break
        return lines_seen

    def _take(self, line: bytes) -> None:
        event = self._codec.event(line)
        if isinstance(event, Failure):
            raise from_status(event.object)
        if isinstance(event, Broken):
            if self._is_new(version_of(event.version), event.key):
                self._note_unreadable({**self.unreadable, event.key: event.why})
            return
        meta = event.object.metadata
        key = Key(meta.namespace, meta.name)
        if isinstance(event, Added | Modified):
            if self._is_new(meta.version, key):
                self.unreadable.pop(key, None)
                self._tell(self.store.put(event.object))
        elif isinstance(event, Deleted):
            if self._is_new(meta.version, key):
                self.unreadable.pop(key, None)
                self._tell(self.store.remove(key))
        elif meta.version >= self.last_version:
            self.last_version, self._taken = meta.version, None

    def _is_new(self, version: int, key: Key) -> bool:
        """Whether an event is newer than all before; others are replays. Advances the version.

        Several objects may be deleted at one version: etcd deletes all objects of a lease together.
        """
        if version > self.last_version:
            self.last_version, self._taken = version, {key}
            return True
        if version < self.last_version or self._taken is None or key in self._taken:
            return False
        self._taken.add(key)
        return True

    def _tell(self, changes: list[Change[T]]) -> None:
        for old, new in changes:
            try:
                self._handler(old, new)
            except Exception:
                # A bug in the handler, which the log must show; other objects are handled.
                log.exception("the handler of %s failed", self.selection.resource.plural)

    def _note_unreadable(self, unreadable: dict[Key, str]) -> None:
        """Log objects that cannot be read; they keep their last readable state."""
        for key in unreadable.keys() - self.unreadable.keys():
            log.warning(
                "%s %s/%s cannot be read, its last readable state stays in use: %s",
                self.selection.resource.plural,
                key.namespace,
                key.name,
                unreadable[key],
            )
        self.unreadable = unreadable
