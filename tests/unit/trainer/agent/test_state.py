"""What time alone tells: a group that stays broken, and stopAt."""

from dataclasses import replace
from pathlib import Path

import pytest

from spotrun.wire import FAULTY_DEVICE, Answer, Failure, How, LastWords, Progress, Utilization
from spotrun_trainer.agent.next_action import HANGS_SECONDS, must_stop, next_world
from spotrun_trainer.agent.state import (
    ARRIVED_SECONDS,
    BROKEN_SECONDS,
    UNEXPLAINED_SECONDS,
    State,
)
from spotrun_trainer.agent.stores import Stores
from spotrun_trainer.process.ipc_files import WorldFile, write_progress
from spotrun_trainer.process.progress_report import TrainerProgress
from spotrun_trainer.telemetry.gpu.gpu_watch import GpuWatch
from spotrun_trainer.telemetry.gpu.standstill import STANDS_SECONDS
from tests.unit.trainer.agent.builders import a_world, an_answer, settings


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ended() -> list[str]:
    return []


@pytest.fixture
def gpus() -> GpuWatch:
    return GpuWatch()


@pytest.fixture
def state(tmp_path: Path, clock: Clock, ended: list[str], gpus: GpuWatch) -> State:
    chosen = settings(tmp_path)
    chosen.directory.mkdir()
    return State(
        chosen,
        Stores(chosen.address),
        clock=clock,
        wall=clock,
        terminate=lambda: ended.append("SIGTERM"),
        gpus=gpus,
    )


def enter(state: State, world_number: int) -> None:
    state.take(an_answer(a_world(world_number)))
    with state.news:
        state.enter(a_world(world_number))


def test_a_broken_group_is_no_failure_as_long_as_somebody_may_be_missed(
    state: State, clock: Clock, tmp_path: Path
) -> None:
    enter(state, 1)
    write_progress(tmp_path / "run", TrainerProgress(world_number=1, broken=1))
    state.look()
    clock.now += BROKEN_SECONDS
    state.look()
    assert state.report().failed is None
    clock.now += 1
    state.look()

    message = "the workers lost their connections, but none of the workers is missing"
    assert state.report().failed == Failure(1, 1, message)


def test_a_broken_group_is_told_where_no_other_world_explains_it(
    state: State, clock: Clock, tmp_path: Path
) -> None:
    enter(state, 1)
    write_progress(tmp_path / "run", TrainerProgress(world_number=1, broken=1, in_process=True))
    state.look()
    assert state.report().broken == 0
    clock.now += UNEXPLAINED_SECONDS
    state.look()
    assert state.report().broken == 1
    state.take(an_answer(a_world(2)))
    state.look()
    assert state.report().broken == 0


def test_a_broken_group_is_told_also_while_the_next_world_waits_for_joining_workers(
    state: State, clock: Clock, tmp_path: Path
) -> None:
    enter(state, 1)
    state.take(an_answer(a_world(2, switch=False)))
    write_progress(tmp_path / "run", TrainerProgress(world_number=1, broken=1, in_process=True))
    state.look()
    clock.now += UNEXPLAINED_SECONDS
    state.look()
    assert state.report().broken == 1


def test_neighbours_in_the_next_world_are_listened_to_from_when_it_is_met(
    state: State, tmp_path: Path
) -> None:
    """Not only from when it has formed: who is lost before that is waited for there."""
    enter(state, 1)
    state.take(an_answer(a_world(2, how=How.ABORT)))
    write_progress(
        tmp_path / "run", TrainerProgress(world_number=1, entering=2, broken=1, in_process=True)
    )
    state.look()
    assert state.entered == a_world(2, how=How.ABORT)
    assert state.report().broken == 0


def test_a_group_that_another_world_replaces_was_not_broken(
    state: State, clock: Clock, tmp_path: Path
) -> None:
    enter(state, 1)
    write_progress(tmp_path / "run", TrainerProgress(world_number=1, broken=1))
    state.look()
    clock.now += BROKEN_SECONDS - 1
    enter(state, 2)
    clock.now += 2
    state.look()

    assert state.report().failed is None


def test_past_stop_at_the_worker_saves_and_leaves_once(
    state: State, clock: Clock, ended: list[str]
) -> None:
    state.take(an_answer(a_world(1), stop_at=clock.now + 10))
    state.look()
    assert ended == []
    clock.now += 11
    state.look()
    state.look()

    assert ended == ["SIGTERM"]
    assert state.known(0.0).is_out_of_time


@pytest.mark.parametrize("jump", [3600, -3600])
def test_a_clock_that_jumps_does_not_move_stop_at(
    tmp_path: Path, clock: Clock, ended: list[str], jump: float
) -> None:
    wall, chosen = Clock(), settings(tmp_path)
    chosen.directory.mkdir()
    stores = Stores(chosen.address)
    state = State(chosen, stores, clock=clock, wall=wall, terminate=lambda: ended.append("SIGTERM"))
    state.take(an_answer(a_world(1), stop_at=wall.now + 10))
    wall.now += jump
    clock.now += 9
    state.look()
    assert ended == []
    clock.now += 2
    state.look()
    assert ended == ["SIGTERM"]


def test_every_answer_puts_stop_at_off(state: State, clock: Clock, ended: list[str]) -> None:
    state.take(an_answer(a_world(1), stop_at=clock.now + 10))
    clock.now += 9
    state.take(an_answer(a_world(1), stop_at=clock.now + 10))
    clock.now += 9
    state.look()

    assert ended == []


def test_the_time_without_a_place_counts_from_the_first_word_of_it(
    state: State, clock: Clock
) -> None:
    enter(state, 1)
    state.take(an_answer())
    clock.now += 3
    state.take(an_answer(phase="Recovering"))
    assert state.known(0.0).placeless_seconds == 3
    state.take(an_answer(a_world(2)))
    assert state.known(0.0).placeless_seconds == 0


def test_the_word_of_a_replica_that_is_behind_counts_for_nothing(
    state: State, tmp_path: Path
) -> None:
    newest = an_answer(a_world(5))
    state.take(newest)
    state.take(an_answer(a_world(4)))

    assert state.known(0.0).answer == newest
    assert WorldFile(tmp_path / "run").read() == newest


@pytest.mark.parametrize(
    "answer",
    [an_answer(a_world(5)), an_answer(a_world(4)), an_answer(a_world(6))],
    ids=["the same", "an older one", "a newer one"],
)
def test_an_answer_takes_back_that_the_job_was_deleted(state: State, answer: Answer) -> None:
    state.take(an_answer(a_world(5)))
    state.job_is_gone()
    assert isinstance(next_world(state.known(0.0)), LastWords)

    state.take(answer)

    assert not isinstance(next_world(state.known(0.0)), LastWords)


def test_that_there_was_no_place_yet_is_forgotten_once_there_is_one(state: State) -> None:
    """The answer to a report may be read after that to a poll, which was made later."""
    newest = an_answer(a_world(5, switch=False))
    assert state.take(newest)

    assert not state.take(an_answer(world_number=4))
    assert state.known(0.0).answer == newest
    assert state.take(an_answer(world_number=5))
    assert state.take(an_answer(phase="Recovering"))


def test_what_follows_from_another_world_is_no_failure(state: State) -> None:
    enter(state, 1)
    state.take(an_answer(a_world(2, switch=False)))
    state.fail(1, "it fails while the others train")
    assert state.report().failed == Failure(1, 1, "it fails while the others train")
    enter(state, 2)
    state.take(an_answer(a_world(3)))
    state.fail(1, "Connection closed by peer")
    assert state.report().failed is None


def test_neighbours_may_get_their_addresses_later(state: State) -> None:
    enter(state, 2)
    later = a_world(2, neighbours=("10.0.0.1",))
    state.take(an_answer(later))
    assert state.entered == later


def test_suspects_of_another_world_are_not_reported(state: State) -> None:
    enter(state, 2)
    state.suspect(1, (1,))
    assert state.report().suspects == ()
    state.suspect(2, (1,))
    assert state.report().suspects == (1,)
    enter(state, 3)
    assert state.report().suspects == ()


def test_a_world_that_nobody_has_heard_of_is_not_believed(state: State, tmp_path: Path) -> None:
    enter(state, 2)
    write_progress(tmp_path / "run", TrainerProgress(world_number=1_000_000))
    state.look()

    assert state.report().arrived == 2
    assert state.known(0.0).entered == 2


def test_a_trainer_has_arrived_when_it_says_so(state: State, tmp_path: Path) -> None:
    enter(state, 2)
    state.look()
    assert state.report().arrived == 0
    write_progress(tmp_path / "run", TrainerProgress(world_number=2))
    state.look()
    assert state.report().arrived == 2
    enter(state, 3)
    state.look()
    assert state.report().arrived == 2


def test_what_the_trainer_measures_is_reported(state: State, tmp_path: Path) -> None:
    enter(state, 2)
    measured = {
        "step_seconds": 0.5,
        "compute": 0.75,
        "data": 0.25,
        "communicate": 0.0,
        "microbatches": 64,
        "sync_bytes": 4_000_000,
        "epoch_samples": 50_000,
        "flops": 9e11,
        "link_bytes": 1e9,
        "checkpoint_seconds": 1.5,
        "restored": "step-5.g9",
    }
    told = TrainerProgress(world_number=2, step=7, samples=56, **measured)  # type: ignore[arg-type]
    write_progress(tmp_path / "run", told)
    state.look()
    assert state.report().progress == Progress(2, 7, samples=56, **measured)  # type: ignore[arg-type]


def test_a_script_that_says_nothing_has_arrived_after_a_while(state: State, clock: Clock) -> None:
    enter(state, 2)
    clock.now += ARRIVED_SECONDS
    state.look()
    assert state.report().arrived == 0
    clock.now += 1
    state.look()
    assert state.report().arrived == 2


def test_a_script_that_is_done_has_arrived(state: State) -> None:
    enter(state, 2)
    state.complete()
    state.look()
    assert (state.report().arrived, state.report().completed) == (2, True)


def test_it_says_that_it_was_told_to_end(state: State) -> None:
    enter(state, 2)
    assert not state.report().leaving
    state.leave()
    assert state.report().leaving


def test_a_trainer_that_goes_over_by_itself_is_in_the_newer_world(
    state: State, tmp_path: Path
) -> None:
    enter(state, 2)
    state.take(an_answer(a_world(3)))
    write_progress(tmp_path / "run", TrainerProgress(world_number=3, in_process=True))
    state.look()

    assert (state.report().arrived, state.known(0.0).entered) == (3, 3)
    assert state.entered is not None
    assert state.entered.number == 3


def test_who_went_to_meet_a_world_comes_to_it_no_second_time(state: State, tmp_path: Path) -> None:
    enter(state, 2)
    state.take(an_answer(a_world(3)))
    write_progress(tmp_path / "run", TrainerProgress(world_number=2, entering=3, in_process=True))
    state.look()
    assert (state.report().arrived, state.known(0.0).entered) == (3, 3)
    state.fail(1, "boom")
    assert state.report().failed == Failure(3, 1, "boom")


def test_what_a_process_said_that_has_failed_is_not_true_of_the_next(
    state: State, tmp_path: Path
) -> None:
    enter(state, 2)
    write_progress(tmp_path / "run", TrainerProgress(world_number=2, ready=True, in_process=True))
    state.look()
    assert (state.report().ready, state.report().in_process) == (True, True)
    state.fail(1, "boom")
    assert (state.report().ready, state.report().in_process) == (False, False)
    with state.news:
        state.wait()
    assert (state.report().ready, state.report().in_process) == (True, False)


def test_a_joining_worker_has_not_arrived_before_its_world_is_entered(
    state: State, clock: Clock
) -> None:
    with state.news:
        state.take(an_answer(a_world(2, switch=False, how=How.BOUNDARY)))
        state.enter(a_world(2, switch=False, how=How.BOUNDARY))
    clock.now += 60
    state.look()
    assert state.report().arrived == 0
    state.take(an_answer(a_world(2, how=How.BOUNDARY)))
    state.look()
    assert state.report().arrived == 0


def leave_out(state: State, folder: Path, *, broken: tuple[int, int]) -> None:
    """Others go on without a worker of two processes, which have left these worlds."""
    enter(state, 1)
    known = TrainerProgress(world_number=1, ready=True, in_process=True, processes=2)
    for rank, left in enumerate(broken):
        write_progress(folder / "run", replace(known, broken=left), rank)
    state.take(an_answer(world_number=2, left_out=True))
    state.look()


@pytest.mark.parametrize("broken", [(0, 0), (1, 0), (0, 1)])
def test_a_process_that_does_not_let_go_of_its_world_is_not_ready_and_is_ended(
    state: State, clock: Clock, tmp_path: Path, broken: tuple[int, int]
) -> None:
    leave_out(state, tmp_path, broken=broken)
    assert not state.report().ready
    clock.now += HANGS_SECONDS
    assert not must_stop(state.known(0.0))
    clock.now += 1
    assert must_stop(state.known(0.0))


def test_a_process_that_lets_go_is_warm_for_the_next_world(
    state: State, clock: Clock, tmp_path: Path
) -> None:
    leave_out(state, tmp_path, broken=(1, 1))
    assert state.report().ready
    clock.now += 2 * HANGS_SECONDS
    state.look()
    assert not must_stop(state.known(0.0))


def test_a_process_that_was_started_anew_does_not_cling_to_the_old_world(
    state: State, clock: Clock, tmp_path: Path
) -> None:
    leave_out(state, tmp_path, broken=(0, 0))
    clock.now += HANGS_SECONDS + 1
    prepared = a_world(3, how=How.BOUNDARY, switch=False)
    state.take(an_answer(prepared, left_out=True))
    with state.news:
        state.enter(prepared)
    write_progress(tmp_path / "run", TrainerProgress(ready=True, in_process=True))
    state.look()
    assert state.report().ready
    assert not must_stop(state.known(0.0))


@pytest.mark.parametrize(
    ("said", "saves"),
    [
        (TrainerProgress(), False),
        (TrainerProgress(world_number=1, step=7), False),
        (TrainerProgress(world_number=1, in_process=True), True),
        (TrainerProgress(world_number=1, checkpoint="step-7.g1"), True),
        (TrainerProgress(saves_on_order=True), True),
    ],
)
def test_steps_alone_do_not_say_that_a_script_saves_when_ordered(
    state: State, tmp_path: Path, said: TrainerProgress, *, saves: bool
) -> None:
    enter(state, 1)
    write_progress(tmp_path / "run", said)
    assert state.report().saves_on_order is saves


def test_what_saved_once_when_ordered_does_so_after_a_restart(state: State, tmp_path: Path) -> None:
    enter(state, 1)
    write_progress(tmp_path / "run", TrainerProgress(world_number=1, in_process=True))
    assert state.report().saves_on_order
    enter(state, 2)
    assert state.report().saves_on_order


FAULT = f"GPU-1: {FAULTY_DEVICE}: Xid 79, it has fallen off the bus"
PEER = "gloo: Connection closed by peer"


@pytest.mark.parametrize(
    ("fault", "said", "message", "follows"),
    [
        ("", PEER, PEER, True),
        (FAULT, PEER, f"{FAULT}; {PEER}", False),  # its own device is the cause
        (FAULT, "CUDA error: unknown error", f"{FAULT}; CUDA error: unknown error", False),
    ],
)
def test_a_fault_of_the_gpu_is_the_cause_of_a_failure(
    state: State, gpus: GpuWatch, fault: str, said: str, message: str, *, follows: bool
) -> None:
    enter(state, 1)
    gpus._note(fault)
    state.fail(1, said)
    assert state.report().failed == Failure(1, 1, message, follows)


def test_a_process_that_waits_for_a_faulty_gpu_has_failed(
    state: State, gpus: GpuWatch, clock: Clock, tmp_path: Path
) -> None:
    enter(state, 1)
    for step, fault, failed in ((7, "", False), (8, FAULT, False), (8, FAULT, True)):
        gpus._note(fault)
        write_progress(
            tmp_path / "run", TrainerProgress(world_number=1, step=step, in_process=True)
        )
        state.look()
        clock.now += STANDS_SECONDS + 1
        assert (state.report().failed is not None) is failed
    told = state.report().failed
    assert told is not None
    assert told.is_of_device
    assert told.message.endswith("; its processes make no steps any more")


def test_a_low_clock_is_reported(state: State, gpus: GpuWatch) -> None:
    assert state.report().low_clock is None
    gpus.low_clock = "GPU-1: it is too hot"
    assert state.report().low_clock == "GPU-1: it is too hot"


def test_the_use_of_gpus_is_reported_where_a_script_reports_no_steps(
    state: State, gpus: GpuWatch, tmp_path: Path
) -> None:
    enter(state, 1)
    gpus.busy = 0.02
    assert state.report().utilization == Utilization(gpu=0.02)
    told = TrainerProgress(world_number=1, step=1, utilization=Utilization(cpu=0.5))
    write_progress(tmp_path / "run", told)
    assert state.report().utilization == Utilization(cpu=0.5)
