"""Asking whoever sits at the terminal."""

import sys

from tests.e2e.kind.machine import SetupError


def require_consent(plan: str, *, given: bool) -> None:
    """Show a plan, and raise `SetupError` unless somebody agrees or has agreed before."""
    print(f"\ne2e: {plan}", file=sys.stderr, flush=True)
    if given:
        return
    if not sys.stdin.isatty():
        raise SetupError(
            "nothing was written, for without a terminal nobody can be asked: with YES=1 you agree "
            "beforehand"
        )
    try:
        answer = input("Go on? Then type yes: ")
    except EOFError:
        answer = ""
    if answer.strip() != "yes":
        raise SetupError("nothing was written, for you did not agree")
