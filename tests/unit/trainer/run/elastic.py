"""Workers under a scripted operator: what it publishes, processes enter without a restart."""

import hashlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in __all__

from spotrun.wire import Answer, How, World
from spotrun_trainer.process.dns import wait_shortly
from spotrun_trainer.process.ipc_files import read_progress, write_world
from spotrun_trainer.process.progress_report import TrainerProgress
from tests.support.processes.trainer_world import Ended, Process

PATIENCE_SECONDS = 60.0
STORES = 8  # of the newest worlds: nobody meets in older ones any more


def this_is(worker: str) -> bool:
    """Whether this process is that worker's."""
    return os.environ["SPOTRUN_WORKER"] == worker


def die() -> NoReturn:
    """End as a process does whose machine is taken away."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("dead")


class Job:
    """Workers, each with as many processes, and the worlds that they are told of."""

    def __init__(
        self,
        folder: Path,
        function: Callable[..., Any],
        *arguments: Any,
        restore: str | None = None,
        processes: int = 1,
    ) -> None:
        wait_shortly(os.environ)  # as an agent does, which is the store's host elsewhere
        self.world_number = 0
        self.errors: list[str] = []  # of processes that ended by themselves, once it is closed
        self._folder = folder
        self._function = function
        self._arguments = arguments
        self._restore = restore
        self._num_processes = processes  # of a worker
        self._stores: list[TCPStore] = []
        self._processes: dict[str, list[Process]] = {}
        self._unreached = set[str]()
        self._switch = True
        self._until = time.monotonic() + PATIENCE_SECONDS

    def publish(self, how: How, *members: str, switch: bool = True) -> None:
        """Tell everybody of the next world: its members in rank order."""
        self.world_number += 1
        self._until = time.monotonic() + PATIENCE_SECONDS
        self._stores.append(TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False))
        del self._stores[:-STORES]
        self._members, self._how = members, how
        self._tell(switch=switch)

    def switch(self) -> None:
        """The world that was prepared is to be entered."""
        self._tell(switch=True)

    def bring_in(self, how: How, *members: str) -> None:
        """Let those that are new get warm while the others train; then all enter that world."""
        self.publish(how, *members, switch=False)
        joining_workers = [member for member in members if member not in self._processes]
        self.start(*joining_workers)
        self.until(lambda: all(self.progress(each).ready for each in joining_workers))
        self.switch()

    def isolate(self, worker: str) -> None:
        """Tell a worker of nothing, as where its agent stands still or cannot be reached."""
        self._unreached.add(worker)

    def reach(self, worker: str) -> None:
        """Tell it again, and what is news to it at once."""
        self._unreached.discard(worker)
        self._tell_one(worker)

    def start(self, *workers: str, env: Mapping[str, str] = {}) -> None:
        """Start the processes of workers for the newest world."""
        count = self._num_processes
        for worker in workers:
            shared = {
                "WORLD_SIZE": str(len(self._members) * count),
                "LOCAL_WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self._stores[-1].port),
                "TORCHELASTIC_USE_AGENT_STORE": "True",
                "SPOTRUN_WORLD_NUMBER": str(self.world_number),
                "SPOTRUN_DIR": str(self.directory(worker)),
                "SPOTRUN_WORKER": worker,
                **env,
            }
            first = self._members.index(worker) * count
            places = [{"RANK": f"{first + one}", "LOCAL_RANK": f"{one}"} for one in range(count)]
            self._processes[worker] = [
                Process(shared | place, self._function, *self._arguments) for place in places
            ]

    def directory(self, worker: str) -> Path:
        """SPOTRUN_DIR of a worker."""
        directory = self._folder / worker
        directory.mkdir(exist_ok=True)
        return directory

    def progress(self, worker: str) -> TrainerProgress:
        """Return the progress that a worker reported last."""
        return read_progress(self.directory(worker))

    def until(self, holds: Callable[[], object]) -> None:
        """Wait for something."""
        while not holds():
            assert time.monotonic() < self._until, "lost patience"
            time.sleep(0.005)

    def is_alive(self, worker: str) -> bool:
        """Whether a process of a worker runs."""
        return any(process.is_alive for process in self._processes[worker])

    def until_dead(self, worker: str) -> None:
        """Wait until a worker has no process."""
        self.until(lambda: not self.is_alive(worker))

    def signal(self, worker: str, number: int) -> None:
        """Send a signal to a worker's processes, as torchrun does."""
        for process in self._processes[worker]:
            process.signal(number)

    def signal_one(self, worker: str, local_rank: int, number: int) -> None:
        """Send a signal to one of a worker's processes."""
        self._processes[worker][local_rank].signal(number)

    def ended(self, *workers: str) -> list[Ended]:
        """Wait for the end of workers' processes; by worker, then by process."""
        processes = [process for worker in workers for process in self._processes.pop(worker)]
        return [process.ended(self._until) for process in processes]

    def close(self) -> None:
        """Leave nothing running."""
        for worker, processes in self._processes.items():
            for ended in [process.ended(0.0) for process in processes]:
                if ended.exit_code != -signal.SIGKILL:
                    self.errors.append(f"{worker}: {ended.error}\n{ended.said}")

    def _tell(self, *, switch: bool) -> None:
        self._switch = switch
        for worker in {*self._processes, *self._members} - self._unreached:
            self._tell_one(worker)

    def _tell_one(self, worker: str) -> None:
        world = self._world(worker) if worker in self._members else None
        version = f"{self.world_number}.{self._switch}"
        write_world(self.directory(worker), Answer(version, "Running", world))

    def _world(self, worker: str) -> World:
        store = self._stores[-1]
        return World(
            number=self.world_number,
            rank=self._members.index(worker) * self._num_processes,
            size=len(self._members) * self._num_processes,
            processes=self._num_processes,
            store=f"127.0.0.1:{store.port}",
            secret=hashlib.blake2b(str(self.world_number).encode()).hexdigest(),
            neighbours=(),
            how=self._how,
            switch=self._switch,
            restore=self._restore,
        )


class Jobs:
    """The jobs of a test, none of which is left running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._jobs: list[Job] = []

    def start(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        workers: Iterable[str],
        restore: str | None = None,
        processes: int = 1,
    ) -> Job:
        """Start a job with these workers in rank order, at a checkpoint if one is named."""
        job = Job(self._folder, function, *arguments, restore=restore, processes=processes)
        self._jobs.append(job)
        job.publish(How.RESTART, *workers)
        job.start(*workers)
        return job

    def close(self) -> None:
        """End them all."""
        for job in self._jobs:
            job.close()
