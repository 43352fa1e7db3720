"""The context of a process: its world, group, device, telemetry and checkpoints."""

import hashlib
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch

from spotrun import wire
from spotrun_trainer.checkpoint import Checkpoints, open_storage
from spotrun_trainer.checkpoint.places.store_meter import StoreMeter, open_store_meter
from spotrun_trainer.checkpoint.tiers.folder import Folder
from spotrun_trainer.checkpoint.tiers.settings import read_settings
from spotrun_trainer.data.cache.first_shards import FIRST_SHARDS, Position
from spotrun_trainer.elastic.backends import nccl
from spotrun_trainer.elastic.errors import LeftError, PeerLostError
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import (
    OutdatedWorldError,
    RankInfo,
    can_be_entered,
    find_rank_info,
    is_newer,
    rank_info_in,
    with_shards,
)
from spotrun_trainer.elastic.replica_group import ReplicaGroup
from spotrun_trainer.elastic.world_watch import Watch
from spotrun_trainer.parallel.degrees import Parallel
from spotrun_trainer.parallel.mesh import make_mesh
from spotrun_trainer.process.device import default_device
from spotrun_trainer.process.dns import wait_shortly
from spotrun_trainer.process.interrupt import GRACE_SECONDS, Interrupt
from spotrun_trainer.process.ipc_files import WorldFile
from spotrun_trainer.process.rng import seed_all
from spotrun_trainer.state.tracked import Rule, Tracked
from spotrun_trainer.store.addresses import is_address
from spotrun_trainer.telemetry.console import ConsoleLog, say
from spotrun_trainer.telemetry.failure import install_failure_note
from spotrun_trainer.telemetry.gpu.device_time import device_time
from spotrun_trainer.telemetry.meter import Meter
from spotrun_trainer.telemetry.reporter import Reporter
from spotrun_trainer.telemetry.trace import Trace, open_trace
from spotrun_trainer.telemetry.trackers.choice import recorder_of
from spotrun_trainer.telemetry.utilization import open_utilization_report

BROKEN_SECONDS = 600.0
_LOOK_SECONDS = 0.005  # one stat
# A shell's exit code for SIGTERM: 0 would mean a training that is complete.
_TERMINATED = 128 + 15


@dataclass
class Context:
    """The context of one process and its present world."""

    rank_info: RankInfo
    seed: int
    deterministic: bool
    device: torch.device
    world_file: WorldFile | None
    interrupt: Interrupt
    meter: Meter
    trace: Trace
    reporter: Reporter
    console_log: ConsoleLog
    place: str | None
    keep: int
    begins_from: str = ""  # another training's checkpoint, or its place
    store_meter: StoreMeter | None = None  # of the object store, if checkpoints are in one
    tracked: Tracked = field(default_factory=Tracked)
    things: list[object] = field(default_factory=list)  # the tracked objects
    buffer_rules: dict[int, Rule] = field(default_factory=dict)  # by the id of a module
    step: int = 0  # the number of steps done
    is_at_boundary: bool = True  # between two steps, the last of which was not discarded
    expected_checkpoint: str = ""  # that run.load relied on instead of reading
    is_left_to_the_agent: bool = False  # only a new process can continue in its place
    continues_over_nccl: bool = False  # after its world has broken
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    replica: ReplicaGroup | None = None  # if several processes hold the model together
    mesh: Any = None  # torch's view of these processes, if it divides the model among them
    _group: Group | None = None
    _broken: Group | None = None  # of a world that broke over NCCL, until nothing of it runs
    _watch: Watch | None = None
    _checkpoints: Checkpoints | None = None

    @property
    def group(self) -> Group:
        """The group of this world; the first access waits for all processes to arrive."""
        if self._group is None:
            self._group = self._meet()
        return self._group

    @property
    def checkpoints(self) -> Checkpoints | None:
        """The checkpoints of the training; None without a place for them."""
        if self._checkpoints is None and self.place is not None:
            self._checkpoints = self.checkpoints_in(self.place)
        return self._checkpoints

    def preload(self) -> None:
        """Begin to fetch what the world's checkpoint needs, while the script makes its model.

        Of the data that is the first shards. A local tier usually has a newer state, near the same
        place in the data, unless this worker's tier is empty: then all may be, as after all nodes
        were lost or the job was suspended. From a folder no state needs to be fetched.
        """
        info, checkpoints = self.rank_info, self.checkpoints
        if not info.elastic or info.restore is None or checkpoints is None:
            return
        name = info.restore
        FIRST_SHARDS.look_up(lambda: Position.saved_in(checkpoints.extra_of(name)))
        tier = read_settings(self.env)
        is_empty = tier is None or not Folder(tier).names()
        if is_empty and is_address(self.place or ""):
            checkpoints.preload(name, rank=info.rank, size=info.size, local_size=info.local_size)

    def end_preload(self) -> None:
        """Fetch no more of the data: its loaders do so from now on."""
        fetched = FIRST_SHARDS.end()
        if not fetched.shards:
            return
        self.trace.mark("data_preloaded", shards=fetched.shards, preloaded_bytes=fetched.bytes)
        if self.rank_info.rank == 0:
            size = f"{fetched.bytes / 1e6:.0f} MB"
            say(f"{fetched.shards} shards of the data were fetched in advance ({size})")

    def checkpoints_in(self, place: str) -> Checkpoints:
        """Return the checkpoints in a place, as this process would read and write them."""
        return Checkpoints(
            place,
            keep=self.keep,
            attempt=self.attempt(),
            shard=self.rank_info.shard,
            shards=self.rank_info.shards,
            stages=self.rank_info.stages,
        )

    def attempt(self) -> str:
        """Return a token that all ranks of this world share, and no earlier ones had."""
        if self.rank_info.elastic:
            return hashlib.blake2b(self.rank_info.secret.encode(), digest_size=8).hexdigest()
        # Outside spotrun a start has no number, so the ranks draw one.
        return self.group.text_from(0, secrets.token_hex(8), device=self.device)

    def answer(self) -> wire.Answer | None:
        """Return the operator's last answer; None outside spotrun."""
        return self.world_file.read() if self.world_file is not None else None

    def world(self) -> wire.World | None:
        """Return the newest world that the agent knows of; None outside spotrun."""
        answer = self.answer()
        return answer.world if answer is not None else None

    def acknowledged(self) -> str | None:
        """Return the checkpoint that a world would begin with now; older ones may be deleted."""
        answer = self.answer()
        return answer.acknowledged if answer is not None else None

    def orders(self) -> int:
        """Return the number of checkpoints that were ordered so far."""
        answer = self.answer()
        return answer.orders.checkpoint if answer is not None else 0

    def wanted_profile(self) -> wire.Profile | None:
        """Return the newest order to profile."""
        answer = self.answer()
        return answer.orders.profile if answer is not None else None

    def kept_beside(self, name: str, content: bytes) -> str:
        """Keep a file beside the checkpoints, and return where it lies."""
        assert self.place is not None, "there is a place"
        storage = open_storage(self.place)
        storage.note(name).replace(content)
        return f"{storage.where()}/{name}"

    def stops(self) -> int:
        """Return how many stages the operator wants ended; without stages 1 ends the training."""
        answer = self.answer()
        return answer.orders.stop if answer is not None else 0

    def check_world(self) -> None:
        """Raise PeerLostError if there is a newer world than this one, formed or not."""
        if is_newer(self.world(), self.rank_info.world_number):
            raise PeerLostError(f"there is a newer world than {self.rank_info.world_number}")

    def leave(self, sentence: str) -> NoReturn:
        """End this process on purpose, and log a sentence."""
        say(sentence)
        self.reporter.update(exiting=self.interrupt.reason() or "departed")
        self.close()
        if self._group is not None:
            self._group.close()
            self._group = None
        # torchrun takes any other code for a failure; under spotrun the agent knows the reason.
        raise SystemExit(0 if self.rank_info.elastic else _TERMINATED)

    def leave_world(self, error: Exception | None) -> None:
        """Drop the group, so that processes waiting in it notice; None: all leave it together.

        Outside spotrun the error is raised: torchrun restarts all processes, if it is set up to.
        """
        if not self.rank_info.elastic:
            assert error is not None, "only an operator changes worlds"
            raise error
        world_number = self.rank_info.world_number
        if error is not None:
            say(f"world {world_number} broke ({error}); waiting for the next world")
            self.trace.mark("broken", world_number=world_number)
        group, self._group = self._group, None
        if self.replica is not None:
            self.replica.enter(None)
        if group is not None:
            is_break = error is not None and not isinstance(error, LeftError)
            if is_break or (error and not group.is_nccl):
                group.cut()
            if is_break and group.is_nccl and self.continues_over_nccl:
                group.begin_end(self.device)
                self._broken = group
            else:
                # Work that NCCL has in its queue may never end: only a new process can continue.
                self.is_left_to_the_agent |= group.is_nccl and is_break
                group.close()
        self.reporter.update(broken=world_number, in_process=not self.is_left_to_the_agent)

    def wait_for_world(
        self, after: int, error: Exception | None, meanwhile: Callable[[], None]
    ) -> None:
        """Wait for a world newer than `after` that has a rank for this process, and enter it.

        If the operator wants a restart instead, or this process can enter no world any more, the
        agent ends it here.
        """
        seconds = float(self.env.get("SPOTRUN_BROKEN_SECONDS", BROKEN_SECONDS))
        until = time.monotonic() + seconds
        while True:
            world = self.world()
            can_enter = not self.is_left_to_the_agent and can_be_entered(world, after)
            if world is not None and can_enter:
                self.rank_info = rank_info_in(world, self.rank_info)
                self.console_log.is_printed = self.rank_info.rank == 0
                return
            if world is None or world.number > after:
                until = time.monotonic() + seconds  # the operator is at work on a next world
            if time.monotonic() > until:
                raise TimeoutError(
                    f"world {after} broke, and the operator made no next world within "
                    f"{seconds:.0f} s (SPOTRUN_BROKEN_SECONDS): look at the operator's log, and at "
                    "the job's conditions"
                ) from error
            meanwhile()
            time.sleep(_LOOK_SECONDS)

    def _meet(self) -> Group:
        """Form the group; raises PeerLostError if this world does not come together."""
        world_number, connections = self.rank_info.world_number, None
        if self.rank_info.elastic and self.rank_info.directory is not None:
            # Told before others rely on this process: if it dies after this, it cannot join again.
            self.reporter.update(entering=world_number)
            self._watch = self._watch or Watch(self.rank_info.directory)
            connections = self._watch.meets(world_number)
        with self.meter.span("wait"):
            if self._broken is not None:  # the others wait where they meet
                self._broken.end(self.check_world)
                self._broken = None
            group = Group.form(
                self.rank_info, device=self.device, look=self.check_world, connections=connections
            )
        if self._watch is not None:
            self._watch.formed()
        if self.replica is not None:
            self.replica.enter(group.replica)
        self.trace.mark("group", world_number=world_number)
        return group

    def report_arrival(self, **progress: int | None) -> None:
        """Report that this process trains in its world and has the state.

        Not before: a process reported to have it may become the only source for others.
        """
        self.meter.enter_world()  # first: measurements belong to the reported world
        world = self.rank_info.world_number
        needs_boundary = self.group.is_nccl and not self.continues_over_nccl
        known = {"ready": True, "in_process": True, "needs_boundary": needs_boundary}
        self.reporter.update(world_number=world, **known, **progress)

    def close(self) -> None:
        """End the loop: print what was logged, and restore the program's signal handlers.

        The group stays: the script may evaluate once more.
        """
        self.console_log.close()
        self.interrupt.unlisten()
        self.reporter.close()


def open_context(
    seed: int,
    *,
    deterministic: bool,
    place: str | None,
    keep: int,
    device: torch.device | str | None,
    shards: int = 1,
    parallel: Parallel | None = None,
    env: Mapping[str, str] = os.environ,
) -> Context:
    """Make the context from the environment, and seed the process."""
    directory = env.get("SPOTRUN_DIR") if "SPOTRUN_WORLD_NUMBER" in env else None
    world_file = WorldFile(directory) if directory else None
    rank_info = with_shards(_find_rank_info(env, world_file), shards, parallel)
    if rank_info.elastic:
        wait_shortly(os.environ)
    device = torch.device(device) if device else default_device(rank_info.local_rank)
    trace = open_trace(env)
    trace.mark("imported")
    meter = Meter(trace, device=device_time(device))
    store_meter = open_store_meter(place, env)
    console_log = ConsoleLog(is_printed=rank_info.rank == 0, recorder=recorder_of(env, place, say))
    usage = open_utilization_report(meter, env)
    reporter = Reporter(
        rank_info.directory,
        local_rank=rank_info.local_rank,
        local_size=rank_info.local_size,
        measured=lambda: {**usage(), "metrics": console_log.metrics()},
        store=store_meter.use_in if store_meter is not None else None,
    )
    install_failure_note(reporter)
    if place is not None:
        open_storage(place)  # raises before a model is made, and before peers are met
    _set_up_torch(device, deterministic=deterministic)
    seed_all(seed, 0)
    replica = mesh = None
    if rank_info.shards > 1:
        replica = ReplicaGroup.make_default(
            rank_info.shard, rank_info.shards, raises_later=parallel is not None
        )
        mesh = make_mesh(device, parallel) if parallel else None
    context = Context(
        rank_info=rank_info,
        seed=seed,
        deterministic=deterministic,
        device=device,
        continues_over_nccl=nccl.outlives_a_break(env, shards),
        world_file=world_file,
        interrupt=_interrupt(env, world_file),
        meter=meter,
        trace=trace,
        reporter=reporter,
        store_meter=store_meter,
        console_log=console_log,
        place=place,
        keep=keep,
        begins_from=env.get("SPOTRUN_CHECKPOINT_FROM", "") if place is not None else "",
        tracked=Tracked(mesh),
        replica=replica,
        mesh=mesh,
    )
    context.preload()
    return context


def _set_up_torch(device: torch.device, *, deterministic: bool) -> None:
    if device.type == "cuda":
        torch.cuda.set_device(device)
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # else cuBLAS refuses
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False


def _interrupt(env: Mapping[str, str], world_file: WorldFile | None) -> Interrupt:
    def stop_at() -> float | None:
        answer = world_file.read() if world_file is not None else None
        return answer.stop_at if answer is not None else None

    return Interrupt(float(env.get("SPOTRUN_GRACE_SECONDS", GRACE_SECONDS)), stop_at=stop_at)


def _find_rank_info(env: Mapping[str, str], world_file: WorldFile | None) -> RankInfo:
    try:
        return find_rank_info(env, world_file.read() if world_file is not None else None)
    except OutdatedWorldError as error:
        say(f"{error}; waiting to be started again")
        time.sleep(BROKEN_SECONDS)
        raise
