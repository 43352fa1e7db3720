"""The cause of a process's end: its last output, and whether it only noticed a peer's end."""

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile
from pathlib import PurePath

MOST_CHARACTERS = 600
"""A message on the wire may have 1,024, and also says which rank ended and how."""
_LAST_LINES = 3
_MOST_FRAMES = 3
_NEAR_THE_END = 12  # lines; a traceback farther up was caught
_LINE = 300

_NOISE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|^\[rank\d+\]: ?")  # colours, and torch's own prefix
_FATAL = "Fatal Python error: "
_FRAME = re.compile(r'^\s+File "(?P<file>[^"]*)", line (?P<line>\d+),? in (?P<name>\S+)')
_TRACEBACK = "Traceback (most recent call last):"
_OF_A_LIBRARY = re.compile(r"/(site-packages|dist-packages|lib/python3|spotrun_trainer)")
_CURRENT = re.compile(r"^Current thread \S+.*\(most recent call first\)")
_OF_CPP = re.compile(r"^\s*what\(\):\s*(?P<said>.+)")

_OF_A_GROUP = re.compile(
    r"gloo|nccl|c10d|TCPStore|ProcessGroup|torch\.distributed|Dist(Backend|Network|Store)?Error",
    re.IGNORECASE,
)
_OF_A_PEER = re.compile(
    r"connection (was )?(closed|reset|refused|aborted|likely closed)|broken pipe"
    r"|remote process (exited|has terminated)|ncclRemoteError|socket closed|got 0 bytes"
    r"|timed out|time-?out|watchdog|heartbeat",
    re.IGNORECASE,
)
_NEVER_MET = re.compile(r"trying to connect", re.IGNORECASE)


def follows_from_a_peer(message: str) -> bool:
    """Whether a failure is that of a process that noticed the end or the silence of a peer.

    The message must have a word for a group of processes and one for a lost connection, because a
    download may lose its connection, too. A process that never reached an address met no peer.
    """
    has_met = not _NEVER_MET.search(message)
    return bool(has_met and _OF_A_GROUP.search(message) and _OF_A_PEER.search(message))


def cause_in(output: str) -> str:
    """Return the cause that the last output of a process names, in one line; empty if none does."""
    lines = [_NOISE.sub("", line.rpartition("\r")[2]) for line in _lines(output)]
    return _cut(_fatal(lines) or _raised(lines) or _last_words(lines), MOST_CHARACTERS)


def _lines(output: str) -> Iterable[str]:
    return (line.rstrip() for line in output.split("\n"))


def _fatal(lines: Sequence[str]) -> str:
    """Return what faulthandler printed: what happened to the process, and where its thread was."""
    at = _last(lines, _FATAL)
    if at is None:
        return ""
    stack = next((n for n in range(at, len(lines)) if _CURRENT.match(lines[n])), None)
    frames = [] if stack is None else list(takewhile(_FRAME.match, lines[stack + 1 :]))
    told = [found["said"] for line in lines[:at] if (found := _OF_CPP.match(line))]
    said = lines[at][lines[at].index(_FATAL) :]
    return "; ".join([*told[-1:], said + _places(frames)])


def _raised(lines: Sequence[str]) -> str:
    """Return the exception that was printed last, and the innermost frames."""
    begun = _last(lines, _TRACEBACK)
    if begun is None:
        return ""
    rest = lines[begun + 1 :]
    said = next((n for n, line in enumerate(rest) if line and not line[0].isspace()), None)
    if said is None or sum(map(bool, rest[said:])) > _NEAR_THE_END:
        return ""
    frames = [line for line in rest[:said] if _FRAME.match(line)]
    return _cut(" ".join(rest[said:]).strip(), _LINE) + _places(reversed(frames))


def _last_words(lines: Sequence[str]) -> str:
    """Return the last lines, which are all that is known of an end without a traceback."""
    told = [_cut(line.strip(), _LINE) for line in lines if line.strip()]
    return " | ".join(told[-_LAST_LINES:])


def _places(frames: Iterable[str]) -> str:
    """Return frames, the innermost first, as `train.py:3 in step < train.py:9 in main`.

    Of the frames in libraries only the innermost is shown.
    """
    found = [at for frame in frames if (at := _FRAME.match(frame))]
    shown = [at for n, at in enumerate(found) if n == 0 or not _OF_A_LIBRARY.search(at["file"])]
    where = [f"{PurePath(x['file']).name}:{x['line']} in {x['name']}" for x in shown]
    return f" at {' < '.join(where[:_MOST_FRAMES])}" if where else ""


def _last(lines: Sequence[str], part: str) -> int | None:
    return next((n for n in reversed(range(len(lines))) if part in lines[n]), None)


def _cut(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    half = (characters - len(" ... ")) // 2
    return f"{text[:half]} ... {text[-half:]}"
