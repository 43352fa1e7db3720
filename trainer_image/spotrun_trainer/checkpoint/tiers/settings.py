"""The settings of the local tier, from the environment that the operator and the agent have set."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER = "SPOTRUN_LOCAL"
ADDRESS = "SPOTRUN_LOCAL_ADDRESS"
"""The agent sets it: host:port at which it serves the folder to the job's other workers."""
_MOST_CHARACTERS = 512


@dataclass(frozen=True)
class Endpoint:
    """A worker's folder, and how other workers reach it."""

    node: str
    address: str  # host:port of the worker's agent; empty: no worker can reach it


@dataclass(frozen=True)
class Settings:
    """The folder of this worker's tier."""

    folder: Path
    every: str  # the interval between saves, as `Run(every=...)` takes it
    limit_bytes: int | None  # None: what the file system holds
    is_memory: bool  # it counts as the container's memory
    endpoint: Endpoint


def read_settings(env: Mapping[str, str] = os.environ) -> Settings | None:
    """Return the settings; None if the job has no local tier, or no agent that serves it."""
    if not env.get(FOLDER):
        return None
    limit = env.get("SPOTRUN_LOCAL_BYTES", "")
    return Settings(
        folder=Path(env[FOLDER]),
        every=env.get("SPOTRUN_LOCAL_EVERY") or "auto",
        limit_bytes=int(limit) if limit.isdecimal() else None,
        is_memory=env.get("SPOTRUN_LOCAL_MEDIUM") == "Memory",
        endpoint=Endpoint(env.get("SPOTRUN_NODE", ""), env.get(ADDRESS, "")),
    )


def read_endpoint(content: object) -> Endpoint:
    """Return an endpoint from another process's JSON; raises ValueError."""
    match content:
        case {"node": str(node), "address": str(address)}:
            if max(len(node), len(address)) <= _MOST_CHARACTERS:
                return Endpoint(node, address)
    raise ValueError(f"an endpoint must have a node and an address, not {json.dumps(content)[:80]}")
