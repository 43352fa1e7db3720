"""The order to profile, as it is written and read, and its answer in a log."""

from collections.abc import AsyncIterator

import pytest

from spotrun import wire
from spotrun.cli.cluster.troubles import Refused
from spotrun.cli.jobs.logs.following import the_pod
from spotrun.cli.jobs.logs.profiling import answers
from spotrun.cli.text import numbers
from tests.support.screens.shown_jobs import shown_job, shown_pods

ASKED = "2026-03-01T12:00:00.5Z"


async def test_the_answer_is_what_the_log_says_of_this_order() -> None:
    async def log() -> AsyncIterator[str]:
        for line in (
            "step 3  loss 2",
            "spotrun: profile 2026-03-01T11:00:00Z: done",
            f"spotrun: profile {ASKED}: rank 0 records steps 4 to 23",
            f"[default0]:spotrun: profile {ASKED}: done",
        ):
            yield line

    found = [sentence async for sentence in answers(log(), ASKED)]
    assert found == ["rank 0 records steps 4 to 23", "done"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (wire.profile_text(wire.Profile(ASKED, 20, 3)), wire.Profile(ASKED, 20, 3)),
        (f'{{"asked": "{ASKED}", "steps": 0}}', wire.Profile(ASKED, 1)),
        (f'{{"asked": "{ASKED}", "steps": 201}}', None),
        ('{"asked": "a\\nb", "steps": 1}', None),
        ('{"asked": "", "steps": 1}', None),
        ("20 steps, please", None),
        ("[" * 100_000, None),
        ("", None),
    ],
)
def test_an_annotation_of_anybody_is_an_order_or_none(
    text: str, expected: wire.Profile | None
) -> None:
    assert wire.profile_of_text(text) == expected


def test_an_order_comes_to_the_agent_as_it_was_given() -> None:
    order = wire.Profile(ASKED, 20, 3)
    answer = wire.Answer("1", "Running", orders=wire.Orders(2, profile=order))
    assert wire.read_answer(wire.write_answer(answer)).orders == answer.orders


def test_a_rank_that_is_not_there_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(Refused, match="there is no rank 60"):
        the_pod(shown_job(), shown_pods(0, 1), 60)


def test_the_command_line_allows_as_many_steps_as_the_trainer() -> None:
    assert numbers.MOST_PROFILED == wire.MOST_PROFILED_STEPS
