"""Whom a replica names as the leader."""

from dataclasses import dataclass
from typing import cast

import pytest

from spotrun.agents.leadership import Leadership
from spotrun.kube.lease import Election


@dataclass
class Elected:
    """What an election says."""

    leads: bool
    leader: str


@pytest.mark.parametrize(
    ("leads", "leader", "expected"),
    [
        (False, "", None),
        (False, "b:1/abc", "b:1"),
        (False, "a:1/of-the-process-before", None),
        (True, "a:1/abc", "a:1"),
        (False, "[2001:db8::7]:1/abc", "[2001:db8::7]:1"),
    ],
)
def test_a_standby_names_the_leader_and_never_itself(
    leads: bool, leader: str, expected: str | None
) -> None:
    election = cast("Election", Elected(leads, leader))
    assert Leadership(election, "a:1").address == expected
