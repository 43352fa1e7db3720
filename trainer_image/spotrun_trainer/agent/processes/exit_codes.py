"""How training processes end: torchrun knows, and keeps it to itself."""

import functools
import signal
from collections.abc import Callable, Container, Iterable
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from spotrun_trainer.agent.processes.kill import kill_sessions

_SIGNALLED = 128  # what shells and runtimes add to the number of a signal
_MOST_CODE = 255


def watch_failures(
    tell: Callable[[int, str], None], *, spared: Callable[[], Container[int]]
) -> None:
    """From now on tell exit code and message of whichever training process fails first.

    `spared`: who is not killed with its siblings, for they do not train yet.

    torchrun says so only in its log and, once restarts are used up, at its end. Where a version of
    torch is not as expected, a failure is still reported, without its code.
    """
    original = LocalElasticAgent._monitor_workers  # noqa: SLF001 - there is no other way

    @functools.wraps(original)
    def monitor(agent: LocalElasticAgent, group: Any) -> Any:  # noqa: ANN401 - torch's own types
        failed = _failed_ranks(agent)
        if failed:
            kill_sessions(but=spared())  # its siblings: torchrun would give them 30 s
        result = original(agent, group)
        if result.failures:
            tell(*_words(_first(result.failures.values(), failed)))
        return result

    LocalElasticAgent._monitor_workers = monitor  # type: ignore[method-assign]  # noqa: SLF001


def _failed_ranks(agent: Any) -> set[int]:  # noqa: ANN401 - torch's own types
    """The local ranks that have failed, looked at before torchrun does."""
    handlers = getattr(getattr(agent, "_pcontext", None), "subprocess_handlers", {})
    return {rank for rank, handler in handlers.items() if handler.proc.poll()}


def _first(failures: Iterable[ProcessFailure], failed: set[int]) -> ProcessFailure:
    """The cause: of those that had failed before their siblings were killed."""
    return min(failures, key=lambda one: (one.local_rank not in failed, one.timestamp))


def _words(failure: ProcessFailure) -> tuple[int, str]:
    """Exit code as a container's would be, and what a person needs to read."""
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
