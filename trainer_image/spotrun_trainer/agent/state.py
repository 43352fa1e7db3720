"""An agent's state: the operator's answer, its own processes, and its neighbours.

Several threads share it. Everything happens under the condition `news`, which is notified of each
change.
"""

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import fields, replace

from spotrun.wire import (
    MESSAGE_CHARACTERS,
    Answer,
    Checkpoint,
    Failure,
    How,
    Progress,
    Report,
    World,
    step_of,
)
from spotrun_trainer.agent import next_action
from spotrun_trainer.agent.next_action import Known
from spotrun_trainer.agent.processes.first_cause import follows_from_a_peer
from spotrun_trainer.agent.settings import Settings
from spotrun_trainer.agent.stores import Stores
from spotrun_trainer.agent.trainer_progress import CarriedProgress
from spotrun_trainer.process.ipc_files import write_world
from spotrun_trainer.process.progress_report import TrainerProgress
from spotrun_trainer.telemetry.gpu.gpu_watch import NO_GPUS, GpuWatch
from spotrun_trainer.telemetry.gpu.standstill import Standstill

log = logging.getLogger(__name__)

BROKEN_SECONDS = 30.0
"""A lost peer is replaced within seconds. A group that stays broken for this long while no worker
is missing is a failure: the operator cannot see it otherwise, and no worker trains."""
UNEXPLAINED_SECONDS = 0.2
"""A loss that the operator knows of is followed by another world within this. If none comes, the
operator gets a report that the group broke, and looks for a silent worker."""
ARRIVED_SECONDS = 10.0
"""A trainer reports when it has formed its group. A script that reports nothing is assumed to have
formed it after this: earlier, a joining worker would stop processes that are still importing."""
_PROGRESS_FIELDS = tuple(field.name for field in fields(Progress))  # trainers use the same names


def _terminate() -> None:
    """End as if the kubelet had asked: torchrun passes the signal on, and the trainer saves."""
    os.kill(os.getpid(), signal.SIGTERM)


class State:
    """The worker as its agent sees it."""

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        terminate: Callable[[], None] = _terminate,
        gpus: GpuWatch = NO_GPUS,
    ) -> None:
        self.news = threading.Condition()
        self.entered: World | None = None
        self._settings = settings
        self._stores = stores
        self._clock = clock
        self._wall = wall
        self._terminate = terminate
        self._gpus = gpus
        self._standstill = Standstill()
        self._answer: Answer | None = None
        self._newest = 0  # the newest world in any answer
        self._placeless_since: float | None = None
        self._clings_since: float | None = None
        self._job_is_gone = False
        self._is_waiting = False
        self._is_completed = False
        self._is_leaving = False
        self._failed: Failure | None = None
        self._suspects: tuple[int, ...] = ()
        self._progress = CarriedProgress(settings.directory)
        self._entered_at = 0.0
        self._arrived = 0
        self._broken_since: float | None = None
        self._is_out_of_time = False
        self._stop_at: float | None = None  # on the monotonic clock: the wall clock may jump

    # The operator's answers.

    @property
    def version(self) -> str:
        """The version of the newest answer."""
        return self._answer.version if self._answer is not None else ""

    def take(self, answer: Answer) -> bool:
        """Apply the operator's answer; it is in the trainer's file before anything else sees it.

        Return False if it is older than what is known: the replica that answers is behind.
        """
        with self.news:
            self._job_is_gone = False  # the replica that answers now has newer information
            world = answer.world
            if answer.version == self.version:
                return True
            world_number = (
                world.number if world is not None else answer.world_number or self._newest
            )
            if world_number < self._newest:
                return False
            # What can fail comes first: an answer that was not applied comes again.
            self._stores.hear_of(world_number, world.store if world is not None else None)
            write_world(self._settings.directory, answer)
            self._answer = answer
            self._stop_at = self._moment(answer.stop_at)
            if world is None:
                self._placeless_since = self._placeless_since or self._clock()
            else:
                self._placeless_since = None
                self._newest = world.number
                if world.number == self._world_number:
                    self._enter_again(world)
            self.news.notify_all()
            return True

    def _moment(self, wall: float | None) -> float | None:
        return None if wall is None else self._clock() + wall - self._wall()

    def job_is_gone(self) -> None:
        """Note that the operator reports the job as deleted."""
        with self.news:
            self._job_is_gone = True
            self.news.notify_all()

    def known(self, away_seconds: float) -> Known:
        """Return everything that the next action depends on."""
        progress = self.progress
        return Known(
            answer=self._answer,
            entered=max(self._world_number, self._reported_world(progress), progress.entering),
            stage=self.entered.stage if self.entered is not None else None,
            progress=progress,
            saves_on_order=self._progress.saves_on_order,
            placeless_seconds=self._seconds_since(self._placeless_since),
            clinging_seconds=self._seconds_since(self._clings_since),
            away_seconds=away_seconds,
            give_up_seconds=self._settings.give_up_seconds,
            job_is_gone=self._job_is_gone,
            is_out_of_time=self._is_out_of_time,
        )

    def _seconds_since(self, moment: float | None) -> float:
        return 0.0 if moment is None else self._clock() - moment

    # Events of the worker.

    def wait(self) -> None:
        """Note that no processes run, so the worker could enter a world."""
        self._is_waiting = True
        self.news.notify_all()

    def enter(self, world: World) -> None:
        """Note that the worker's processes are about to start for a world."""
        self._progress.carry_on()
        self._is_waiting = False
        self._is_completed = False  # the completed one was the stage before
        self._failed = None
        self._be_in(world)

    def _be_in(self, world: World) -> None:
        with self.news:
            self._suspects = ()
            self._broken_since = None
            self.entered = world
            self._entered_at = self._clock()
            self._stores.entered(world.number)
            self.news.notify_all()

    def _enter_again(self, world: World) -> None:
        """Update the entered world: it was only prepared, or its neighbours are known now."""
        assert self.entered is not None, "it is of the same world"
        if world.switch and not self.entered.switch:
            self._entered_at = self._clock()
        self.entered = world

    def _follow(self) -> None:
        """Note that the worker's processes joined another world without a restart."""
        world, progress = self._answer.world if self._answer is not None else None, self.progress
        there = max(progress.world_number, progress.entering)
        if world is not None and self._world_number < world.number == there:
            self._be_in(world)

    def fail(self, exit_code: int, message: str) -> None:
        """Note that a process ended with an error.

        It counts unless the process ended on purpose, or because of a newer world.
        """
        with self.news:
            progress = self.progress
            world_number = max(self._world_number, progress.world_number, progress.entering)
            if progress.exiting is not None or self._is_superseded(world_number, progress):
                return
            text, fault = progress.failure or message, self._gpus.fault
            follows = not fault and follows_from_a_peer(text)
            text = f"{fault}; {text}" if fault else text
            self._failed = Failure(world_number, exit_code, text[:MESSAGE_CHARACTERS], follows)
            self.news.notify_all()

    @property
    def has_failed(self) -> bool:
        """Whether its processes have failed."""
        return self._failed is not None

    def suspect(self, world_number: int, places: tuple[int, ...]) -> None:
        """Note which neighbours are silent now."""
        with self.news:
            if world_number == self._world_number:
                self._suspects = places
                self.news.notify_all()

    def complete(self) -> None:
        """Note that the training is complete, as all workers agree."""
        with self.news:
            self._is_completed = True
            self.news.notify_all()

    def leave(self) -> None:
        """Note that a signal ends the worker, so that the others need not wait for its silence."""
        with self.news:
            self._is_leaving = True
            self.news.notify_all()

    @property
    def progress(self) -> TrainerProgress:
        """The trainer's last report of its progress."""
        return self._progress.read()

    def look(self) -> None:
        """Check for what no event reports: time is over, or a group stays broken."""
        self._follow()
        stop_at = self._stop_at
        if stop_at is not None and self._clock() > stop_at and not self._is_out_of_time:
            # Every answer postpones it; more training would cost more than the user allows.
            log.warning("no answer from the operator by stopAt: the worker saves and leaves")
            self._is_out_of_time = True
            self._terminate()
        self._look_for_arrival()
        self._look_for_a_broken_group()
        self._look_for_a_faulty_gpu()
        clings = next_action.clings(self._answer, self.progress)
        self._clings_since = (self._clings_since or self._clock()) if clings else None

    def _look_for_arrival(self) -> None:
        progress = self.progress
        reported = self._reported_world(progress)
        is_silent = not progress.in_process and self.entered is not None and self.entered.switch
        is_late = is_silent and self._clock() - self._entered_at > ARRIVED_SECONDS
        if self._world_number and (self._is_completed or is_late or reported >= self._world_number):
            self._arrived = max(self._world_number, reported)
        # Processes that change worlds in process join at once; one that does not is left out soon.
        if progress.in_process:
            self._arrived = max(self._arrived, min(progress.entering, self._newest))

    def _look_for_a_broken_group(self) -> None:
        broken = self.progress.broken
        world = self._answer.world if self._answer is not None else None
        # If there is another world, or none for this worker, the operator knows and has a time-out.
        # A world that is only prepared waits for joining workers, while the broken group waits for
        # it.
        if not self._world_number or broken < self._world_number or world is None:
            self._broken_since = None
            return
        if world.switch and world.number > broken:
            self._broken_since = None
            return
        self._broken_since = self._broken_since or self._clock()
        if self._broken_seconds > BROKEN_SECONDS and self._failed is None:
            self.fail(1, "the workers lost their connections, but none of the workers is missing")

    def _look_for_a_faulty_gpu(self) -> None:
        """Report a failure if the GPU is faulty and its process waits for it without an error."""
        if not self._gpus.fault or self._failed is not None or self._is_waiting:
            return
        if self._standstill.is_too_long(self.progress, self._clock()):
            self.fail(1, "its processes make no steps any more")

    @property
    def _broken_seconds(self) -> float:
        """Seconds since its group broke, while no other world has come."""
        return 0.0 if self._broken_since is None else self._clock() - self._broken_since

    def report(self) -> Report:
        """Return the report for the operator."""
        trained = self.progress
        saved = trained.checkpoint
        # The report of a process that has ended says nothing about the next one.
        is_up = not self._is_waiting and self._failed is None
        can_enter = is_up and not next_action.clings(self._answer, trained)
        reports_steps = bool(trained.world_number)
        progress = Progress(**{name: getattr(trained, name) for name in _PROGRESS_FIELDS})
        return Report(
            ready=self._is_waiting or (trained.ready and can_enter),
            arrived=self._arrived,
            failed=self._failed,
            suspects=self._suspects,
            store_port=self._stores.spare_port,
            utilization=trained.utilization
            if reports_steps
            else replace(trained.utilization, gpu=self._gpus.busy),
            progress=progress if reports_steps else None,
            committed=Checkpoint(saved, step_of(saved), trained.checkpoint_orders)
            if saved
            else None,
            completed=self._is_completed or trained.completed,
            in_process=trained.in_process and is_up,
            needs_boundary=trained.needs_boundary and is_up,
            leaving=self._is_leaving,
            broken=trained.broken if is_up and self._broken_seconds >= UNEXPLAINED_SECONDS else 0,
            saves_on_order=self._progress.saves_on_order,
            low_clock=self._gpus.low_clock or None,
        )

    @property
    def _world_number(self) -> int:
        return self.entered.number if self.entered is not None else 0

    def _reported_world(self, progress: TrainerProgress) -> int:
        """Return the world that the trainer reports, at most the newest that is known."""
        return min(progress.world_number, self._newest)

    def _is_superseded(self, world_number: int, progress: TrainerProgress) -> bool:
        """Whether the end of a process is explained by a newer world that restarts it."""
        world = self._answer.world if self._answer is not None else None
        if world is None or not world.switch or world.number <= world_number:
            return False
        return world.how is How.RESTART or not progress.in_process
