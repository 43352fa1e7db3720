"""That torchrun was told to end: it ends its processes then, and says so to nobody."""

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from torch.distributed.elastic.agent.server.local_elastic_agent import LocalElasticAgent
from torch.distributed.elastic.multiprocessing import SignalException


def watch_signals(tell: Callable[[], None], stop: Callable[[], None]) -> None:
    """From now on tell when a signal ends torchrun, and stop its processes in our own way.

    torchrun's way is a SIGTERM for all that a script has started, which may need those to save.

    They may take as long as a pod is given: the others are not to wait for that. Where a version of
    torch is not as expected, they learn it by the worker's silence.
    """
    original = LocalElasticAgent._shutdown  # noqa: SLF001 - there is no other way

    @functools.wraps(original)
    def shutdown(agent: LocalElasticAgent, *args: Any, **options: Any) -> None:  # noqa: ANN401
        if isinstance(sys.exc_info()[1], SignalException):
            tell()
            with suppress(SignalException):  # a second one, and torchrun's own way is left
                stop()
        original(agent, *args, **options)

    LocalElasticAgent._shutdown = shutdown  # type: ignore[method-assign, assignment]  # noqa: SLF001
