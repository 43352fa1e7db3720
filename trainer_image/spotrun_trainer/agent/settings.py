"""The agent's settings, read once from the environment that the operator has set."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from spotrun_trainer.process.interrupt import GRACE_SECONDS

TERMINATION_LOG = "/dev/termination-log"
GIVE_UP_SECONDS = 3600.0


@dataclass(frozen=True)
class Settings:
    """The names of this worker and its job, and the operator's address."""

    directory: Path
    namespace: str
    job: str
    worker: str
    server: str  # host:port
    authorities: str  # PEM
    token_file: Path
    address: str  # the pod's own
    last_words: Path = Path(TERMINATION_LOG)
    give_up_seconds: float = GIVE_UP_SECONDS
    grace_seconds: float = GRACE_SECONDS  # that processes have to save, once they are told to end
    checkpoints: Path | None = None  # the job's folder in the volume of spec.checkpoint


def read_settings(env: Mapping[str, str] = os.environ) -> Settings:
    """Read the environment; raises ValueError naming what is missing."""
    return Settings(
        directory=Path(_needed(env, "SPOTRUN_DIR")),
        namespace=_needed(env, "SPOTRUN_NAMESPACE"),
        job=_needed(env, "SPOTRUN_JOB"),
        worker=_needed(env, "SPOTRUN_WORKER"),
        server=_needed(env, "SPOTRUN_SERVER"),
        authorities=_needed(env, "SPOTRUN_CA"),
        token_file=Path(_needed(env, "SPOTRUN_TOKEN_FILE")),
        address=_needed(env, "POD_IP"),
        last_words=Path(env.get("SPOTRUN_TERMINATION_LOG") or TERMINATION_LOG),
        give_up_seconds=_seconds(env, "SPOTRUN_GIVE_UP_SECONDS", GIVE_UP_SECONDS),
        grace_seconds=max(_seconds(env, "SPOTRUN_GRACE_SECONDS", GRACE_SECONDS), GRACE_SECONDS),
        checkpoints=_folder(env),
    )


def _folder(env: Mapping[str, str]) -> Path | None:
    """Return the job's folder; None for an object store, or a place named only in the template."""
    place = env.get("SPOTRUN_CHECKPOINT", "")
    is_the_jobs = "SPOTRUN_CHECKPOINT_KEEP" in env  # the operator sets both
    return Path(place) if is_the_jobs and place.startswith("/") else None


def _needed(env: Mapping[str, str], name: str) -> str:
    value = env.get(name)
    if not value:
        raise ValueError(
            f"{name} is not set: --rdzv-backend=spotrun works in the pods of a TrainingJob, where "
            "the operator sets it; elsewhere start torchrun with --standalone"
        )
    return value


def _seconds(env: Mapping[str, str], name: str, default: float) -> float:
    text = env.get(name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise ValueError(f"{name} must be a number of seconds above 0, not {text!r}")
    return seconds
