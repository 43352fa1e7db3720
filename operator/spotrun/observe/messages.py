"""What Kubernetes says of objects, cut to what a message of ours carries. Pure."""

from spotrun.wire import one_line

MAX_MESSAGE_CHARS = 300  # of one trouble; they end in a message


def bounded(words: str) -> str:
    """Return other people's words as one line that is not too long."""
    return one_line(" ".join(words.split())[:MAX_MESSAGE_CHARS])
