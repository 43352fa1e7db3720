"""Each tracker with its real library, offline: restarts go on, and no step is there twice."""

import json
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from spotrun_trainer.telemetry.trackers import choice
from spotrun_trainer.telemetry.trackers.choice import choose, recorder_of
from spotrun_trainer.telemetry.trackers.jsonl import FILE, JsonLines
from spotrun_trainer.telemetry.trackers.mlflow import MLflow
from spotrun_trainer.telemetry.trackers.recorder import Recorder
from spotrun_trainer.telemetry.trackers.tensorboard import TensorBoard
from spotrun_trainer.telemetry.trackers.tracker import Identity, Tracker
from spotrun_trainer.telemetry.trackers.wandb import WeightsAndBiases

JOB = Identity("7c0e-uid", "gpt", "ml")


def trained(make: Callable[[], Tracker], *steps: int, loss: float) -> None:
    """Record steps as a process does that begins with the first of them."""
    said = list[str]()
    recorder = Recorder(lambda: {"it": make}, said.append)
    for step in steps:
        recorder.record(step, {"loss": loss, "what": "x"})
    recorder.close(60)
    assert said == []


def lines(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / FILE).read_text().splitlines()]


def test_a_file_of_lines_has_each_step_once(tmp_path: Path) -> None:
    def make() -> Tracker:
        return JsonLines(tmp_path / "logs")

    trained(make, 1, 2, 3, 4, loss=1.0)
    with (tmp_path / "logs" / FILE).open("a") as file:
        file.write('{"step": 4, "ti')  # as a full disk leaves it
    trained(make, 3, 4, 5, loss=float("nan"))

    there = lines(tmp_path / "logs")
    assert [(one["step"], one["loss"]) for one in there] == [
        *((1, 1.0), (2, 1.0)),
        *((3, "nan"), (4, "nan"), (5, "nan")),
    ]
    assert there[0]["what"] == "x"
    assert abs(there[0]["time"] - time.time()) < 300


def test_names_of_ours_stay_ours(tmp_path: Path) -> None:
    tracker = JsonLines(tmp_path)
    tracker.begin(7)
    tracker.record(7, 1.5, {"step": 1, "time": 2})
    tracker.close()

    assert lines(tmp_path) == [{"step": 7, "time": 1.5, "step_": 1, "time_": 2}]


def test_a_full_disk_is_one_sentence(tmp_path: Path) -> None:
    said = list[str]()

    class Full(JsonLines):
        def begin(self, step: int) -> None:  # type: ignore[explicit-override]
            self._file = Path("/dev/full").open("a", buffering=1)  # noqa: SIM115 - its own

    recorder = Recorder(lambda: {"jsonl": lambda: Full(tmp_path)}, said.append)
    for step in range(1, 50):
        recorder.record(step, {"loss": 0.5})
    recorder.close()

    assert said == [
        "the tracker jsonl failed, and gets no more values: [Errno 28] No space left on device"
    ]


def test_tensorboard_forgets_what_comes_again(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import (  # noqa: PLC0415 - slow
        EventAccumulator,
    )

    trained(lambda: TensorBoard(tmp_path), 1, 2, 3, 4, loss=1.0)
    trained(lambda: TensorBoard(tmp_path), 3, 4, 5, loss=2.0)

    read = EventAccumulator(str(tmp_path)).Reload()
    assert [(one.step, one.value) for one in read.Scalars("loss")] == [
        *((1, 1.0), (2, 1.0)),
        *((3, 2.0), (4, 2.0), (5, 2.0)),
    ]


def test_weights_and_biases_has_one_run_for_all_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "offline")
    for steps in ((1, 2, 3), (3, 4)):
        trained(lambda: WeightsAndBiases(JOB, tmp_path), *steps, loss=1.0)

    written = [one.name for one in tmp_path.rglob("*.wandb")]
    assert written == ["run-7c0e-uid.wandb"] * 2


def test_a_run_of_the_script_itself_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import wandb  # noqa: PLC0415 - slow

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr(wandb, "run", object())
    with pytest.raises(RuntimeError, match="the script has started a W&B run itself"):
        WeightsAndBiases(JOB, tmp_path)


def test_mlflow_goes_on_with_the_run_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file:{tmp_path}/runs")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    trained(lambda: MLflow(JOB), 1, 2, 3, loss=1.0)
    trained(lambda: MLflow(JOB), 2, 3, 4, loss=2.0)
    trained(lambda: MLflow(Identity("another", "gpt", "ml")), 1, loss=3.0)

    from mlflow import MlflowClient  # noqa: PLC0415 - slow

    client = MlflowClient()
    experiment = client.get_experiment_by_name("ml")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    found = [
        [(one.step, one.value) for one in client.get_metric_history(run.info.run_id, "loss")]
        for run in runs
    ]
    assert sorted(found) == [[(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0)], [(1, 3.0)]]
    assert {run.info.run_name for run in runs} == {"gpt"}


@pytest.mark.parametrize(
    ("env", "place", "names"),
    [
        ({}, None, set()),
        ({}, "/checkpoints", {"jsonl", "tensorboard"}),
        ({}, "s3://bucket/runs", set()),
        ({"SPOTRUN_TRACKERS_DIR": "/logs"}, "s3://bucket/runs", {"jsonl", "tensorboard"}),
        ({"SPOTRUN_TRACKERS": "none", "WANDB_API_KEY": "k"}, "/checkpoints", set()),
        ({"SPOTRUN_TRACKERS": "jsonl, mlflow"}, "/checkpoints", {"jsonl", "mlflow"}),
        ({"WANDB_API_KEY": "k"}, None, {"wandb"}),
        ({"WANDB_API_KEY": "k", "WANDB_MODE": "disabled"}, None, set()),
        ({"WANDB_MODE": "offline", "MLFLOW_TRACKING_URI": "http://m"}, None, {"wandb", "mlflow"}),
    ],
)
def test_the_environment_chooses(env: dict[str, str], place: str | None, names: set[str]) -> None:
    made = recorder_of(env, place, pytest.fail)

    assert ({*made._choose()} if made is not None else set()) == names


def test_what_cannot_be_had_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    said = list[str]()
    assert choose("jsonl,wnadb", {}, None, said.append) == {}
    monkeypatch.setattr(
        choice, "find_spec", lambda name: None if name == "tensorboard" else find_spec(name)
    )
    assert {*choose("jsonl,tensorboard", {}, Path("/c/logs"), said.append)} == {"jsonl"}
    no_folder, misspelt, not_installed = said
    assert no_folder.endswith("is no folder for it: set SPOTRUN_TRACKERS_DIR")
    assert misspelt.startswith(
        "SPOTRUN_TRACKERS names 'wnadb', but must be some of jsonl, tensorboard, "
    )
    assert (
        "kept in /c/logs, without TensorBoard's files: these need `pip install tensorboard`"
        in not_installed
    )
