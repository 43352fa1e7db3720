"""When credentials are read again, and what happens when they cannot be."""

import asyncio
import ssl

import pytest

from spotrun.kube.access import Access, AccessError, Credentials


class Loads:
    """Hands out token after token; an error in their place is raised."""

    def __init__(self, *tokens: str | AccessError, fresh_seconds: float | None = None) -> None:
        self.tokens = list(tokens)
        self.fresh_seconds = fresh_seconds

    async def __call__(self) -> Access:
        await asyncio.sleep(0)
        token = self.tokens.pop(0)
        if isinstance(token, AccessError):
            raise token
        tls = ssl.create_default_context()
        return Access("https://x", token, tls, b"same", fresh_seconds=self.fresh_seconds)


async def test_what_is_fresh_is_not_read_again() -> None:
    now = [0.0]
    credentials = Credentials(Loads("a", "b", fresh_seconds=60), clock=lambda: now[0])
    assert (await credentials.current()).authorization == "a"
    now[0] = 59.9
    assert (await credentials.current()).authorization == "a"
    now[0] = 60
    assert (await credentials.current()).authorization == "b"


async def test_new_tokens_keep_the_connections() -> None:
    credentials = Credentials(Loads("a", "b"))
    a = await credentials.current()
    b = await credentials.replace(a)
    assert b.authorization == "b"
    assert b.tls is a.tls


async def test_many_that_were_refused_at_once_read_once() -> None:
    loads = Loads("a", "b", "c")
    credentials = Credentials(loads)
    a = await credentials.current()
    replaced = await asyncio.gather(*(credentials.replace(a) for _ in range(10)))
    assert {access.authorization for access in replaced} == {"b"}
    assert loads.tokens == ["c"]


async def test_a_file_that_is_gone_for_a_moment_does_not_matter(
    caplog: pytest.LogCaptureFixture,
) -> None:
    credentials = Credentials(Loads("a", AccessError("no token"), "b"))
    a = await credentials.current()
    assert (await credentials.replace(a)).authorization == "a"
    assert "no token" in caplog.text
    assert (await credentials.replace(await credentials.current())).authorization == "b"


async def test_without_any_credentials_there_is_an_error() -> None:
    with pytest.raises(AccessError, match="no token"):
        await Credentials(Loads(AccessError("no token"))).current()


def test_tokens_are_not_shown() -> None:
    assert "secret" not in repr(Access("https://x", "secret"))
