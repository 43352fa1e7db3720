"""Questions to a user at a terminal."""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def agrees(question: str) -> bool:
    """Ask; without a terminal the answer is no. Ctrl-C raises KeyboardInterrupt."""
    if not sys.stdin.isatty():
        print(f"{question} Confirm with --yes: there is no terminal to ask", file=sys.stderr)
        return False
    try:
        with _interruptible():
            answer = input(f"{question} [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let Ctrl-C end the blocking input: asyncio would cancel its task only after the answer."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
