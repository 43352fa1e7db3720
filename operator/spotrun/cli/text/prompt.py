"""Questions to somebody at a terminal."""

import sys


def agrees(question: str) -> bool:
    """Ask; without a terminal nobody agrees."""
    if not sys.stdin.isatty():
        print(f"{question} Say so with --yes, for there is no terminal to ask", file=sys.stderr)
        return False
    return input(f"{question} [y/N] ").strip().lower() in ("y", "yes")
