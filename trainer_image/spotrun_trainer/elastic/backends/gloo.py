"""gloo's groups: made with a time to connect, and a longer one for each collective."""

from datetime import timedelta
from typing import Any

from torch import distributed
from torch.distributed import Store  # type: ignore[attr-defined]  # not in __all__

# All processes are there when they connect, and a group that is formed does not wait this long for
# one that dies in between. But the store answers no process while it looks up the name of a peer:
# see process/dns.py.
CONNECT_SECONDS = 20.0
CONNECT_SECONDS_EACH = 0.02
# A lost peer breaks its connections, or the agent reports it; long waits are for slow steps.
COLLECTIVE_SECONDS = 1800.0


def make(store: Store, rank: int, size: int) -> Any:  # noqa: ANN401 - torch's, untyped
    """Connect to the others."""
    connect_seconds = CONNECT_SECONDS + CONNECT_SECONDS_EACH * size
    gloo = distributed.ProcessGroupGloo(store, rank, size, timedelta(seconds=connect_seconds))
    gloo._set_default_timeout(timedelta(seconds=COLLECTIVE_SECONDS))  # noqa: SLF001 - torch gives it no other name
    return gloo
