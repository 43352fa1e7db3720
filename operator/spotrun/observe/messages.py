"""Messages of Kubernetes, cut to the length that our own messages carry. Pure."""

from spotrun.api.field_types.bounded import MAX_QUOTE_CHARS
from spotrun.wire import one_line


def bounded(words: str) -> str:
    """Return a foreign message as one line that is not too long."""
    return one_line(" ".join(words.split())[:MAX_QUOTE_CHARS])
