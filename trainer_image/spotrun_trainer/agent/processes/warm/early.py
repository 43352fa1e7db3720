"""The interpreter of a worker's first training process, begun before torchrun itself.

torchrun imports PyTorch for a second, finds the operator, and starts a process that imports PyTorch
again. Both imports run at the same time where a launcher calls `begin_early` first: the agent takes
the interpreter over (`adopt`), and from then on it is like any other of `pool.py`. No process with
threads is forked: the interpreter is a process of its own from its first line on.

It is begun only for a worker of one process whose command is a script. Several processes wait for
the slowest of them, so all would have to be begun early, with the variables that torchrun sets for
several; and a command that is not a script is never given to an interpreter.
"""

import logging
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spotrun_trainer.agent.processes.warm.interpreter import Ahead
from spotrun_trainer.agent.processes.warm.waiting import (
    IMPORTED,
    VARIABLE,
    Waiting,
    begin,
    has_room_for,
)
from spotrun_trainer.telemetry.container_usage import memory_left

log = logging.getLogger(__name__)

_PROCESSES = re.compile(r"--nproc[-_]per[-_]node=(.*)")
_WORKERS = {"--rdzv-backend=spotrun", "--rdzv_backend=spotrun"}
_NO_SCRIPT = {"-m", "--module", "--no-python", "--no_python", "--run-path", "--run_path"}
_OF_AGENTS = ("SPOTRUN_", "TORCHELASTIC_", "TORCH_ELASTIC_")
"""Prefixes of variables that no import reads: they belong to the agent and to torchrun, and change
before the first process starts."""


@dataclass(frozen=True)
class _Early:
    one: Waiting
    environment: Mapping[str, str]


_begun: list[_Early] = []
"""The interpreter of this process, until the agent takes it over; never more than one."""


def begin_early(
    environment: Mapping[str, str],
    *,
    room: Callable[[], float] = lambda: memory_left(os.getpid()),
    imported: Sequence[str] = IMPORTED,
) -> None:
    """Begin an interpreter with this environment, unless that turns it off or memory is short."""
    if environment.get(VARIABLE) != "0" and has_room_for(1, room()):
        one = begin(Ahead(), imported, environment=environment)
        _begun.append(_Early(one, dict(environment)))


def adopt(environment: Mapping[str, str]) -> list[Waiting]:
    """Return what was begun early; one that began in another environment is ended instead."""
    adopted = []
    while _begun:
        early = _begun.pop()
        if differing := _read(early.environment).items() ^ _read(environment).items():
            names = ", ".join(sorted({name for name, _ in differing}))
            log.info("the script's imports start again, because torchrun has changed %s", names)
            early.one.end()
        else:
            adopted.append(early.one)
    return adopted


def runs_one_script(arguments: Sequence[str]) -> bool:
    """Whether these arguments have torchrun start a worker's only process, with a file of Python.

    A value that is separate from its option looks like the script but is not: then the answer is
    no, and nothing is begun early.
    """
    at = next((n for n, one in enumerate(arguments) if not one.startswith("-")), None)
    if at is None or not arguments[at].endswith(".py"):
        return False
    options = arguments[:at]
    numbers = [found[1] for one in options if (found := _PROCESSES.fullmatch(one))]
    is_one = numbers[-1:] in ([], ["1"])
    return is_one and not _WORKERS.isdisjoint(options) and _NO_SCRIPT.isdisjoint(options)


def _read(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_OF_AGENTS)}
