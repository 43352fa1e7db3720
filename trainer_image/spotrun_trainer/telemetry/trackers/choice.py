"""The choice of trackers, by the environment and by what is installed."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from spotrun_trainer.telemetry.trackers.jsonl import JsonLines
from spotrun_trainer.telemetry.trackers.mlflow import MLflow
from spotrun_trainer.telemetry.trackers.recorder import Make, Recorder
from spotrun_trainer.telemetry.trackers.tensorboard import TensorBoard
from spotrun_trainer.telemetry.trackers.tracker import Identity
from spotrun_trainer.telemetry.trackers.wandb import WeightsAndBiases

FOLDER = "logs"
"""The folder beside the checkpoints."""
_ALL = ("jsonl", "tensorboard", "wandb", "mlflow")
_NEED_A_FOLDER = ("jsonl", "tensorboard")


def recorder_of(
    env: Mapping[str, str], place: str | None, say: Callable[[str], object]
) -> Recorder | None:
    """Return the recorder of a process; None if nothing must be recorded."""
    asked = env.get("SPOTRUN_TRACKERS", ",".join(_by_itself(env, _folder(env, place))))
    if asked.strip() in ("", "none"):
        return None
    return Recorder(lambda: choose(asked, env, _folder(env, place), say), say)


def choose(
    asked: str, env: Mapping[str, str], folder: Path | None, say: Callable[[str], object]
) -> dict[str, Make]:
    """Return a function that makes each tracker; says which ones are missing, and why."""
    made: dict[str, Make] = {}
    for name in dict.fromkeys(one.strip() for one in asked.split(",")):
        if name not in _ALL:
            say(
                f"SPOTRUN_TRACKERS names {name!r}, but must be some of {', '.join(_ALL)}, or none "
                "alone"
            )
        elif name in _NEED_A_FOLDER and folder is None:
            say(
                f"SPOTRUN_TRACKERS names {name}, but there is no folder for it: set "
                "SPOTRUN_TRACKERS_DIR"
            )
        elif name == "tensorboard" and find_spec("tensorboard") is None:
            say(
                f"logged values are kept in {folder}, without TensorBoard's files: these need `pip "
                "install tensorboard`; SPOTRUN_TRACKERS=jsonl turns them off"
            )
        else:
            made[name] = _maker(name, env, folder)
    return made


def _by_itself(env: Mapping[str, str], folder: Path | None) -> tuple[str, ...]:
    return (
        *(_NEED_A_FOLDER if folder is not None else ()),
        *(("wandb",) if _wants_wandb(env) else ()),
        *(("mlflow",) if env.get("MLFLOW_TRACKING_URI") else ()),
    )


def _folder(env: Mapping[str, str], place: str | None) -> Path | None:
    given = env.get("SPOTRUN_TRACKERS_DIR")
    if given:
        return Path(given)
    if place is None or "://" in place:  # no line can be appended to an object
        return None
    return Path(place, FOLDER)


def _wants_wandb(env: Mapping[str, str]) -> bool:
    mode = env.get("WANDB_MODE", "online" if env.get("WANDB_API_KEY") else "disabled")
    return mode in ("online", "offline")


def _maker(name: str, env: Mapping[str, str], folder: Path | None) -> Make:
    job = Identity(
        env.get("SPOTRUN_JOB_UID", ""), env.get("SPOTRUN_JOB", ""), env.get("SPOTRUN_NAMESPACE", "")
    )
    if name == "wandb":
        return partial(WeightsAndBiases, job, folder)
    if name == "mlflow":
        return partial(MLflow, job)
    assert folder is not None
    return partial(JsonLines if name == "jsonl" else TensorBoard, folder)
