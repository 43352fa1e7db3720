"""This training's claim to the place where it is saved."""

import os
import platform
import secrets
from collections.abc import Mapping
from pathlib import Path

from spotrun_trainer.checkpoint.ownership import Claim, Ownership, process_named
from spotrun_trainer.elastic.world_context import Context


def owner_of(context: Context, folder: Path) -> Ownership:
    """What keeps other trainings out of a folder, for as long as this one runs."""
    is_of_a_job = context.rank_info.elastic
    return Ownership(folder, claim_of_job(context.env) if is_of_a_job else _claim_of_start())


def claim_of_job(env: Mapping[str, str]) -> Claim:
    """All workers of a TrainingJob make the same; one that is made anew makes another."""
    name = f"{env.get('SPOTRUN_NAMESPACE', '')}/{env.get('SPOTRUN_JOB', '')}"
    uid = env.get("TORCHELASTIC_RUN_ID", "")  # the operator's, which torchrun hands on
    return Claim(uid or name, f"TrainingJob {name} (uid {uid or 'unknown'})")


def _claim_of_start() -> Claim:
    """Outside spotrun each start is a training of its own."""
    what = f"a training (process {os.getpid()} on {platform.node()})"
    return Claim(secrets.token_hex(8), what, process_named(os.getpid()))
