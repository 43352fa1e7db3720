"""A worker on this machine that acts as if it had its own: its agent, and the part of torchrun."""

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from bench import chaos_links
from spotrun.state.snapshot import Node, Pod, PodEnd, PodPhase
from spotrun.wire import Answer, Ending, LastWords, World
from spotrun_trainer.agent.agent import Agent
from spotrun_trainer.agent.operator_connection import NoAnswerError
from spotrun_trainer.agent.settings import Settings
from spotrun_trainer.process.addresses import split_address
from spotrun_trainer.process.ipc_files import read_progress
from spotrun_trainer.process.progress_report import TrainerProgress
from tests.support.processes.trainer_world import Process

MONITOR_SECONDS = 0.1  # torchrun's own
LINKS_SECONDS = 0.02  # until all have cut their links: see chaos_links


class Operator(Protocol):
    """The operator, as the workers of one job use it."""

    def poll(self, worker_id: int, seen: str) -> Answer:
        """Return the answer to a worker, once it contains something new."""

    def report(self, worker_id: int, body: bytes) -> Answer:
        """Process a report."""


@dataclass(frozen=True)
class Home:
    """The environment of workers: their folder, their training, and their operator."""

    folder: Path
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    operator: Operator


class LocalWorker:
    """A worker that can be lost, with or without closing its connections."""

    def __init__(self, home: Home, worker_id: int, address: str) -> None:
        self.worker_id = worker_id
        self.name = f"w{worker_id}"
        self.errors: list[str] = []
        self.num_nudges = 0
        self.is_gone = False  # without a report
        self._home = home
        self._is_over = False
        self._is_cut_off = False
        self._process: Process | None = None
        self.node = Node(f"node-{worker_id}")
        self.pod = Pod(
            worker_id,
            self.name,
            f"uid-{worker_id}",
            "1",
            "t1",
            phase=PodPhase.RUNNING,
            node=self.node.name,
            address=address,
        )
        self._directory = home.folder / self.name
        settings = Settings(
            directory=self._directory,
            namespace="chaos",
            job="job",
            worker=self.name,
            server="127.0.0.1:1",
            authorities="",
            token_file=home.folder / "token",
            address=address,
            last_words=home.folder / f"{self.name}.words",
        )
        self._agent = Agent(settings, connect=lambda *_: Line(home.operator, worker_id))
        self._thread = threading.Thread(target=self._run, name=self.name, daemon=True)
        self._thread.start()

    @property
    def progress(self) -> TrainerProgress:
        """The progress that its training process reported last."""
        return read_progress(self._directory)

    def vanish(self, *, silently: bool) -> None:
        """Lose the machine; silently: no connection is closed, as if a cable were pulled."""
        self.is_gone = True
        if silently:
            chaos_links.cut(self._home.folder, self.name)
            self._is_cut_off = True
            time.sleep(LINKS_SECONDS)
        self._stop()

    def nudge(self) -> None:
        """Let its poll be answered."""
        self.num_nudges += 1

    def signal(self, number: int) -> None:
        """Send its training process a signal, if it has one."""
        if self._process is not None:
            self._process.signal(number)

    def remove(self) -> None:
        """Delete its pod, as when a cloud's controller has found that its machine is gone."""
        if self.is_gone:
            self.node = replace(self.node, gone=True)
        self._stop()
        end = PodEnd(exit_code=0, words=LastWords(Ending.DEPARTED))
        self.pod = replace(self.pod, deleting=True, phase=PodPhase.SUCCEEDED, end=end)

    def end(self) -> None:
        """End all of it."""
        self._stop()
        if self._is_cut_off:  # others may reuse its ports
            chaos_links.mend(self._home.folder, self.name)
            self._is_cut_off = False
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _stop(self) -> None:
        """End it at once without a report, as in a power cut."""
        self._is_over = True
        agent = self._agent
        agent._operator_threads.close()  # noqa: SLF001
        agent._heartbeats.close()  # noqa: SLF001
        agent._stores.close()  # noqa: SLF001
        if self._process is not None:
            self._process.signal(signal.SIGKILL)

    def _run(self) -> None:
        """Do the part of torchrun: ask for a world, start a process for it, and monitor that."""
        while not self._is_over:
            world = self._next_world()
            if world is None:
                return
            home = self._home
            self._process = Process(self._environment(world), home.function, *home.arguments)
            while self._process.is_alive and not self._is_over:
                if self._agent.must_stop():
                    self._process.signal(signal.SIGKILL)
                time.sleep(MONITOR_SECONDS)
            self._look_at_end(self._process)

    def _look_at_end(self, process: Process) -> None:
        process.signal(signal.SIGKILL)
        ended = process.ended(time.monotonic())
        if ended.exit_code != -signal.SIGKILL:
            self.errors.append(f"{self.name}: {ended.error}\n{ended.said}")
            self._agent.fail(ended.exit_code or 1, ended.error)

    def _next_world(self) -> World | None:
        found = self._agent.next_world()
        return found if isinstance(found, World) and not self._is_over else None

    def _environment(self, world: World) -> dict[str, str]:
        assert world.store is not None, "a world that is entered has a store"
        host, port = split_address(world.store)
        return {
            "RANK": str(world.rank),
            "LOCAL_RANK": "0",
            "WORLD_SIZE": str(world.size),
            "LOCAL_WORLD_SIZE": "1",
            "MASTER_ADDR": host,
            "MASTER_PORT": str(port),
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "SPOTRUN_WORLD_NUMBER": str(world.number),
            "SPOTRUN_DIR": str(self._directory),
            "SPOTRUN_WORKER": self.name,
        }


class Line:
    """A worker's connection to the operator."""

    def __init__(self, operator: Operator, worker_id: int) -> None:
        self._operator = operator
        self._worker_id = worker_id

    def poll(self, seen: str) -> Answer:
        """Wait for news."""
        return self._operator.poll(self._worker_id, seen)

    def report(self, body: bytes) -> Answer:
        """Send a report."""
        return self._operator.report(self._worker_id, body)

    def pause_seconds(self, _error: NoAnswerError) -> float:
        """Return the pause before another attempt."""
        return 0.1
