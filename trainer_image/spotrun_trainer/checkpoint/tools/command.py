"""The commands on checkpoints, called with the arguments of the command line."""

import json
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Sequence

from spotrun_trainer.checkpoint.foreign.saved import Saved
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.checkpoint.tools import description, listing
from spotrun_trainer.checkpoint.tools.comparison import compare
from spotrun_trainer.checkpoint.tools.found import find, named, named_or_all, place_of, size_of
from spotrun_trainer.checkpoint.tools.removal import reasons_to_stay, remove
from spotrun_trainer.checkpoint.tools.verification import verdict_on
from spotrun_trainer.process.commands.progress import Progress

YES, NO = 0, 1
"""Exit codes of an answer; 2 means that something could not be found out, or done."""


def run_ls(chosen: Namespace) -> int:
    """Print the checkpoints of a folder."""
    found = listing.entries(place_of(chosen.folder), time.time())
    if chosen.output == "json":
        _print_json(listing.as_json(found))
    elif found:
        print(listing.listing(found))
    else:
        print(f"{chosen.folder} contains no checkpoint step-N.gG", file=sys.stderr)
    return YES


def run_show(chosen: Namespace) -> int:
    """Print what is in a checkpoint."""
    saved = Saved(*find(chosen.checkpoint))
    if chosen.output == "json":
        _print_json(description.as_json(saved))
    else:
        print(description.description(saved))
    return YES


def run_verify(chosen: Namespace) -> int:
    """Compare the hashes of a checkpoint, or of all in a folder."""
    place, names = named_or_all(chosen.checkpoint)
    verdicts = []
    for name in names:
        with Progress(f"verifying {name}", size_of(place, name)) as progress:
            verdicts.append(verdict_on(place, name, progress.add))
        print(verdicts[-1], flush=True)
    is_one = len(names) == 1  # in a folder, checkpoints being written are not a failure
    is_bad = any(one.damages or (is_one and not one.is_complete) for one in verdicts)
    return NO if is_bad else YES


def run_diff(chosen: Namespace) -> int:
    """Print how two checkpoints differ."""
    first, second = (Saved(*find(one)) for one in (chosen.first, chosen.second))
    with Progress("comparing", first.bytes) as progress:
        found = compare(first, second, progress.add)
    if chosen.output == "json":
        _print_json(found.as_json())
    else:
        print(found.text())
    return YES if found.is_equal else NO


def run_rm(chosen: Namespace, ask: Callable[[str], str] = input) -> int:
    """Remove checkpoints after a confirmation."""
    wanted = dict[str, tuple[Storage, list[Name]]]()
    for argument in chosen.checkpoint:
        place, name = named(argument)
        wanted.setdefault(place.where(), (place, []))[1].append(name)
    reasons = [why for place, names in wanted.values() for why in reasons_to_stay(place, names)]
    if reasons and not chosen.force:
        raise ValueError(
            f"{'; '.join(reasons)}. Nothing was removed; use --force to remove it anyway"
        )
    paths = [place.where(name) for place, names in wanted.values() for name in names]
    if not chosen.yes and not _is_confirmed(paths, ask):
        print("nothing was removed", file=sys.stderr)
        return NO
    for place, names in wanted.values():
        for path in remove(place, names):
            print(f"{path} stays: it has files that belong to no checkpoint", file=sys.stderr)
    print(f"removed {', '.join(paths)}")
    return YES


def _is_confirmed(paths: Sequence[str], ask: Callable[[str], str]) -> bool:
    try:
        return ask(f"remove {', '.join(paths)} for good? [y/N] ").strip().lower() in {"y", "yes"}
    except EOFError:  # no user can answer
        raise ValueError(
            "the input has ended, so the command cannot ask: use --yes to remove without a question"
        ) from None


def _print_json(content: object) -> None:
    print(json.dumps(content, indent=2))
