"""Exit codes of training processes, which torchrun knows and does not pass on."""

import functools
import signal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch.distributed.elastic.agent.server.api import RunResult, WorkerState
from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

from spotrun_trainer.agent.processes.first_cause import cause_in, follows_from_a_peer
from spotrun_trainer.agent.processes.output_tail import tail_of
from spotrun_trainer.agent.processes.shared_memory import SharedMemory, advice, measure

_SIGNALLED = 128  # added by shells and container runtimes to a signal's number
_MOST_CODE = 255
_MEMORY = {
    None: " (often: out of memory)",
    True: " (out of memory: the kernel has counted a kill in this container)",
    False: " (not for memory: the kernel has counted no such kill in this container)",
}
OomKills = Callable[[], int | None]


def watch_failures(
    report: Callable[[int, str], None],
    *,
    end_siblings: Callable[[], None],
    oom_kills: OomKills = lambda: None,
) -> None:
    """Report exit code and message of the training process that fails first, from now on.

    `oom_kills` counts the processes that the kernel has killed for memory, if that is known.

    torchrun reports a failure only in its log and, once restarts are used up, at its end. If a
    version of torch differs from what is expected here, a failure is still reported, without its
    code.
    """
    original = LocalElasticAgent._monitor_workers  # noqa: SLF001 - there is no other way
    killed = oom_kills()

    @functools.wraps(original)
    def monitor(agent: LocalElasticAgent, group: Any) -> Any:  # noqa: ANN401 - torch's own types
        nonlocal killed
        handlers = _handlers(agent)
        failed = {rank for rank, handler in handlers.items() if handler.proc.poll()}
        if failed:
            end_siblings()  # torchrun would give them 30 s
        result = original(agent, group)
        if result.failures:
            before, killed = killed, oom_kills()
            grew = None if before is None or killed is None else killed > before
            memory = measure()
            deaths = [
                Death(one, _rank(group, one.local_rank), _tail(handlers, one), grew, memory)
                for one in result.failures.values()
            ]
            first = _first(deaths, failed)
            report(first.code, first.words)
        return result

    LocalElasticAgent._monitor_workers = monitor  # type: ignore[method-assign]  # noqa: SLF001


def watch_success(is_the_end: Callable[[], bool]) -> None:
    """Ask, from now on, whether processes that have all ended well were the last ones.

    They may have ended because the processes of a peer got SIGTERM: then they are needed again.
    """
    original = LocalElasticAgent._monitor_workers  # noqa: SLF001 - there is no other way

    @functools.wraps(original)
    def monitor(agent: LocalElasticAgent, group: Any) -> Any:  # noqa: ANN401 - torch's own types
        result = original(agent, group)
        if result.state is WorkerState.SUCCEEDED and not is_the_end():
            return RunResult(state=WorkerState.HEALTHY)  # torchrun asks for the next world then
        return result

    LocalElasticAgent._monitor_workers = monitor  # type: ignore[method-assign]  # noqa: SLF001


@dataclass(frozen=True)
class Death:
    """The end of one process, and what is known about it."""

    failure: ProcessFailure
    rank: int  # in the world
    output: str | None = None  # its last; None: it is not kept
    kernel_killed: bool | None = None  # for memory, some process of the container; None: unknown
    shared_memory: SharedMemory | None = None  # just after it

    @property
    def code(self) -> int:
        """The exit code that a container would have."""
        code = self.failure.exitcode
        return _SIGNALLED - code if code < 0 else min(code, _MOST_CODE)

    @functools.cached_property
    def words(self) -> str:
        """The message for users."""
        code = self.failure.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            hint = _MEMORY[self.kernel_killed] if name == "SIGKILL" else ""
            said = f"rank {self.rank} was killed by {name}{hint}"
        else:
            said = f"rank {self.rank} ended with exit code {code}"
        told = self._told()
        why = advice(f"{said}: {told}", self.output or "", self.shared_memory)
        return ": ".join(part for part in (said, why, told) if part)

    @property
    def follows(self) -> bool:
        """Whether it only noticed the end of another process."""
        return follows_from_a_peer(self.words)

    def _told(self) -> str:
        if self.failure.exitcode > 0 and Path(self.failure.error_file).is_file():
            message: Any = self.failure.message
            # What torch's @record wrote, or our hook for uncaught exceptions.
            return str(message.get("message", "") if isinstance(message, dict) else message)
        if self.output is None:
            return "" if self.failure.exitcode < 0 else "its log says why"
        return cause_in(self.output) or ("" if self.failure.exitcode < 0 else "it printed nothing")


def _handlers(agent: Any) -> dict[int, Any]:  # noqa: ANN401 - torch's own types
    """Return the processes by local rank, as they are before torchrun looks at them."""
    return dict(getattr(getattr(agent, "_pcontext", None), "subprocess_handlers", {}))


def _tail(handlers: Mapping[int, Any], failure: ProcessFailure) -> str | None:
    handler = handlers.get(failure.local_rank)
    return tail_of(handler) if handler is not None else None


def _first(deaths: Iterable[Death], failed: set[int]) -> Death:
    """Return the cause: a failure before the others that does not follow from a peer's."""

    def order(one: Death) -> tuple[bool, bool, int]:
        failure = one.failure
        return failure.local_rank not in failed, one.follows, failure.timestamp

    return min(deaths, key=order)


def _rank(group: Any, local_rank: int) -> int:  # noqa: ANN401 - torch's own types
    """Return the rank in the world of one of this worker's processes."""
    ranks = {one.local_rank: one.global_rank for one in getattr(group, "workers", ())}
    return int(ranks.get(local_rank, local_rank))
