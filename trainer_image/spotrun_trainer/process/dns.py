"""How long a name server is waited for.

Whenever torch connects to a store, or accepts a connection there, it looks the peer's name up, only
to have it for a log line (2.15). An answer that gets lost would cost every change of worlds glibc's
5 s; and a name server may well have been on the node that has just died.
"""

from collections.abc import MutableMapping

_OPTIONS = "timeout:1 attempts:3"


def wait_shortly(env: MutableMapping[str, str]) -> None:
    """Ask again after a second, in this process and those it starts, unless the user has said how.

    It counts where nothing has been looked up yet.
    """
    env.setdefault("RES_OPTIONS", _OPTIONS)
