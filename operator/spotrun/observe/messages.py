"""Messages of Kubernetes, cut to the length that our own messages may have. Pure."""

from spotrun.api.field_types.bounded import MAX_QUOTE_CHARS
from spotrun.wire import one_line


def bounded(words: str) -> str:
    """Return a message of another program as one line that is not too long."""
    return one_line(" ".join(words.split())[:MAX_QUOTE_CHARS])
