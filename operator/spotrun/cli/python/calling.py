"""Methods that block, and can be awaited: `job.wait()`, and `await job.wait.aio()`.

Each is written once, as a coroutine. All coroutines run in one event loop, in a thread of its own:
so a notebook, which has a loop already, may call both, and one connection serves all methods.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from functools import cache, update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from spotrun.cli.python.errors import in_words

S = TypeVar("S")
P = ParamSpec("P")
T = TypeVar("T")
B = TypeVar("B")

_THREAD = "spotrun-python"
_GOODBYE_SECONDS = 2.0


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> "Method[S, Blocking[P, T]]":
    """Make a coroutine method one that blocks, with itself as `.aio`."""
    return Method(method, Blocking)


def iterating(
    method: Callable[Concatenate[S, P], AsyncGenerator[T, None]],
) -> "Method[S, Iterating[P, T]]":
    """Make a method that yields asynchronously an iterator, with itself as `.aio`."""
    return Method(method, Iterating)


class Method(Generic[S, B]):
    """A method that is not bound to an object yet."""

    def __init__(self, method: Callable[..., Any], bound: Callable[[Any], B]) -> None:
        self._method = method
        self._bound = bound
        self.__doc__ = method.__doc__

    @overload
    def __get__(self, owner: None, kind: type[S]) -> "Method[S, B]": ...

    @overload
    def __get__(self, owner: S, kind: type[S]) -> B: ...

    def __get__(self, owner: S | None, kind: type[S]) -> "Method[S, B] | B":
        """Return the method of an object."""
        return self if owner is None else self._bound(self._method.__get__(owner, kind))


class Blocking(Generic[P, T]):
    """A method that blocks until its result is there."""

    def __init__(self, method: Callable[P, Coroutine[Any, Any, T]]) -> None:
        self._method = method
        update_wrapper(self, method)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        return _blocked(self._method(*args, **kwargs))

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> T:
        """Do the same without blocking, in any event loop."""
        return await _awaited(self._method(*args, **kwargs))


class Iterating(Generic[P, T]):
    """A method that yields, and blocks until the next is there."""

    def __init__(self, method: Callable[P, AsyncGenerator[T, None]]) -> None:
        self._method = method
        update_wrapper(self, method)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Iterator[T]:
        source = self._method(*args, **kwargs)
        try:
            while (found := _blocked(_next(source))) is not None:
                yield from found
        finally:
            _blocked(source.aclose())

    async def aio(self, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[T]:
        """Do the same without blocking, in any event loop."""
        source = self._method(*args, **kwargs)
        try:
            while (found := await _awaited(_next(source))) is not None:
                for one in found:
                    yield one
        finally:
            await _awaited(source.aclose())


async def _next(source: AsyncGenerator[T, None]) -> tuple[T] | None:
    """Return the next, and None after the last: StopAsyncIteration cannot leave a task."""
    try:
        return (await anext(source),)
    except StopAsyncIteration:
        return None


def _blocked(work: Coroutine[Any, Any, T]) -> T:
    future = asyncio.run_coroutine_threadsafe(in_words(work), _loop())
    try:
        return future.result()
    except BaseException:  # Ctrl-C as well: end what nobody waits for
        future.cancel()
        raise


async def _awaited(work: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(in_words(work), _loop()))


def end_soon(open_things: AsyncExitStack) -> None:
    """Close what a client had open, when it is deleted or the process ends."""
    closing = asyncio.run_coroutine_threadsafe(open_things.aclose(), _loop())
    if threading.current_thread().name != _THREAD:  # waiting there would block the loop
        with suppress(TimeoutError):
            closing.result(_GOODBYE_SECONDS)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the loop in which everything runs; its thread ends with the process."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name=_THREAD, daemon=True).start()
    return loop
