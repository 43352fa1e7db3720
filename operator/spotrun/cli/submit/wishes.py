"""The wishes of a command line, parsed: workers, devices, capacity, money, time."""

import re
from argparse import Namespace
from dataclasses import dataclass, field

_WORKERS = re.compile(r"(\d+)(?:\.\.(\d+))?$")
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)$", re.DOTALL)
_MOST_WORKERS = 10_000


@dataclass(frozen=True)
class Wishes:
    """The requested job, apart from its script."""

    least: int = 1
    most: int = 1
    gpus: int = 0
    cpu: str | None = None
    memory: str | None = None
    capacity: str | None = None
    budget_usd: str | None = None
    deadline: str | None = None
    checkpoint: str | None = None
    environment: dict[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()


def read_wishes(chosen: Namespace) -> Wishes:
    """Read flags; raises ValueError that says what is wrong."""
    least, most = read_workers(chosen.workers)
    return Wishes(
        least=least,
        most=most,
        gpus=chosen.gpus,
        cpu=chosen.cpu,
        memory=chosen.memory,
        capacity=chosen.capacity,
        budget_usd=f"{chosen.budget:f}" if chosen.budget is not None else None,
        deadline=chosen.deadline,
        checkpoint=chosen.checkpoint,
        environment=dict(map(_variable, chosen.env)),
        arguments=tuple(chosen.after_dashes),
    )


def read_workers(text: str) -> tuple[int, int]:
    """Read `4`, or `2..8`."""
    found = _WORKERS.match(text)
    least = int(found[1]) if found else 0
    most = int(found[2] or found[1]) if found else 0
    if not 1 <= least <= most <= _MOST_WORKERS:
        raise ValueError(
            f"--workers {text}: give a number, or the least and the most like 2..8, up to "
            f"{_MOST_WORKERS:,}"
        )
    return least, most


def _variable(text: str) -> tuple[str, str]:
    found = _VARIABLE.match(text)
    if found is None:
        raise ValueError(f"--env {text}: write it like NAME=VALUE")
    return found[1], found[2]
