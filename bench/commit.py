"""Whether a commit on the device is correct: checks every possible run of a few members' streams.

A model without a GPU: members with a stream each, hosts that are one step ahead, aborts and kills
at any moment (`tests/support/gpu/device_commit/`, ADR 10). `commit_unsound` is the number of states
with a fault: an optimizer ran with a sum that is not over all members, members are two steps apart,
or a member cannot apply a step that another has applied. `commit_broken_found`: how many of the
designs that lack one part of the proposed one are found to be incorrect.

Run as `.venv/bin/python bench/commit.py [--quick]`; it takes some minutes.
"""

import argparse

from bench.operator_bench import say
from tests.support.gpu.device_commit.designs import (
    WAITS,
    Design,
    one_communicator,
    sums_elsewhere,
    sums_in_copies,
    unordered_streams,
)
from tests.support.gpu.device_commit.explorer import explore

QUICK = [one_communicator(2, steps=3), sums_elsewhere(2, canary=True, steps=1)]
SOUND = [
    *QUICK,
    one_communicator(3, kills=2),
    sums_elsewhere(2, canary=True),
    sums_in_copies(1, 2, kills=1),
    sums_in_copies(2, 2),
    one_communicator(3, kills=2, steps=3, **WAITS),
    sums_in_copies(1, 2, **WAITS),
]
BROKEN = [
    one_communicator(2, flag_is_reset=False),
    one_communicator(2, flag_is_exact=False),
    one_communicator(2, abort_is_for_ever=False),
    one_communicator(2, commit_is_bare=False),
    one_communicator(2, sums_are_kept=False),
    unordered_streams(2),
    one_communicator(2, commit_is_bare=False, **WAITS),
    sums_elsewhere(2, canary=False, steps=1),
    sums_in_copies(1, 2, canaries_are_chained=False),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two members, in seconds")
    quick = parser.parse_args().quick
    explored = [explore(design) for design in (QUICK if quick else SOUND)]
    say("commit_states_explored", sum(found.states for found in explored), "states")
    say("commit_unsound", sum(found.faults.total() for found in explored), "states")
    broken = BROKEN[:-1] if quick else BROKEN
    say("commit_broken_found", sum(map(_is_unsound, broken)), "designs", of=len(broken))


def _is_unsound(design: Design) -> bool:
    return bool(explore(design, until_first_fault=True).faults)


if __name__ == "__main__":
    main()
