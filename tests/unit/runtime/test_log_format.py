import asyncio
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from spotrun.runtime import log_format

TOKEN = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiYSJdfQ.c2lnbmF0dXJl"  # noqa: S105 - of nobody


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("test.logs")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    yield logger
    logger.handlers.clear()


def writing(logger: logging.Logger, formatter: logging.Formatter) -> io.StringIO:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter)
    logger.handlers[:] = [handler]
    return stream


def _fail(logger: logging.Logger, text: str) -> None:
    try:
        int(text)
    except ValueError:
        logger.exception("it failed")


def line(stream: io.StringIO) -> dict[str, Any]:
    (only,) = stream.getvalue().splitlines()
    content: dict[str, Any] = json.loads(only)
    return content


def test_a_line_without_a_job(logger: logging.Logger) -> None:
    stream = writing(logger, log_format.JsonLines())
    logger.info("%d jobs are known", 3)

    written = line(stream)
    assert written.pop("time").endswith("Z")
    assert written == {"level": "info", "logger": "test.logs", "message": "3 jobs are known"}


async def test_a_task_that_works_on_a_job_says_so(logger: logging.Logger) -> None:
    stream = writing(logger, log_format.JsonLines())

    async def work(job: str, world_number: int | None) -> None:
        context = log_format.about(job)
        await asyncio.sleep(0)
        context.world_number = world_number
        logger.info("done")

    await asyncio.gather(
        asyncio.create_task(work("ml/a", 7)), asyncio.create_task(work("ml/b", None))
    )
    logger.info("all done")

    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(line.get("job"), line.get("worldNumber")) for line in lines] == [
        ("ml/a", 7),
        ("ml/b", None),
        (None, None),
    ]


async def test_text_for_people_names_the_job_too(logger: logging.Logger) -> None:
    stream = writing(logger, log_format.TextLines())

    async def work() -> None:
        log_format.about("ml/a").world_number = 7
        logger.warning("two\nlines")

    await asyncio.create_task(work())

    time, rest = stream.getvalue().split(" ", 1)
    assert time.endswith("Z")
    assert rest == "WARNING test.logs [ml/a world 7]: two\\nlines\n"


@pytest.mark.parametrize("formatter", [log_format.JsonLines(), log_format.TextLines()])
def test_others_words_neither_begin_a_line_nor_steer_a_terminal(
    logger: logging.Logger, formatter: logging.Formatter
) -> None:
    stream = writing(logger, formatter)
    hostile = "no\r\n2026-01-01T00:00:00.000Z INFO    spotrun: all is well\x1b[2J\x85\u2028\u202e"
    logger.error("%s", hostile, exc_info=ValueError(hostile))

    written = stream.getvalue()
    assert written.replace("\n", "").isprintable()
    assert [line for line in written.splitlines() if line.startswith("2026-01-01")] == []


@pytest.mark.parametrize("formatter", [log_format.JsonLines(), log_format.TextLines()])
def test_an_error_brings_its_traceback(
    logger: logging.Logger, formatter: logging.Formatter
) -> None:
    stream = writing(logger, formatter)
    _fail(logger, "no")

    assert "Traceback" in stream.getvalue()
    assert "ValueError: invalid literal" in stream.getvalue()


@pytest.mark.parametrize("formatter", [log_format.JsonLines(), log_format.TextLines()])
@pytest.mark.parametrize(
    "text",
    [
        f"refused: {TOKEN}",
        "Authorization: Bearer abcdefgh12345678",
        "{'authorization': 'bearer abcdefgh12345678'}",
        "-----BEGIN PRIVATE KEY-----\nabcdefgh12345678\n-----END PRIVATE KEY-----",
    ],
)
def test_secrets_are_left_out(
    logger: logging.Logger, formatter: logging.Formatter, text: str
) -> None:
    stream = writing(logger, formatter)
    logger.error("%s", text)
    _fail(logger, text)

    assert "abcdefgh12345678" not in stream.getvalue()
    assert TOKEN not in stream.getvalue()
    assert "(left out)" in stream.getvalue()


@pytest.mark.parametrize("text", ["the bearer of news", "eyJ is how they begin"])
def test_words_are_no_secrets(logger: logging.Logger, text: str) -> None:
    stream = writing(logger, log_format.JsonLines())
    logger.error("%s", text)

    assert line(stream)["message"] == text


def test_everything_goes_to_standard_error(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers[:] = []
    try:
        log_format.set_up("json", logging.INFO)
        logging.getLogger("anybody").info("hello")
        logging.getLogger("anybody").debug("not asked for")
        logging.getLogger("kopf.activities").info("not asked for")
    finally:
        root.handlers[:], root.level = handlers, level
        logging.captureWarnings(False)
        for talkative in ("kopf", "aiohttp.access"):
            logging.getLogger(talkative).setLevel(logging.NOTSET)

    printed = capfd.readouterr()
    assert printed.out == ""
    assert [json.loads(line)["message"] for line in printed.err.splitlines()] == ["hello"]
