"""The shutdown of torchrun by a signal: the operator is told, and the processes may save."""

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import SignalException


def watch_signals(report: Callable[[], None], stop: Callable[[], None]) -> None:
    """Call `report` when a signal ends torchrun, and then `stop` to end its processes.

    torchrun itself would send SIGTERM to all processes that a script has started, and the script
    may need these to save.

    They may take a pod's whole grace period, and the other workers must not wait for that. If a
    version of torch differs from what is expected here, they learn of the end from the worker's
    silence.
    """
    original = LocalElasticAgent._shutdown  # noqa: SLF001 - there is no other way

    @functools.wraps(original)
    def shutdown(agent: LocalElasticAgent, *args: Any, **options: Any) -> None:  # noqa: ANN401
        if isinstance(sys.exc_info()[1], SignalException):
            report()
            with suppress(SignalException):  # after a second signal torchrun ends them itself
                stop()
        original(agent, *args, **options)

    LocalElasticAgent._shutdown = shutdown  # type: ignore[method-assign, assignment]  # noqa: SLF001
