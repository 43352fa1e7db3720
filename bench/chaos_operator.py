"""The operator's own decisions about one job, and its workers on this machine, without Kubernetes.

Each worker has a real agent, which calls this module instead of using HTTP, and a real training
process. The operator's decisions are carried out at once: a created worker starts, a removed one
ends. So a loss is detected as in a cluster, by broken connections, missed heartbeats and silence,
and never by a message.
"""

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.chaos_worker import Home, LocalWorker
from devcluster.addresses import claim_block
from spotrun.agents.answers import Answers
from spotrun.agents.published import published
from spotrun.observe.telemetry.agents import Agents
from spotrun.policies.chain import decide
from spotrun.state.actions import Action, Create, Release, Remove
from spotrun.state.job_state import JobState
from spotrun.state.snapshot import JobSnapshot, Worker
from spotrun.state.worker_outcomes import in_doubt, missed_by_both, worker_outcomes
from spotrun.state.world_members import training
from spotrun.wire import Answer, read_report
from spotrun_trainer.agent.operator_connection import NoAnswerError
from spotrun_trainer.process.dns import wait_shortly
from tests.support.jobs.builders import a_spec

LOOK_SECONDS = 0.02  # between passes of the operator, even without reports
POLL_SECONDS = 5.0  # the longest time that a poll is held
UID = "00000000-0000-0000-0000-000000000000"
BEGAN = datetime(2026, 3, 2, tzinfo=UTC)


class Operated:
    """A job with a number of workers, of which at least one must train."""

    def __init__(
        self, folder: Path, workers: int, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> None:
        wait_shortly(os.environ)  # as an agent does in its own process
        self.news = threading.Condition()
        self.agents = Agents(time.monotonic)
        self.status = JobState()
        self.workers: dict[int, LocalWorker] = {}
        self._addresses = claim_block()
        self._home = Home(folder, function, arguments, self)
        self._spec = a_spec(workers, min=1)
        self._lost_at: dict[int, float] = {}
        self._missed_at: dict[int, float] = {}
        self._answers = Answers(published(self._snapshot(), self.status), b"key")
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="operator", daemon=True)
        self._thread.start()

    @property
    def members(self) -> tuple[int, ...]:
        """The workers that train, from the operator's view."""
        return training(self.status)

    def close(self) -> list[str]:
        """End all; returns the output of processes that ended by themselves."""
        self._is_closing = True
        self._thread.join()
        said = [error for worker in self.workers.values() for error in worker.errors]
        for worker in list(self.workers.values()):
            worker.end()
        self._addresses.close()
        return said

    def poll(self, worker_id: int, seen: str) -> Answer:
        """Return the answer to a worker, once it contains something new."""
        until = time.monotonic() + POLL_SECONDS
        with self.news:
            worker = self.workers[worker_id]
            nudges = worker.num_nudges
            self.agents.hold(UID, worker_id)
            # The operator does not notice that a lost machine no longer waits.
            while nudges == worker.num_nudges and self._answers.version(worker_id) == seen:
                if (left := until - time.monotonic()) <= 0:
                    break
                self.news.wait(left)
            self.agents.let_go(UID, worker_id)
            return self._answer(worker)

    def report(self, worker_id: int, body: bytes) -> Answer:
        """Process a report."""
        with self.news:
            worker = self.workers[worker_id]
            if not worker.is_gone and self.agents.take_report(UID, worker_id, read_report(body)):
                self.news.notify_all()
            return self._answer(worker)

    def _answer(self, worker: LocalWorker) -> Answer:
        if worker.is_gone:
            raise NoAnswerError("its machine is gone")
        return self._answers.answer(worker.worker_id)

    def _run(self) -> None:
        while not self._is_closing:
            with self.news:
                self._look()
                self.news.wait(LOOK_SECONDS)

    def _look(self) -> None:
        job = self._snapshot()
        decision = decide(job, datetime.now(UTC))
        if decision.status != self.status:
            self.status = decision.status
        for action in decision.actions:
            self._do(action)
        answers = Answers(published(self._snapshot(), self.status), b"key")
        if answers.content != self._answers.content:
            self.news.notify_all()
        self._answers = answers
        for worker_id in in_doubt(job) & self.workers.keys():
            self.workers[worker_id].nudge()
            self.news.notify_all()

    def _do(self, action: Action) -> None:
        match action:
            case Create(worker_id):
                address = self._addresses.pod_address()
                self.workers[worker_id] = LocalWorker(self._home, worker_id, address)
            case Remove(worker_id):
                self.workers[worker_id].remove()
            case Release(worker_id):
                self.agents.keep(UID, self.workers.keys() - {worker_id})
                self.workers.pop(worker_id).end()

    def _snapshot(self) -> JobSnapshot:
        now = time.monotonic()
        workers = [self.workers[worker_id] for worker_id in sorted(self.workers)]
        job = JobSnapshot(
            namespace="chaos",
            name="job",
            uid=UID,
            version="1",
            generation=1,
            created_at=BEGAN,
            spec=self._spec,
            status=self.status,
            template="t1",
            workers=tuple(
                Worker(one.pod, one.node, self.agents.facts(UID, one.worker_id)) for one in workers
            ),
            leading_seconds=3600.0,
        )
        missed = missed_by_both(job)
        self._missed_at = {worker_id: self._missed_at.get(worker_id, now) for worker_id in missed}
        job = replace(job, missed_seconds={n: now - at for n, at in self._missed_at.items()})
        ended = worker_outcomes(job, datetime.now(UTC))
        lost = [n for n in self.members if n in ended or n not in self.workers]
        self._lost_at = {worker_id: self._lost_at.get(worker_id, now) for worker_id in lost}
        return replace(job, lost_seconds={n: now - at for n, at in self._lost_at.items()})
