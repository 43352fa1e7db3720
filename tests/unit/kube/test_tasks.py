"""Work in the background: it ends with its block, and not without a word before."""

import asyncio

import pytest

from spotrun.kube.tasks import running


async def test_work_ends_with_its_block(caplog: pytest.LogCaptureFixture) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with running(work()):
        await began.wait()
    assert ended.is_set()
    assert caplog.text == ""


async def test_work_that_breaks_is_told_of_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def follow_the_market() -> None:
        raise LookupError("a mistake of ours")

    async with running(follow_the_market()) as task:
        await asyncio.wait({task}, timeout=5)
        assert "follow_the_market has ended with an unexpected error" in caplog.text
        assert "LookupError: a mistake of ours" in caplog.text


async def test_work_that_is_done_is_no_mistake(caplog: pytest.LogCaptureFixture) -> None:
    async def look_once() -> None:
        await asyncio.sleep(0)

    async with running(look_once()) as task:
        await asyncio.wait({task}, timeout=5)
    assert caplog.text == ""
