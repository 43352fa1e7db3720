"""By which clock agents are told moments."""

from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp.test_utils import make_mocked_request

from spotrun.agents.long_poll import Board
from spotrun.agents.routes import App
from tests.support.jobs.published_jobs import KEY


async def test_every_answer_is_dated_by_the_clock_by_which_its_moments_are_told() -> None:
    moment = datetime(2026, 3, 1, 8, 0, 0, 900_000, tzinfo=UTC)
    moments = iter([moment, moment, moment + timedelta(hours=1)])
    nobody: Any = None
    app = App(Board(KEY), nobody, nobody, nobody, lambda _: None, wall=lambda: next(moments))

    answers = [await app.handle(make_mocked_request("GET", "/")) for _ in range(3)]

    assert [answer.headers["Date"] for answer in answers] == [
        "Sun, 01 Mar 2026 08:00:00 GMT",
        "Sun, 01 Mar 2026 08:00:00 GMT",
        "Sun, 01 Mar 2026 09:00:00 GMT",
    ]
