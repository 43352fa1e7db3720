"""The time-out of DNS queries.

Whenever torch connects to a store, or accepts a connection there, it looks the peer's name up, only
for a log line (2.15). A lost answer would cost every change of worlds glibc's 5 s; and a name
server may well have been on the node that has just died.
"""

from collections.abc import MutableMapping

_OPTIONS = "timeout:1 attempts:3"


def wait_shortly(env: MutableMapping[str, str]) -> None:
    """Retry DNS queries after a second, in this process and its children, unless the user set more.

    This works only before the first query of a process.
    """
    env.setdefault("RES_OPTIONS", _OPTIONS)
