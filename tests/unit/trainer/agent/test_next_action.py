"""What a worker does next, as tables."""

from dataclasses import replace
from typing import Any

import pytest

from spotrun.wire import Ending, How, LastWords, Stage, World
from spotrun_trainer.agent.next_action import (
    Known,
    batch_words,
    end_by_signal,
    has_succeeded,
    is_called_back,
    is_left_behind,
    is_urgent,
    may_save,
    must_stop,
    next_world,
    place,
    waits_for_next_stage,
    workers,
)
from spotrun_trainer.process.progress_report import TrainerProgress
from tests.unit.trainer.agent.builders import a_world, an_answer

FAR = TrainerProgress(world_number=4, step=120, checkpoint="step-100.g4")
# It is left out, or its world broke.
WARM = TrainerProgress(world_number=4, broken=4, ready=True, in_process=True)
NEW = TrainerProgress(ready=True, in_process=True)


def known(
    world: World | None = None, *, phase: str = "Running", planned: bool = True, **changes: Any
) -> Known:
    return Known(answer=an_answer(world, phase=phase, planned=planned), **changes)


@pytest.mark.parametrize(
    "situation",
    [
        pytest.param(Known(answer=None), id="no word yet"),
        pytest.param(known(), id="a spare, or not needed yet"),
        pytest.param(known(placeless_seconds=100), id="a spare for long"),
        pytest.param(known(a_world(5, switch=False), entered=4), id="the others still train"),
        pytest.param(known(a_world(5, store=None), entered=4), id="no store yet"),
        pytest.param(known(a_world(4), entered=4), id="its processes failed in this very world"),
        pytest.param(known(a_world(3), entered=4), id="older than where it was"),
        pytest.param(known(a_world(5, processes=0, rank=2)), id="it is leaving"),
        pytest.param(known(away_seconds=3599), id="the operator is away"),
        pytest.param(known(phase="Suspended"), id="suspended: it will be told to end"),
    ],
)
def test_a_worker_waits(situation: Known) -> None:
    assert next_world(situation) is None


def test_a_joining_worker_gets_warm_while_the_others_train() -> None:
    prepared = a_world(5, how=How.BOUNDARY, switch=False)
    assert next_world(known(prepared, entered=4)) == prepared


@pytest.mark.parametrize("how", How)
def test_a_worker_without_processes_enters_any_newer_world(how: How) -> None:
    world = a_world(5, how=how)
    assert next_world(known(world, entered=4)) == world


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        (
            known(phase="Succeeded", progress=FAR),
            LastWords(Ending.DEPARTED, 120, "step-100.g4", None, "the job has succeeded"),
        ),
        (known(phase="Failed"), LastWords(Ending.DEPARTED, message="the job has failed")),
        (
            known(a_world(5), job_is_gone=True),
            LastWords(Ending.DEPARTED, message="the job was deleted"),
        ),
        (
            known(a_world(5), progress=TrainerProgress(exiting="preempted", step=7)),
            LastWords(Ending.PREEMPTED, 7),
        ),
    ],
)
def test_a_worker_that_is_not_needed_ends(situation: Known, expected: LastWords) -> None:
    assert next_world(situation) == expected


def test_a_worker_gives_up_when_nobody_answers_for_long() -> None:
    words = next_world(Known(answer=None, away_seconds=3601, give_up_seconds=3600))
    assert isinstance(words, LastWords)
    assert (words.reason, words.exit_code) == (Ending.FAILED, 1)
    assert "no answer from the operator for 3601 s" in words.message


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(Known(answer=None, entered=4), False, id="no word"),
        pytest.param(known(a_world(4), entered=4), False, id="the world it is in"),
        pytest.param(known(a_world(5), entered=4), True, id="a newer one"),
        pytest.param(known(a_world(5, store=None), entered=4), True, id="that has no store yet"),
        pytest.param(known(a_world(5, switch=False), entered=4), False, id="that is prepared"),
        pytest.param(
            known(a_world(5, switch=False, processes=0), entered=4), False, id="that it is not in"
        ),
        pytest.param(
            known(a_world(5, how=How.ABORT), entered=4), True, id="a plain script knows no abort"
        ),
        pytest.param(
            known(
                a_world(5, how=How.BOUNDARY), entered=4, progress=TrainerProgress(in_process=True)
            ),
            False,
            id="a trainer that goes over by itself",
        ),
        pytest.param(
            known(a_world(5), entered=4, progress=TrainerProgress(in_process=True)),
            True,
            id="but not if all are to start again",
        ),
        pytest.param(known(entered=4), False, id="told of no place, just now"),
        pytest.param(known(entered=4, placeless_seconds=2.1), True, id="left out"),
        pytest.param(
            known(entered=4, phase="Recovering", placeless_seconds=2.1), True, id="too few are left"
        ),
        pytest.param(
            known(entered=4, placeless_seconds=99, progress=TrainerProgress(in_process=True)),
            False,
            id="left out, and warm for the next world",
        ),
        pytest.param(
            known(entered=4, clinging_seconds=9.9, progress=TrainerProgress(in_process=True)),
            False,
            id="left out, and may be in a long microbatch",
        ),
        pytest.param(
            known(entered=4, clinging_seconds=10.1, progress=TrainerProgress(in_process=True)),
            True,
            id="left out, and hangs",
        ),
        pytest.param(
            known(
                a_world(6, how=How.BOUNDARY, switch=False),
                entered=4,
                clinging_seconds=10.1,
                progress=TrainerProgress(in_process=True),
            ),
            True,
            id="left out, and hangs, and is to be taken in again",
        ),
        pytest.param(
            known(
                entered=4,
                clinging_seconds=50.0,
                progress=TrainerProgress(in_process=True, step_seconds=20),
            ),
            False,
            id="left out, and its steps are long",
        ),
        pytest.param(
            known(entered=4, phase="Succeeded", placeless_seconds=9),
            False,
            id="it succeeded: the processes end by themselves",
        ),
        pytest.param(
            known(entered=4, phase="Suspended", placeless_seconds=9), False, id="SIGTERM will come"
        ),
        pytest.param(
            known(entered=4, phase="Succeeded", progress=WARM),
            True,
            id="it succeeded, and these processes wait for another world",
        ),
        pytest.param(
            known(a_world(5, switch=False), phase="Succeeded", progress=NEW),
            True,
            id="it succeeded before a joining worker came to it",
        ),
        pytest.param(
            known(entered=4, progress=WARM, away_seconds=3601),
            True,
            id="warm, but nobody will tell of another world",
        ),
        pytest.param(
            known(a_world(4), entered=4, progress=replace(WARM, broken=3), away_seconds=3601),
            False,
            id="the operator is away, and they train",
        ),
        pytest.param(
            known(entered=4, phase="Succeeded", progress=replace(WARM, exiting="preempted")),
            False,
            id="they end by themselves already",
        ),
    ],
)
def test_processes_are_stopped(situation: Known, expected: bool) -> None:
    assert must_stop(situation) is expected


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        (Known(answer=None, entered=4), False),
        (known(a_world(4), entered=4), False),
        (known(a_world(5, switch=False), entered=4), False),
        (known(a_world(5, how=How.BOUNDARY), entered=4), True),
        (known(entered=4), False),
        (known(entered=4, placeless_seconds=2.1), True),
        (known(entered=4, phase="Succeeded", placeless_seconds=2.1), False),
        (known(a_world(4), entered=4, away_seconds=3601), True),
    ],
)
def test_who_is_done_may_be_left_behind(situation: Known, expected: bool) -> None:
    assert is_left_behind(situation) is expected


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(known(a_world(4)), Ending.PREEMPTED, id="the operator counts on it"),
        pytest.param(
            known(a_world(4), progress=TrainerProgress(exiting="departed")),
            Ending.DEPARTED,
            id="the trainer knows better",
        ),
        pytest.param(known(), Ending.DEPARTED, id="no place for it"),
        pytest.param(known(a_world(5, processes=0)), Ending.DEPARTED, id="it is leaving"),
        pytest.param(known(a_world(4), phase="Suspended"), Ending.DEPARTED, id="suspended"),
        pytest.param(known(phase="Failed"), Ending.DEPARTED, id="the job has failed"),
        pytest.param(known(a_world(4), job_is_gone=True), Ending.DEPARTED, id="deleted"),
        pytest.param(known(a_world(4), is_out_of_time=True), Ending.DEPARTED, id="stopAt"),
        pytest.param(Known(answer=None), Ending.DEPARTED, id="nobody knows it yet"),
    ],
)
def test_why_a_worker_ends_by_a_signal(situation: Known, expected: Ending) -> None:
    assert end_by_signal(situation).reason is expected


def test_a_place_is_a_workers_and_a_rank_a_process() -> None:
    world = a_world(rank=16, size=32, processes=8)
    assert (place(world), workers(world)) == (2, 4)


def test_success_is_the_operators_word() -> None:
    assert has_succeeded(known(phase="Succeeded"))
    assert not has_succeeded(known())
    assert not has_succeeded(Known(answer=None))


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(known(a_world(5), entered=4), True, id="a world with it"),
        pytest.param(known(a_world(5, switch=False), entered=4), False, id="not yet"),
        pytest.param(known(a_world(4), entered=4), False, id="no other world"),
        pytest.param(known(a_world(5, processes=0), entered=4), False, id="one without it"),
        pytest.param(known(placeless_seconds=9, entered=4), False, id="none"),
    ],
)
def test_processes_that_ended_well_are_wanted_in_another_world_with_their_worker(
    situation: Known, *, expected: bool
) -> None:
    assert is_called_back(situation) is expected


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(known(a_world(5, planned=True)), True, id="a change that was planned"),
        pytest.param(known(a_world(5)), False, id="somebody was lost, and all hang"),
        pytest.param(known(), True, id="the others go on without it, or all leave"),
        pytest.param(known(planned=False), False, id="somebody was lost, and too few are left"),
        pytest.param(known(phase="Recovering", planned=False), False, id="that recover"),
        pytest.param(known(a_world(5, processes=0)), True, id="it leaves"),
        pytest.param(
            known(a_world(5, planned=True), saves_on_order=True), False, id="it has saved already"
        ),
        pytest.param(known(job_is_gone=True), False, id="the job was deleted"),
    ],
)
def test_a_script_that_is_stopped_has_time_to_save_where_nobody_hangs(
    situation: Known, *, expected: bool
) -> None:
    assert may_save(situation) is expected


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        pytest.param(known(planned=False), False, id="a loss among others, who do not wait for it"),
        pytest.param(known(a_world(5, processes=0)), False, id="it leaves"),
        pytest.param(known(a_world(5, planned=True)), False, id="a change that was planned"),
        pytest.param(known(a_world(5)), True, id="a loss, and the others wait for it"),
        pytest.param(known(job_is_gone=True), True, id="the job was deleted"),
    ],
)
def test_a_script_that_saves_is_hurried_only_where_others_wait_for_it(
    situation: Known, *, expected: bool
) -> None:
    assert is_urgent(situation) is expected


@pytest.mark.parametrize(
    ("trained", "size", "rank", "is_said"),
    [
        pytest.param(0, 4, 0, False, id="nothing trained, or under Run"),
        pytest.param(4, 4, 0, False, id="the same size"),
        pytest.param(6, 4, 0, True, id="another size"),
        pytest.param(6, 4, 2, False, id="the first worker says it for all"),
    ],
)
def test_the_log_says_what_another_size_means(
    trained: int, size: int, rank: int, *, is_said: bool
) -> None:
    words = batch_words(replace(a_world(5, rank=rank, size=size), trained=trained))
    assert words.startswith("4 processes train instead of 6: ") is is_said
    assert bool(words) is is_said


SHORT, LONG = Stage("short", 0, is_last=False), Stage("long", 1)
DONE = TrainerProgress(world_number=1, in_process=True, completed=True, checkpoint="step-9.g1")


def in_stage(stage: Stage | None, **changes: Any) -> Known:
    """A worker in world 1 of a stage, which has completed it."""
    given: dict[str, Any] = {"entered": 1, "progress": DONE, "saves_on_order": True, **changes}
    return Known(answer=given.pop("answer"), stage=stage, **given)


@pytest.mark.parametrize(
    ("stage", "next_stage", "is_called", "saves"),
    [
        (SHORT, LONG, True, True),  # what follows the loop comes to its end first
        (SHORT, SHORT, False, False),  # a loss in the same stage
        (None, None, False, False),
        (None, LONG, False, False),
    ],
)
def test_processes_that_completed_a_stage_are_called_into_the_next(
    stage: Stage | None, next_stage: Stage | None, is_called: bool, saves: bool
) -> None:
    world = a_world(2, stage=next_stage, planned=True)
    situation = in_stage(stage, answer=an_answer(world))
    assert is_called_back(situation) is is_called
    assert may_save(situation) is saves


def test_processes_in_the_midst_of_a_stage_have_saved_on_order() -> None:
    training = TrainerProgress(world_number=1, in_process=True)
    world = a_world(2, stage=LONG, planned=True)
    assert not may_save(in_stage(SHORT, answer=an_answer(world), progress=training))


@pytest.mark.parametrize(
    ("stage", "phase", "waits"),
    [
        (SHORT, "Running", True),
        (SHORT, "Succeeded", False),
        (LONG, "Running", False),
        (None, "Running", False),
    ],
)
def test_only_the_last_stage_is_followed_by_none(
    stage: Stage | None, phase: str, waits: bool
) -> None:
    answer = an_answer(a_world(1, stage=stage), phase=phase)
    assert waits_for_next_stage(in_stage(stage, answer=answer)) is waits
