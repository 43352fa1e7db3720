"""Python runs this at the start of every process that the agent starts, before the script.

The agent puts this folder into PYTHONPATH. Here is only what is needed to wait until the process
imports torch's optimizers: a process that never does so pays for one comparison per import. A
`sitecustomize` that was there before runs as well. That one may in turn load the next one, as those
of profilers do, and then it finds this file again: so `sys` keeps a list of the files that have
run.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec, PathFinder

TYPE_CHECKING = False  # like typing's, whose import takes longer than this file
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType, TracebackType

_FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib is an import more
_AWAITED = {
    "torch.optim.optimizer": "watch_optimizers",
    "torch.utils.data.dataloader": "watch_loaders",
}
_HAVE_RUN: set[str] = vars(sys).setdefault(
    "_spotrun_sitecustomize", set()
)  # files, of this process


class _Waiting:
    """A finder that finds nothing by itself; it sees what is imported."""

    def __init__(self) -> None:
        self._left = dict(_AWAITED)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module as the other finders find it, to be watched once it is there."""
        if name not in self._left:
            return None
        watch = self._left.pop(name)
        try:
            spec = _found_by_others(name, path, target, self)
            if spec is not None and spec.loader is not None:
                _call_after(spec.loader, watch)
        except Exception as error:  # the script continues without
            _say(error)
            return None
        return spec


def _found_by_others(
    name: str, path: Sequence[str] | None, target: ModuleType | None, this: _Waiting
) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if finder is not this and hasattr(finder, "find_spec"):
            spec: ModuleSpec | None = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
    return None


def _call_after(loader: object, watch: str) -> None:
    execute = loader.exec_module  # type: ignore[attr-defined] # every loader of a file has it

    def execute_and_watch(module: object) -> None:
        vars(loader).pop("exec_module", None)  # this one; its class's remains
        execute(module)
        try:
            from spotrun_trainer.hooks import watches  # noqa: PLC0415 - only where torch is used

            getattr(watches, watch)(module)
        except Exception as error:
            _say(error)

    loader.exec_module = execute_and_watch  # type: ignore[attr-defined]


def _say(error: Exception) -> None:
    print(f"spotrun: steps are not counted, the script continues: {error!r}", file=sys.stderr)


def _run_the_one_before() -> None:
    """Run the sitecustomize that Python would have run without this one, and run none twice."""
    for entry in sys.path:
        spec = PathFinder.find_spec("sitecustomize", [entry])
        if spec is None or spec.loader is None or not spec.origin or spec.origin in _HAVE_RUN:
            continue
        from importlib.util import module_from_spec  # noqa: PLC0415 - only where there is one

        _HAVE_RUN.add(spec.origin)
        module = module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)
        return


def _uncaught() -> ModuleType:
    """Load the module by its file, without importing a package of ours.

    If a script has changed the environment, an interpreter that was begun ahead starts it again
    when it imports such a package, and this script has ended.
    """
    from importlib.util import module_from_spec, spec_from_file_location  # noqa: PLC0415 - only then

    file = os.path.join(os.path.dirname(_FOLDER), "uncaught.py")  # noqa: PTH118, PTH120 - as above
    spec = spec_from_file_location("_spotrun_uncaught", file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be loaded")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _note_uncaught(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Note for torchrun the exception that ends the script, and print it as usual."""
    try:
        try:
            _uncaught().note_error(error, trace)
        except RuntimeError as told:  # by torch's handler of SIGCHLD, of a worker that ended
            told.__cause__ = error
            _uncaught().note_error(told, trace)
    except Exception as failure:
        print(
            f"spotrun: this exception cannot be noted for the failure's message: {failure!r}",
            file=sys.stderr,
        )
    sys.__excepthook__(kind, error, trace)


def _wait_once() -> None:
    """Wait for torch if steps must be counted, unless this file does so already."""
    this = os.path.join(_FOLDER, "sitecustomize.py")  # noqa: PTH118 - as above
    is_wanted = os.environ.get("SPOTRUN_COUNT_STEPS") != "0" and os.environ.get("SPOTRUN_DIR")
    if is_wanted and this not in _HAVE_RUN:
        sys.meta_path.insert(0, _Waiting())
        sys.excepthook = _note_uncaught
    _HAVE_RUN.add(this)


_wait_once()
_run_the_one_before()
