"""Imports what a script's last process imported, and notes on what these imports depended.

A module that is imported ahead has seen another environment than the script's: torchrun sets the
rank of a process when it starts it, and a script may set variables before it imports the modules
that read them. So it is noted which import read which variables, and what torch's defaults were
then, because a tensor that a module makes has these.
"""

import importlib
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any

from spotrun_trainer.hooks.imported import folders_of_packages

_NOBODYS = frozenset({"sitecustomize", "spotrun", "spotrun_trainer", "usercustomize"})
"""The modules that run when a process starts, Python's and ours: no other package imports them."""
_OF_THE_LANGUAGE = ("os", "_collections_abc", "collections.abc")


class UnfitError(Exception):
    """The modules of a script cannot be imported ahead of it."""


@dataclass(frozen=True)
class Batch:
    """The modules that one import loaded: its own, and those that it needed as well."""

    modules: frozenset[str]
    variables: frozenset[str]  # of the environment, read meanwhile
    defaults: Mapping[str, str]  # of torch, before


def import_ahead(names: Sequence[str], own: Collection[str], given: Collection[str]) -> list[Batch]:
    """Import modules in their order; raise UnfitError if the script would notice it.

    own      packages of the script itself, which an installed one must not replace
    given    variables that torchrun gives to each process
    """
    places = [str(folder) for folder in folders_of_packages()]
    for package in frozenset(own) - _NOBODYS:
        if PathFinder.find_spec(package, places) is not None:
            raise UnfitError(f"the script's own {package} replaces an installed one")
    with _silence(), _reads() as reads:
        batches = [_import(name, given, reads) for name in names if name not in sys.modules]
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        raise UnfitError("one of the script's imports uses the GPU")
    return batches


def defaults_of_torch() -> dict[str, str]:
    """Return the defaults for later tensors, which a script may set; none without torch."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    return {
        "torch's default dtype": str(torch.get_default_dtype()),
        "torch's default device": str(torch.get_default_device()),
    }


def correct_ranks() -> None:
    """Let modules that read a rank when they are imported read it again."""
    for name, correct in _READ_AGAIN.items():
        module = sys.modules.get(name)
        if module is not None:
            correct(module)


def _import(name: str, given: Collection[str], reads: "_Reads") -> Batch:
    before, defaults = frozenset(sys.modules), defaults_of_torch()
    reads.by_variable.clear()
    # An exception of a package here comes again in the script.
    with suppress(Exception, SystemExit):
        importlib.import_module(name)
    for variable, modules in reads.by_variable.items():
        unknown = modules - _READ_AGAIN.keys()
        if variable in given and unknown:
            raise UnfitError(f"{min(unknown)} reads {variable} when it is imported")
    defaults = defaults or defaults_of_torch()  # this may have imported torch
    return Batch(frozenset(sys.modules) - before, frozenset(reads.by_variable), defaults)


@dataclass
class _Reads:
    by_variable: dict[str, set[str]] = field(default_factory=dict)  # the modules that read it


@contextmanager
def _reads() -> Iterator[_Reads]:
    """Note which module reads which variable of the environment."""
    reads = _Reads()
    mapping: Any = type(os.environ)
    before = mapping.__getitem__

    def noted(environment: Mapping[str, str], name: object) -> str:
        if isinstance(name, (str, bytes)):  # bytes are for os.environb, and subprocess tries them
            reads.by_variable.setdefault(os.fsdecode(name), set()).add(_reader())
        value: str = before(environment, name)
        return value

    mapping.__getitem__ = noted
    try:
        yield reads
    finally:
        mapping.__getitem__ = before


def _reader() -> str:
    """Return the module that reads the variable, and not Python's own module in between."""
    frame = sys._getframe(2)  # noqa: SLF001 - as logging and warnings do
    while (name := frame.f_globals.get("__name__", "")) in _OF_THE_LANGUAGE and frame.f_back:
        frame = frame.f_back
    return str(name)


@contextmanager
def _silence() -> Iterator[None]:
    """Print nothing: the script's own process has printed the output of its imports."""
    usual = [os.dup(number) for number in (1, 2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in (1, 2):
            os.dup2(nowhere, number)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, before in enumerate(usual, start=1):
            os.dup2(before, number)
        for descriptor in (nowhere, *usual):
            os.close(descriptor)


def _of_lightning(module: Any) -> None:  # noqa: ANN401 - a module
    module.rank_zero_only.rank = module._get_rank() or 0  # noqa: SLF001 - as it does itself


def _of_torchmetrics(module: Any) -> None:  # noqa: ANN401 - a module
    module.rank_zero_only.rank = int(os.environ.get("LOCAL_RANK", "0"))


_READ_AGAIN: Mapping[str, Callable[[ModuleType], None]] = {
    "lightning.fabric.utilities.rank_zero": _of_lightning,
    "lightning_fabric.utilities.rank_zero": _of_lightning,
    "torchmetrics.utilities.prints": _of_torchmetrics,
}
"""Modules that keep a rank in one attribute: it is the only thing that differs there."""
