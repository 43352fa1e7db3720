"""Exit codes of training processes, which torchrun knows and does not pass on."""

import functools
import signal
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from spotrun_trainer.agent.processes.kill import kill_sessions

_SIGNALLED = 128  # added by shells and container runtimes to a signal's number
_MOST_CODE = 255


def watch_failures(
    report: Callable[[int, str], None], *, spared: Callable[[], Container[int]]
) -> None:
    """Report exit code and message of the training process that fails first, from now on.

    `spared` returns the processes that are not killed with the others, for they do not train yet.

    torchrun says so only in its log and, once restarts are used up, at its end. If a version of
    torch differs from what is expected here, a failure is still reported, without its code.
    """
    original = LocalElasticAgent._monitor_workers  # noqa: SLF001 - there is no other way

    @functools.wraps(original)
    def monitor(agent: LocalElasticAgent, group: Any) -> Any:  # noqa: ANN401 - torch's own types
        failed = _failed_ranks(agent)
        if failed:
            kill_sessions(but=spared())  # its siblings: torchrun would give them 30 s
        result = original(agent, group)
        if result.failures:
            report(*_words(_first(result.failures.values(), failed)))
        return result

    LocalElasticAgent._monitor_workers = monitor  # type: ignore[method-assign]  # noqa: SLF001


def _failed_ranks(agent: Any) -> set[int]:  # noqa: ANN401 - torch's own types
    """The local ranks that have failed, looked at before torchrun does."""
    handlers = getattr(getattr(agent, "_pcontext", None), "subprocess_handlers", {})
    return {rank for rank, handler in handlers.items() if handler.proc.poll()}


def _first(failures: Iterable[ProcessFailure], failed: set[int]) -> ProcessFailure:
    """Return the cause: a failure from before the other processes were killed."""
    return min(failures, key=lambda one: (one.local_rank not in failed, one.timestamp))


def _words(failure: ProcessFailure) -> tuple[int, str]:
    """Return the exit code that a container would have, and a message for people."""
    code = failure.exitcode
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (often: out of memory)" if name == "SIGKILL" else ""
        return _SIGNALLED - code, f"rank {failure.local_rank} was killed by {name}{hint}"
    message: Any = failure.message
    if isinstance(message, dict):  # what torch's @record wrote
        message = message.get("message", "")
    if not Path(failure.error_file).is_file():
        message = "its log says why"
    said = f"rank {failure.local_rank} ended with exit code {code}: {message}"
    return min(code, _MOST_CODE), said
