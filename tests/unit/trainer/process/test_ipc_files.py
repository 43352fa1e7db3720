import json
import logging
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun.wire import Answer, StoreUse, Utilization
from spotrun_trainer.process.ipc_files import (
    ProgressFile,
    WorldFile,
    read_progress,
    write_progress,
    write_world,
)
from spotrun_trainer.process.progress_report import TrainerProgress
from tests.unit.trainer.agent.builders import a_world, an_answer

EVERYTHING = TrainerProgress(
    world_number=3,
    ready=True,
    in_process=True,
    broken=2,
    step=120,
    total=1000,
    samples=960,
    step_seconds=0.25,
    compute=0.5,
    data=0.25,
    communicate=0.25,
    microbatches=64,
    sync_bytes=4_000_000,
    epoch_samples=50_000,
    flops=9e11,
    link_bytes=1e9,
    checkpoint_seconds=1.5,
    checkpoint="step-100.g2",
    restored="step-90.g4",
    store=StoreUse(5, 4, 3, 2, stored_bytes=1, checkpoints=0, region="eu-west-1"),
    save_failure="the bucket does not exist",
    completed=True,
    utilization=Utilization(gpu=0.5, memory=0.25),
    failure="ValueError: no",
    exiting="preempted",
)


def test_a_trainer_may_tell_nothing(tmp_path: Path) -> None:
    assert read_progress(tmp_path) == TrainerProgress()


def test_a_program_of_an_earlier_release_reports_the_world_under_its_old_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "progress.json").write_text('{"generation": 3, "step": 120}')

    assert read_progress(tmp_path) == TrainerProgress(world_number=3, step=120)


@pytest.mark.parametrize("progress", [TrainerProgress(), EVERYTHING])
def test_what_is_told_is_read(tmp_path: Path, progress: TrainerProgress) -> None:
    write_progress(tmp_path, progress)

    assert read_progress(tmp_path) == progress
    assert [file.name for file in tmp_path.iterdir()] == ["progress.json"]


SHARES = st.none() | st.floats(0, 1)


@given(
    st.builds(
        TrainerProgress,
        world_number=st.integers(0, 2**53 - 1),
        step=st.integers(0, 2**53 - 1),
        total=st.none() | st.integers(0, 2**53 - 1),
        step_seconds=st.none() | st.floats(0, 86_400),
        compute=SHARES,
        microbatches=st.none() | st.integers(0, 2**53 - 1),
        utilization=st.builds(Utilization, gpu=SHARES, cpu=SHARES, memory=SHARES),
        failure=st.none() | st.text(max_size=100),
        exiting=st.sampled_from([None, "departed", "preempted"]),
    )
)
def test_whatever_is_told_is_read(
    tmp_path_factory: pytest.TempPathFactory, told: TrainerProgress
) -> None:
    folder = tmp_path_factory.mktemp("dir")
    write_progress(folder, told)

    assert read_progress(folder) == told


def test_a_shell_can_tell(tmp_path: Path) -> None:
    line = '{"worldNumber": 3, "stepSeconds": 0.5, "inProcess": true, "later": "unknown"}\n'
    (tmp_path / "progress.json").write_text(line)

    assert read_progress(tmp_path) == TrainerProgress(
        world_number=3, step_seconds=0.5, in_process=True
    )


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("{", "Expecting property name"),
        ("[]", "it is not a JSON object"),
        ({"step": "ten"}, "step is a whole number from 0 on, not 'ten'"),
        ({"step": -1}, "step is a whole number from 0 on, not -1"),
        ({"step": True}, "step is a whole number from 0 on, not True"),
        ({"stepSeconds": float("nan")}, "stepSeconds is a number from 0 to 86400, not nan"),
        ({"ready": 1}, "ready is true or false, not 1"),
        ({"checkpoint": "latest"}, "checkpoint is called step-N.gG, not 'latest'"),
        ({"failure": 3}, "failure is a text, not 3"),
        ({"exiting": "now"}, "exiting is departed or preempted, not 'now'"),
        ({"communicate": 1.5}, "communicate is a number from 0 to 1, not 1.5"),
        ({"store": {"gets": "many"}}, "gets is a whole number from 0"),
        ({"saveFailure": 3}, "saveFailure is a text, not 3"),
        ({"checkpointSeconds": -1}, "checkpointSeconds is a number from 0 to 1e+09, not -1"),
        ({"microbatches": 0.5}, "microbatches is a whole number from 0 on, not 0.5"),
        ({"utilization": {"gpu": 7}}, "gpu is a number from 0 to 1, not 7"),
        ({"utilization": "high"}, "utilization is an object, not 'high'"),
        ("x" * 70_000, "it has more than 65536 bytes"),
    ],
)
def test_what_is_not_understood_counts_for_nothing_and_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: Any, complaint: str
) -> None:
    file = ProgressFile(tmp_path)
    for _ in range(3):
        text = content if isinstance(content, str) else json.dumps(content)
        (tmp_path / "progress.json").write_text(text)
        assert file.read() == TrainerProgress()

    (said,) = caplog.messages
    assert complaint in said


def test_of_a_long_traceback_the_end_is_kept(tmp_path: Path) -> None:
    write_progress(tmp_path, TrainerProgress(failure="x" * 10_000 + "ValueError: the reason"))

    failure = read_progress(tmp_path).failure
    assert failure is not None
    assert (len(failure), failure[-22:]) == (4_096, "ValueError: the reason")


def test_the_answer_is_handed_on_as_it_came(tmp_path: Path) -> None:
    answer = an_answer(a_world(3, restore="step-5.g2"), stop_at=1e9)
    file = WorldFile(tmp_path)

    assert file.read() is None
    write_world(tmp_path, answer)
    assert file.read() == answer


def test_a_file_that_has_not_changed_is_not_read_again(tmp_path: Path) -> None:
    file = WorldFile(tmp_path)
    write_world(tmp_path, an_answer(a_world(1)))
    first = file.read()

    assert file.read() is first
    write_world(tmp_path, an_answer(a_world(2)))
    assert file.read() == an_answer(a_world(2))


def test_a_reader_sees_whole_files_only(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    steps, seen = 300, set[int]()

    def write() -> None:
        for step in range(1, steps + 1):
            write_progress(tmp_path, replace(EVERYTHING, step=step, samples=step))

    writer = threading.Thread(target=write)
    writer.start()
    file = ProgressFile(tmp_path)
    while writer.is_alive():
        told = file.read()
        assert told.step == told.samples
        seen.add(told.step)
    writer.join()

    assert file.read().step == steps
    assert caplog.messages == []


def test_a_world_that_is_none_is_handed_on_too(tmp_path: Path) -> None:
    answer = Answer(version="v", phase="Recovering")
    write_world(tmp_path, answer)

    assert WorldFile(tmp_path).read() == answer
