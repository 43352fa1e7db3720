"""A Python that has imported PyTorch and waits to be told which script it is to run.

torchrun's side is `agent.interpreters`. To the script nothing is different from `python -u SCRIPT`,
but that imports of PyTorch and NumPy take no time. Both read variables of the environment when they
are imported. A script that sets such a variable before it imports them is begun anew, by a Python
that has imported nothing.
"""

import builtins
import importlib
import json
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from typing_extensions import override

from spotrun_trainer.telemetry import cgroup, trace

_HIDDEN = ("torch", "numpy", "spotrun_trainer")
"""Packages that a script does not see before it imports one of them."""
_ALONE = "numpy"
"""The one of them that imports none of the others; all others import it."""
_OF_OTHERS = ("HF_", "MLFLOW_", "TOKENIZERS_", "TRANSFORMERS_", "WANDB_")
"""How variables begin that these packages do not read. They read hundreds, and more in libraries
under them, so that every other variable may be one of those."""
_FIRST_TO_GO = "1000"
_OOM_SCORE = Path("proc/self/oom_score_adj")
_DONE = b"."


@dataclass(frozen=True)
class Told:
    """What is to be run."""

    command: Sequence[str]  # as Popen would have run it: python, -u, the script, its arguments
    environment: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """For the socket."""
        return json.dumps([*self.command, dict(self.environment)]).encode()

    @staticmethod
    def of(content: bytes) -> "Told":
        """Out of the socket."""
        *command, environment = json.loads(content)
        return Told(command, environment)


def main(descriptor: int, *modules: str) -> None:
    """Import, wait, and run what the socket tells; without a word from it, end."""
    score = _let_die_first()
    for name in modules:
        with suppress(Exception):  # the script will say it, if it is of any use there
            importlib.import_module(name)
    with socket.socket(fileno=descriptor) as control:
        told = _be_told(control, score)
    if told is not None:
        trace.begin()
        _run(told)


def _let_die_first(root: Path = Path("/")) -> str | None:
    """Where memory runs out, it is this process that is missed least; returns its score before.

    Not where all of its cgroup would end with it, as the kubelet has it of containers.
    """
    with suppress(OSError):
        if not _dies_with_all(root):
            score = (root / _OOM_SCORE).read_text()
            (root / _OOM_SCORE).write_text(_FIRST_TO_GO)
            return score
    return None


def _dies_with_all(root: Path) -> bool:
    """Whether the kernel, where it ends a process for its memory, ends a whole cgroup (v2)."""
    path = cgroup.paths((root / "proc/self/cgroup").read_text()).get("", "/")
    levels = [root / "sys/fs/cgroup" / level[1:] for level in cgroup.with_parents(path)]
    files = [level / "memory.oom.group" for level in levels]
    return any(file.is_file() and file.read_text().strip() != "0" for file in files)


def _be_told(control: socket.socket, score: str | None) -> Told | None:
    """What is to be run; None if torchrun has ended, or waits no more for this process."""
    with suppress(OSError):
        control.sendall(_DONE)  # all is imported
        told = _wait(control)
        if score is not None:
            with suppress(OSError):
                Path("/", _OOM_SCORE).write_text(score)
        control.sendall(_DONE)  # from here on it is torchrun's
        return told
    return None


def _wait(control: socket.socket) -> Told | None:
    """What is to be run, with its output where torchrun wants it; None if torchrun has ended."""
    first, descriptors, _, _ = socket.recv_fds(control, 1, 2)
    if not first:
        return None
    content = bytearray()
    while part := control.recv(1 << 16):
        content += part
    for target, descriptor in enumerate(descriptors, start=1):  # stdout, stderr
        os.dup2(descriptor, target)
        os.close(descriptor)
    return Told.of(bytes(content))


def _run(told: Told) -> None:
    """Be what `python -u script ...` is."""
    script = told.command[2]
    os.environ.clear()
    os.environ.update(told.environment)
    sys.argv = list(told.command[2:])
    if not sys.flags.safe_path:
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))  # noqa: PTH120 - as Python does
    sys.meta_path.insert(0, _Curtain(told))
    main = ModuleType("__main__")
    main.__file__ = script
    main.__loader__ = SourceFileLoader("__main__", script)
    vars(main).update(__annotations__={}, __builtins__=builtins, __cached__=None)
    for name in {"__main__", "__mp_main__"} & sys.modules.keys():  # the other is multiprocessing's
        sys.modules[name] = main
    try:
        exec(compile(Path(script).read_bytes(), script, "exec"), vars(main))  # noqa: S102 - the user's
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        lines = error.__traceback__
        error.__traceback__ = lines.tb_next if lines is not None else None  # without this function
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None


class _Curtain(MetaPathFinder, Loader):
    """Hides what was imported ahead, until the script imports it."""

    def __init__(self, told: Told) -> None:
        self._told = told
        self._hidden = {
            name: module for name, module in sys.modules.items() if _package(name) in _HIDDEN
        }
        self._specs = {name: module.__spec__ for name, module in self._hidden.items()}
        for name in self._hidden:
            del sys.modules[name]

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        known = self._specs.get(fullname)
        if known is None:
            return None
        spec = ModuleSpec(fullname, self, origin=known.origin)
        spec.submodule_search_locations = known.submodule_search_locations
        return spec

    @override
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if _of_theirs(os.environ) != _of_theirs(self._told.environment):
            self._begin_anew()
        return self._hidden[spec.name]

    @override
    def exec_module(self, module: ModuleType) -> None:
        """It was executed when it was imported ahead, with all that it imports."""
        module.__spec__ = self._specs[module.__name__]
        if module.__name__ == _ALONE:
            sys.modules.update(
                {name: one for name, one in self._hidden.items() if _package(name) == _ALONE}
            )
        else:
            sys.modules.update(self._hidden)
            sys.meta_path.remove(self)

    def _begin_anew(self) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, list(self._told.command), dict(self._told.environment))  # noqa: S606 - itself


def _package(name: str) -> str:
    return name.partition(".")[0]


def _of_theirs(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_OF_OTHERS)}
