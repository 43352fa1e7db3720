"""Long polls of agents and the answers they wait for, which come from stored status.

A board is valid for one term as leader. It does not contain what other leaders wrote, so a new term
begins with an empty one: a job is published once it was reconciled.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from spotrun.agents.answers import Answers, Published
from spotrun.kube.resource import Key
from spotrun.wire import Answer

_REMEMBERED_GONE = 10_000
"""Names of deleted jobs that are remembered: their agents poll for minutes, until the pods are
gone."""


class WorkerKey(NamedTuple):
    """A worker as agents name it: by its pod."""

    namespace: str
    job: str
    pod: str


@dataclass(frozen=True)
class WorkerRef:
    """The job and worker id of a pod."""

    job_uid: str
    worker_id: int
    pod_uid: str


@dataclass(frozen=True)
class _Entry:
    job: Published
    version: int
    answers: Answers


class _Poll(NamedTuple):
    news: asyncio.Future[None]
    seen: str


class Board:
    """All answers to agents; to be used from one event loop."""

    def __init__(self, key: bytes) -> None:
        """Start empty; the worlds' secrets are derived from `key`, which is the cluster's."""
        self._key = key
        self._entries: dict[Key, _Entry] = {}
        self._gone: OrderedDict[Key, int] = OrderedDict()
        self._polls: dict[Key, dict[str, _Poll]] = {}
        self._unseen: set[Key] | None = set()

    @property
    def jobs(self) -> Iterator[Published]:
        """The jobs as they were published last."""
        return (entry.job for entry in self._entries.values())

    @property
    def num_polls(self) -> int:
        """The number of workers that wait for a changed answer."""
        return sum(map(len, self._polls.values()))

    def forget(self) -> None:
        """Drop all answers and end all polls: this replica is no longer the leader."""
        self._entries.clear()
        self._gone.clear()
        self._unseen = None
        self.release()

    def expect(self, keys: Iterable[Key]) -> None:
        """Set the jobs that a new leader must reconcile."""
        self._unseen = set(keys)

    def looked_at(self, key: Key) -> None:
        """Note that a job was reconciled, even if there was nothing to publish."""
        if self._unseen is not None:
            self._unseen.discard(key)

    def is_unseen(self, key: Key) -> bool:
        """Whether a job was not reconciled in this term, or the list of jobs is not known yet."""
        return self._unseen is None or key in self._unseen

    def publish(self, job: Published, version: int) -> None:
        """Tell the workers of a job what is stored at this resource version of it.

        Call this also when a pod was created or deleted, or got its address. A version older than
        the published one is ignored, because caches may be behind our own writes.
        """
        key = Key(job.namespace, job.name)
        old = self._entries.get(key)
        if version < (old.version if old else 0) or version <= self._gone.get(key, -1):
            return
        self._gone.pop(key, None)
        answers = Answers(job, self._key)
        self._entries[key] = _Entry(job, version, answers)
        if old is None or old.answers.content != answers.content or old.job.uid != job.uid:
            self._wake_changed(key, answers)

    def withdraw(self, key: Key, version: int) -> None:
        """Tell the agents of a deleted job that it is gone."""
        old = self._entries.get(key)
        if old is not None and old.version > version:
            return
        self._entries.pop(key, None)
        self._gone[key] = version
        while len(self._gone) > _REMEMBERED_GONE:
            self._gone.popitem(last=False)
        self._wake_all(key)

    def is_gone(self, key: Key) -> bool:
        """Whether a job of that name was deleted, and no new one was created since."""
        return key in self._gone

    def place(self, worker: WorkerKey) -> WorkerRef | None:
        """Return the job and worker id of a pod; None if there is no such pod in the job."""
        entry = self._entries.get(Key(worker.namespace, worker.job))
        worker_id = entry.answers.worker_ids.get(worker.pod) if entry else None
        if entry is None or worker_id is None:
            return None
        return WorkerRef(entry.job.uid, worker_id, entry.job.peers[worker_id].uid)

    def answer(self, worker: WorkerKey) -> Answer | None:
        """Return that worker's present answer; None if there is no such worker."""
        entry = self._entries.get(Key(worker.namespace, worker.job))
        worker_id = entry.answers.worker_ids.get(worker.pod) if entry else None
        return None if entry is None or worker_id is None else entry.answers.answer(worker_id)

    async def wait(self, worker: WorkerKey, seen: str, timeout_seconds: float) -> Answer | None:
        """Return the answer once it differs from `seen`, or the present one after the time-out.

        One poll of a worker waits at a time: a newer poll ends the older one.
        """
        answer = self.answer(worker)
        self.nudge(worker)
        if answer is None or answer.version != seen:
            return answer
        loop = asyncio.get_running_loop()
        news = loop.create_future()
        polls = self._polls.setdefault(Key(worker.namespace, worker.job), {})
        polls[worker.pod] = _Poll(news, seen)
        timer = loop.call_later(timeout_seconds, _resolve, news)
        try:
            await news
        finally:
            timer.cancel()
            self._forget(worker, news)
        return self.answer(worker)

    def nudge(self, worker: WorkerKey) -> None:
        """Answer the worker's open poll now; a live agent polls again at once."""
        poll = self._polls.get(Key(worker.namespace, worker.job), {}).get(worker.pod)
        if poll is not None:
            _resolve(poll.news)

    def release(self) -> None:
        """Answer every open poll now."""
        for key in self._polls:
            self._wake_all(key)

    def _wake_changed(self, key: Key, answers: Answers) -> None:
        for pod, poll in self._polls.get(key, {}).items():
            worker_id = answers.worker_ids.get(pod)
            if worker_id is None or answers.version(worker_id) != poll.seen:
                _resolve(poll.news)

    def _wake_all(self, key: Key) -> None:
        for poll in self._polls.get(key, {}).values():
            _resolve(poll.news)

    def _forget(self, worker: WorkerKey, news: asyncio.Future[None]) -> None:
        key = Key(worker.namespace, worker.job)
        polls = self._polls.get(key, {})
        if worker.pod in polls and polls[worker.pod].news is news:
            del polls[worker.pod]
            if not polls:
                del self._polls[key]


def _resolve(news: asyncio.Future[None]) -> None:
    if not news.done():
        news.set_result(None)
