"""Exit codes of training processes, which torchrun knows and does not pass on."""

import functools
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

_SIGNALLED = 128  # added by shells and container runtimes to a signal's number
_MOST_CODE = 255


def watch_failures(report: Callable[[int, str], None], *, end_siblings: Callable[[], None]) -> None:
    """Report exit code and message of the training process that fails first, from now on.

    torchrun says so only in its log and, once restarts are used up, at its end. If a version of
    torch differs from what is expected here, a failure is still reported, without its code.
    """
    original = LocalElasticAgent._monitor_workers  # noqa: SLF001 - there is no other way

    @functools.wraps(original)
    def monitor(agent: LocalElasticAgent, group: Any) -> Any:  # noqa: ANN401 - torch's own types
        failed = _failed_ranks(agent)
        if failed:
            end_siblings()  # torchrun would give them 30 s
        result = original(agent, group)
        if result.failures:
            first = _first(result.failures.values(), failed)
            report(*_words(first, _rank(group, first.local_rank)))
        return result

    LocalElasticAgent._monitor_workers = monitor  # type: ignore[method-assign]  # noqa: SLF001


def watch_success(is_the_end: Callable[[], bool]) -> None:
    """Ask, from now on, whether the end of all training processes was the last one.

    They may have ended well because those of a peer got SIGTERM: then they are needed again.
    """
    original = LocalElasticAgent._monitor_workers  # noqa: SLF001 - there is no other way

    @functools.wraps(original)
    def monitor(agent: LocalElasticAgent, group: Any) -> Any:  # noqa: ANN401 - torch's own types
        result = original(agent, group)
        if result.state is WorkerState.SUCCEEDED and not is_the_end():
            return RunResult(state=WorkerState.HEALTHY)  # torchrun asks for the next world then
        return result

    LocalElasticAgent._monitor_workers = monitor  # type: ignore[method-assign]  # noqa: SLF001


def _failed_ranks(agent: Any) -> set[int]:  # noqa: ANN401 - torch's own types
    """The local ranks that have failed, looked at before torchrun does."""
    handlers = getattr(getattr(agent, "_pcontext", None), "subprocess_handlers", {})
    return {rank for rank, handler in handlers.items() if handler.proc.poll()}


def _first(failures: Iterable[ProcessFailure], failed: set[int]) -> ProcessFailure:
    """Return the cause: a failure from before the other processes were killed."""
    return min(failures, key=lambda one: (one.local_rank not in failed, one.timestamp))


def _rank(group: Any, local_rank: int) -> int:  # noqa: ANN401 - torch's own types
    """Return the rank in the world of one of this worker's processes."""
    ranks = {one.local_rank: one.global_rank for one in getattr(group, "workers", ())}
    return int(ranks.get(local_rank, local_rank))


def _words(failure: ProcessFailure, rank: int) -> tuple[int, str]:
    """Return the exit code that a container would have, and a message for people."""
    code = failure.exitcode
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (often: out of memory)" if name == "SIGKILL" else ""
        return _SIGNALLED - code, f"rank {rank} was killed by {name}{hint}"
    message: Any = failure.message
    if isinstance(message, dict):  # what torch's @record wrote
        message = message.get("message", "")
    if not Path(failure.error_file).is_file():
        message = "its log says why"
    said = f"rank {rank} ended with exit code {code}: {message}"
    return min(code, _MOST_CODE), said
