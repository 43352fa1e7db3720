"""A Python that has imported PyTorch and waits for the script that it is to run.

torchrun's side is `pool.py`. For the script nothing differs from `python -u SCRIPT`, except
that its imports take no time: those of PyTorch and NumPy, and of what its last process imported
from installed packages. These read environment variables when they are imported, and may make
tensors. A script that sets such a variable, or torch's default dtype or device, before it imports
them is started again, by a Python that has imported nothing.
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

from spotrun_trainer.agent.processes.shown_command import show
from spotrun_trainer.agent.processes.warm.collector import keep_all, no_collections
from spotrun_trainer.agent.processes.warm.imports_ahead import (
    Batch,
    UnfitError,
    correct_ranks,
    defaults_of_torch,
    import_ahead,
)
from spotrun_trainer.hooks.imported import Imported
from spotrun_trainer.telemetry import cgroup, trace

_HIDDEN = ("torch", "numpy", "spotrun_trainer")
"""Packages that a script does not see before it imports one of them."""
_ALONE = "numpy"
"""The only one of them that imports none of the others; all others import it."""
_NUMPY, _OTHERS = 0, 1
"""The parts in which they become visible; those that a script's last process imported follow."""
_OF_OTHERS = ("HF_", "MLFLOW_", "TOKENIZERS_", "TRANSFORMERS_", "WANDB_")
"""Prefixes of variables that these packages do not read. They read hundreds, and libraries below
them more, so every other variable may be one of those."""
_FIRST_TO_GO = "1000"
_OOM_SCORE = Path("proc/self/oom_score_adj")
_DONE = b"."
UNFIT = b"!"
"""The word to torchrun's side that this one must not run the script, because of its imports."""


@dataclass(frozen=True)
class Launch:
    """The command to run, and its environment."""

    command: Sequence[str]  # as Popen would have run it: python, -u, the script, its arguments
    environment: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """Return the message for the socket."""
        return json.dumps([*self.command, dict(self.environment)]).encode()

    @staticmethod
    def of(content: bytes) -> "Launch":
        """Read a message from the socket."""
        *command, environment = json.loads(content)
        return Launch(command, environment)


@dataclass(frozen=True)
class Ahead:
    """The order to import more than PyTorch: all that a script's last process has noted."""

    directory: str = ""  # empty: nothing else
    given: Sequence[str] = ()  # variables that torchrun gives to each process

    def to_text(self) -> str:
        """Return the argument for the command line."""
        return json.dumps(vars(self))

    @staticmethod
    def of(text: str) -> "Ahead":
        """Read the argument."""
        return Ahead(**json.loads(text))

    def imported(self) -> list[Batch]:
        """Import it; raise UnfitError if the script would notice it."""
        noted = Imported.read(Path(self.directory)) if self.directory else Imported()
        if noted.is_too_late or not noted.installed:
            return []
        return import_ahead(noted.installed, noted.own, self.given)


@dataclass(frozen=True)
class Hidden:
    """The modules that were imported ahead besides PyTorch."""

    directory: str
    batches: Sequence[Batch]


def main(descriptor: int, ahead: str, *modules: str) -> None:
    """Import, wait, and run the command that comes through the socket; end if none comes."""
    score = _let_die_first()
    _import(modules)
    asked = Ahead.of(ahead)
    with socket.socket(fileno=descriptor) as control:
        try:
            with no_collections():
                batches = asked.imported()
        except UnfitError as error:
            print(f"spotrun: only PyTorch is imported ahead, because {error}", file=sys.stderr)
            with suppress(OSError):
                control.sendall(UNFIT)
            return
        launch = _await_launch(control, score)
    if launch is not None:
        trace.begin()
        show(launch.command, launch.environment)
        _run(launch, Hidden(asked.directory, batches))


def _import(modules: Sequence[str]) -> None:
    """Import modules; garbage of the last one is collected at the end of the process.

    That is torch._dynamo, which imports Triton: it says on stderr what of it was not collected.
    """
    with no_collections():
        for number, name in enumerate(modules, start=1):
            if number == len(modules):
                keep_all()
            with suppress(Exception):  # the script's own import will raise it again
                importlib.import_module(name)


def _let_die_first(root: Path = Path("/")) -> str | None:
    """Make this process the first that the kernel kills for memory; return its score before.

    Nothing changes where its whole cgroup would be killed with it, as the kubelet sets it up.
    """
    with suppress(OSError):
        if not _dies_with_all(root):
            score = (root / _OOM_SCORE).read_text()
            (root / _OOM_SCORE).write_text(_FIRST_TO_GO)
            return score
    return None


def _dies_with_all(root: Path) -> bool:
    """Whether the kernel kills a whole cgroup (v2) when memory runs out, not one process."""
    path = cgroup.paths((root / "proc/self/cgroup").read_text()).get("", "/")
    levels = [root / "sys/fs/cgroup" / level[1:] for level in cgroup.with_parents(path)]
    files = [level / "memory.oom.group" for level in levels]
    return any(file.is_file() and file.read_text().strip() != "0" for file in files)


def _await_launch(control: socket.socket, score: str | None) -> Launch | None:
    """Return the command to run; None if torchrun has ended or no longer waits for this process."""
    with suppress(OSError):
        control.sendall(_DONE)  # all is imported
        launch = _wait(control)
        if score is not None:
            with suppress(OSError):
                Path("/", _OOM_SCORE).write_text(score)
        control.sendall(_DONE)  # from here on it belongs to torchrun
        return launch
    return None


def _wait(control: socket.socket) -> Launch | None:
    """Return the command, with output redirected as torchrun wants; None if torchrun has ended."""
    first, descriptors, _, _ = socket.recv_fds(control, 1, 2)
    if not first:
        return None
    content = bytearray()
    while part := control.recv(1 << 16):
        content += part
    for target, descriptor in enumerate(descriptors, start=1):  # stdout, stderr
        os.dup2(descriptor, target)
        os.close(descriptor)
    return Launch.of(bytes(content))


def _run(launch: Launch, hidden: Hidden) -> None:
    """Run the script as `python -u script ...` would."""
    script = launch.command[2]
    os.environ.clear()
    os.environ.update(launch.environment)
    sys.argv = list(launch.command[2:])
    if not getattr(sys.flags, "safe_path", False):  # of Python 3.11
        sys.path.insert(0, os.path.dirname(os.path.realpath(script)))  # noqa: PTH120 - as Python does
    correct_ranks()
    sys.meta_path.insert(0, _HiddenModules(launch, hidden))
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


class _HiddenModules(MetaPathFinder, Loader):
    """Hides the modules that were imported ahead, until the script imports them.

    They are divided into parts, in the order in which the script's last process imported them: an
    import of a module in one part shows the parts before it too, which the module may need.
    """

    def __init__(self, launch: Launch, hidden: Hidden) -> None:
        self._launch = launch
        self._directory = hidden.directory
        first = {name: _OTHERS for name in sys.modules if _package(name) in _HIDDEN}
        numpys = {name: _NUMPY for name in first if _package(name) == _ALONE}
        later = {
            name: number
            for number, batch in enumerate(hidden.batches, start=_OTHERS + 1)
            for name in batch.modules & sys.modules.keys()
            if _package(name) not in sys.stdlib_module_names
        }
        self._part_of = {**later, **first, **numpys}
        self._batches = dict(enumerate(hidden.batches, start=_OTHERS + 1))
        self._hidden = {name: sys.modules[name] for name in self._part_of}
        self._specs = {name: getattr(one, "__spec__", None) for name, one in self._hidden.items()}
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
        part = self._part_of[spec.name]
        is_first_of_torch = any(of <= _OTHERS for of in self._part_of.values())
        if is_first_of_torch and _of_theirs(os.environ) != _of_theirs(self._launch.environment):
            self._begin_anew()
        changed = self._changed_until(part)
        if changed and not _is_in_group():
            if self._directory:
                Imported(is_too_late=True).write(Path(self._directory))
            self._begin_anew()
        elif changed:
            print(
                f"spotrun: {spec.name} was imported ahead, and does not see that the script "
                f"changed {min(changed)}; set SPOTRUN_BEGIN_AHEAD=torch to import only PyTorch "
                "ahead",
                file=sys.stderr,
            )
        return self._hidden[spec.name]

    @override
    def exec_module(self, module: ModuleType) -> None:
        """Make the module visible; it was executed when it was imported ahead."""
        module.__spec__ = self._specs[module.__name__]
        part = self._part_of[module.__name__]
        shown = [name for name, of in self._part_of.items() if of <= part]
        for name in shown:
            sys.modules[name] = self._hidden.pop(name)
            del self._part_of[name], self._specs[name]
        if not self._hidden:
            sys.meta_path.remove(self)

    def _changed_until(self, part: int) -> frozenset[str]:
        """Return what has changed since modules of a part, or before it, were imported ahead."""
        hidden = set(self._part_of.values())
        batches = [batch for of, batch in self._batches.items() if of <= part and of in hidden]
        given, defaults = self._launch.environment, defaults_of_torch()
        read = frozenset[str]().union(*(batch.variables for batch in batches))
        variables = {name for name in read if os.environ.get(name) != given.get(name)}
        others = {
            name
            for batch in batches
            for name, then in batch.defaults.items()
            if defaults.get(name, then) != then
        }
        return frozenset(variables | others)

    def _begin_anew(self) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, list(self._launch.command), dict(self._launch.environment))  # noqa: S606 - itself


def _is_in_group() -> bool:
    """Whether the script has met the other ranks, after which it cannot start again."""
    distributed = sys.modules.get("torch.distributed")
    return distributed is not None and bool(distributed.is_initialized())


def _package(name: str) -> str:
    return name.partition(".")[0]


def _of_theirs(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if not name.startswith(_OF_OTHERS)}
