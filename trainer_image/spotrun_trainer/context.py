"""What belongs to a process as long as it is in one world, and how it gets out of that."""

import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import torch

from spotrun import wire
from spotrun_trainer.checkpoint import Checkpoints
from spotrun_trainer.device import default_device
from spotrun_trainer.files import WorldFile
from spotrun_trainer.group import Group, PeerLostError
from spotrun_trainer.interrupt import GRACE_SECONDS, Interrupt
from spotrun_trainer.logbook import Logbook, say
from spotrun_trainer.rng import seed_all
from spotrun_trainer.seat import OutdatedSeatError, Seat, find_seat
from spotrun_trainer.telemetry.device_time import device_time
from spotrun_trainer.telemetry.failure import install_failure_note
from spotrun_trainer.telemetry.meter import Meter
from spotrun_trainer.telemetry.reporter import Reporter
from spotrun_trainer.telemetry.trace import Trace, open_trace
from spotrun_trainer.telemetry.vitals import open_vitals
from spotrun_trainer.tracked import Tracked

BROKEN_SECONDS = 600.0
_LOOK_SECONDS = 0.05
# What shells make of SIGTERM: 0 would be taken for a training that is complete.
_TERMINATED = 128 + 15


@dataclass
class Context:
    """One process in one world."""

    seat: Seat
    seed: int
    deterministic: bool
    device: torch.device
    world_file: WorldFile | None
    interrupt: Interrupt
    meter: Meter
    trace: Trace
    reporter: Reporter
    logbook: Logbook
    place: str | None
    keep: int
    tracked: Tracked = field(default_factory=Tracked)
    things: list[object] = field(default_factory=list)  # that are tracked
    step: int = 0  # so many are done
    is_at_boundary: bool = True  # between two steps, and the last one was not discarded
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _group: Group | None = None
    _checkpoints: Checkpoints | None = None

    @property
    def group(self) -> Group:
        """The processes of this world; the first who asks waits for all to arrive."""
        if self._group is None:
            try:
                with self.meter.span("wait"):
                    self._group = Group.form(self.seat, device=self.device, look=self.check_seat)
            except PeerLostError as error:
                self.wait_for_next_world(error)
            self.trace.mark("group", generation=self.seat.generation)
            self.reporter.tell(generation=self.seat.generation)
        return self._group

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Where the training is saved; None if nobody said where."""
        if self._checkpoints is None and self.place is not None:
            # Outside spotrun a start has no number; so ranks draw a word that no start had before.
            attempt = self.group.text_from(0, secrets.token_hex(8), device=self.device)
            self._checkpoints = Checkpoints(self.place, keep=self.keep, attempt=attempt)
        return self._checkpoints

    def answer(self) -> wire.Answer | None:
        """What the operator said last; None outside spotrun."""
        return self.world_file.read() if self.world_file is not None else None

    def world(self) -> wire.World | None:
        """The newest world that the agent knows of; None outside spotrun."""
        answer = self.answer()
        return answer.world if answer is not None else None

    def acknowledged(self) -> str | None:
        """The checkpoint that a world would begin with now; only that makes older ones useless."""
        answer = self.answer()
        return answer.acknowledged if answer is not None else None

    def orders(self) -> int:
        """How many checkpoints were ordered so far."""
        answer = self.answer()
        return answer.orders.checkpoint if answer is not None else 0

    def check_seat(self) -> None:
        """Raise PeerLostError if the world that is being formed is not the world any more."""
        world = self.world()
        if world is not None and world.generation > self.seat.generation:
            raise PeerLostError(f"there is a newer world than {self.seat.generation}")

    def leave(self, sentence: str) -> NoReturn:
        """End this process on purpose."""
        say(sentence)
        self.reporter.tell(exiting=self.interrupt.reason() or "departed")
        self.close()
        if self._group is not None:
            self._group.close()
        # torchrun takes any other code for a failure; under spotrun the agent knows better.
        raise SystemExit(0 if self.seat.elastic else _TERMINATED)

    def wait_for_next_world(self, error: Exception) -> NoReturn:
        """The world broke: under spotrun its agent ends this process and starts it in the next.

        Elsewhere that is an error: torchrun restarts all processes, if it was told to.
        """
        if not self.seat.elastic:
            raise error
        say(f"world {self.seat.generation} broke ({error}); waiting for the next")
        self.trace.mark("broken", generation=self.seat.generation)
        self.reporter.tell(broken=self.seat.generation)
        seconds = float(self.env.get("SPOTRUN_BROKEN_SECONDS", BROKEN_SECONDS))
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.interrupt.reason():
                self.leave("told to end while waiting for the next world")
            time.sleep(_LOOK_SECONDS)
        raise TimeoutError(
            f"world {self.seat.generation} broke, and in {seconds:.0f} s no next one came "
            "(SPOTRUN_BROKEN_SECONDS): look at the log of the operator, and at the job's conditions"
        ) from error

    def close(self) -> None:
        """The loop is over; what was logged is printed, and signals are the program's again.

        The group stays: the script may evaluate once more.
        """
        self.logbook.flush(is_last=True)
        self.interrupt.unlisten()
        self.reporter.close()


def open_context(
    seed: int,
    *,
    deterministic: bool,
    place: str | None,
    keep: int,
    device: torch.device | str | None,
    env: Mapping[str, str] = os.environ,
) -> Context:
    """Find out where this process is, and seed it."""
    directory = env.get("SPOTRUN_DIR") if "SPOTRUN_GENERATION" in env else None
    world_file = WorldFile(directory) if directory else None
    seat = _find_seat(env, world_file)
    device = torch.device(device) if device else default_device(seat.local_rank)
    trace = open_trace(env)
    trace.mark("imported")
    meter = Meter(trace, device=device_time(device))
    reporter = Reporter(
        seat.directory, local_rank=seat.local_rank, measured=open_vitals(meter, env)
    )
    install_failure_note(reporter)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS refuses
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    context = Context(
        seat=seat,
        seed=seed,
        deterministic=deterministic,
        device=device,
        world_file=world_file,
        interrupt=Interrupt(
            float(env.get("SPOTRUN_GRACE_SECONDS", GRACE_SECONDS)),
            stop_at=lambda: _stop_at(world_file),
        ),
        meter=meter,
        trace=trace,
        reporter=reporter,
        logbook=Logbook(is_printed=seat.rank == 0),
        place=place,
        keep=keep,
    )
    if context.device.type == "cuda":
        torch.cuda.set_device(context.device)
    seed_all(seed, 0)
    return context


def _stop_at(world_file: WorldFile | None) -> float | None:
    answer = world_file.read() if world_file is not None else None
    return answer.stop_at if answer is not None else None


def _find_seat(env: Mapping[str, str], world_file: WorldFile | None) -> Seat:
    try:
        return find_seat(env, world_file.read() if world_file is not None else None)
    except OutdatedSeatError as error:
        say(f"{error}; waiting to be started for that one")
        time.sleep(BROKEN_SECONDS)
        raise
