"""This training's claim to the folder of its checkpoints."""

import os
import platform
import secrets
from collections.abc import Mapping

from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.checkpoint.ownership import Claim, Ownership, process_named
from spotrun_trainer.elastic.world_context import Context


def owner_of(context: Context, place: Storage) -> Ownership:
    """Return the ownership that keeps other trainings out of a place while this one runs."""
    is_of_a_job = context.rank_info.elastic
    return Ownership(place, claim_of_job(context.env) if is_of_a_job else _claim_of_start())


def claim_of_job(env: Mapping[str, str]) -> Claim:
    """Return a claim that all workers of a TrainingJob share; a recreated job has another."""
    name = f"{env.get('SPOTRUN_NAMESPACE', '')}/{env.get('SPOTRUN_JOB', '')}"
    uid = env.get("TORCHELASTIC_RUN_ID", "")  # set by the operator, passed on by torchrun
    return Claim(uid or name, f"TrainingJob {name} (uid {uid or 'unknown'})")


def _claim_of_start() -> Claim:
    """Return a claim for one start: outside spotrun each start is a separate training."""
    what = f"a training (process {os.getpid()} on {platform.node()})"
    return Claim(secrets.token_hex(8), what, process_named(os.getpid()))
