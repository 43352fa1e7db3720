"""Mount paths without mount namespaces: they are replaced in every text that a process gets.

Rewriting needs no privileges and works where user namespaces are refused. It cannot reach a path
that is written inside a program or a file.
"""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

# Where a path can begin: at the start, or after a separator of words in command lines, lists,
# JSON and shell scripts.
_BEFORE = r"""=:,;\s"'`()\[{<>|&@"""
# What can follow a whole path: a deeper part of it, or a separator.
_AFTER = r"""/=:,;\s"'`()\]}<>|&?#"""


@dataclass(frozen=True)
class Mount:
    """A mount: the content that a container sees at `path` is at `target`."""

    path: str
    target: Path


def normalized(path: str) -> str:
    """Return a mount path without trailing or doubled slashes and dots."""
    return "/" + posixpath.normpath(path).strip("/")


def rewrite(text: str, mounts: Iterable[Mount]) -> str:
    """Replace every occurrence of a mount path that is a whole prefix of a path in `text`.

    The longest mount path wins, and inserted paths are not replaced again. `s3://data` and
    `http://host/data` are not local paths and stay; `file:///data` is mapped.
    """
    targets = {mount.path: str(mount.target) for mount in mounts}
    if not targets:
        return text
    paths = "|".join(map(re.escape, sorted(targets, key=len, reverse=True)))
    found = rf"(?:(?<![^{_BEFORE}])|(?<=file://))(?:{paths})(?![^{_AFTER}])"
    return re.sub(found, lambda match: targets[match[0]], text)
