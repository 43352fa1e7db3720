"""`kubectl_complete-tjob`: kubectl runs it when you press TAB after `kubectl tjob`.

kubectl's own completion for bash, zsh and fish calls it with the words so far, the last one being
typed, and reads one candidate per line, then a directive. It reports no errors: a shell has no
place to show them during completion.
"""

import argparse
import asyncio
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise

from spotrun.cli.kubectl import VERBS

_FILES, _NO_FILES = ":0", ":4"
"""Directives of cobra, kubectl's command-line library: may the shell offer files as well?"""
_NAMED = frozenset(
    [
        *("show", "watch", "why", "logs", "cost", "doctor", "report"),
        *("suspend", "resume", "scale", "checkpoint", "stop"),
    ]
)
_WITH_FILES = frozenset({"run", "estimate", "plan"})
_FLAG_FILES = frozenset({"-f", "--filename", "--kubeconfig", "--script", "--trace"})
_PATIENCE_SECONDS = 2.0


def main(argv: Sequence[str] | None = None) -> int:
    """Print the candidates for the last word."""
    words = list(sys.argv[1:] if argv is None else argv)
    found, directive = candidates(words or [""])
    print("\n".join([*found, directive]))
    return 0


def candidates(words: Sequence[str]) -> tuple[list[str], str]:
    """Return the candidates, some with a tab and an explanation, and the directive."""
    if len(words) == 1:
        found: Iterable[str] = (f"{name}\t{verb.text}" for name, verb in VERBS.items())
        directive = _NO_FILES
    elif words[0] not in VERBS or "--" in words[:-1]:
        found, directive = (), _FILES
    else:
        found, directive = _of_verb(words[0], words)
    return sorted(one for one in found if one.startswith(words[-1])), directive


def _of_verb(name: str, words: Sequence[str]) -> tuple[Iterable[str], str]:
    """Return the values of the preceding flag, the flags, or the names of jobs."""
    flags, before = _flags(name), words[-2]
    action = flags.get(before)
    if before in _FLAG_FILES:
        return (), _FILES
    if action is not None and action.nargs != 0:
        return map(str, action.choices or _values(before, words)), _NO_FILES
    if words[-1].startswith("-"):
        return (f"{one}\t{flags[one].help or ''}" for one in flags), _NO_FILES
    if name in _NAMED and not _positionals(words[1:-1], flags):
        return _live(words, "jobs"), _NO_FILES
    return (), _FILES if name in _WITH_FILES else _NO_FILES


def _flags(verb: str) -> dict[str, argparse.Action]:
    parser = argparse.ArgumentParser(add_help=False)
    VERBS[verb].describe(parser)
    actions = parser._actions  # noqa: SLF001 - argparse has no public list of its flags
    return {option: action for action in actions for option in action.option_strings}


def _positionals(words: Sequence[str], flags: dict[str, argparse.Action]) -> list[str]:
    """Return the words that are neither flags nor values of flags."""
    found, is_value = [], False
    for word in words:
        if not is_value and not word.startswith("-"):
            found.append(word)
        action = flags.get(word)
        is_value = not is_value and action is not None and action.nargs != 0
    return found


def _values(flag: str, words: Sequence[str]) -> list[str]:
    if flag in ("-n", "--namespace"):
        return _live(words, "namespaces")
    return []


def _live(words: Sequence[str], what: str) -> list[str]:
    """Ask the cluster for names; return none if anything fails."""
    chosen = argparse.Namespace(
        kubeconfig=_given(words, "--kubeconfig"),
        context=_given(words, "--context"),
        namespace=_given(words, "-n") or _given(words, "--namespace"),
    )
    try:
        return asyncio.run(_asked(chosen, what))
    except Exception:
        return []


async def _asked(chosen: argparse.Namespace, what: str) -> list[str]:
    from spotrun.cli.cluster.session import connected  # noqa: PLC0415 - not for verbs and flags
    from spotrun.cli.jobs.reading import all_jobs  # noqa: PLC0415
    from spotrun.kube.rest.client import Selection  # noqa: PLC0415
    from spotrun.observe.kube_objects import NAMESPACES, NamespaceObject  # noqa: PLC0415

    async with asyncio.timeout(_PATIENCE_SECONDS), connected(chosen) as cluster:
        if what == "jobs":
            jobs = await all_jobs(cluster)
            return [f"{job.metadata.name}\t{job.status.phase or 'not seen'}" for job in jobs]
        found = await cluster.client.list_all(Selection(NAMESPACES), NamespaceObject)
        return [one.metadata.name for one in found.items]


def _given(words: Sequence[str], flag: str) -> str | None:
    for before, word in pairwise(words):
        if before == flag:
            return word
        if word.startswith(f"{flag}=") and flag.startswith("--"):
            return word.partition("=")[2]
    return None


if __name__ == "__main__":
    sys.exit(main())
