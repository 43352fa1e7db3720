"""Messages of Kubernetes, cut to the length that our own messages carry. Pure."""

from spotrun.wire import one_line

MAX_MESSAGE_CHARS = 300  # of one trouble; they end in a message


def bounded(words: str) -> str:
    """Return a foreign message as one line that is not too long."""
    return one_line(" ".join(words.split())[:MAX_MESSAGE_CHARS])
