"""Questions to somebody at a terminal."""

import sys


def agrees(question: str) -> bool:
    """Ask; without a terminal nobody agrees."""
    if not sys.stdin.isatty():
        print(f"{question} Say so with --yes, for there is no terminal to ask", file=sys.stderr)
        return False
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")
