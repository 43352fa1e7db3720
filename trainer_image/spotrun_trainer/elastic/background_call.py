"""Calls that cannot be interrupted, run in a thread so that the caller can leave them."""

from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from spotrun_trainer.process import threads

T = TypeVar("T")

_LOOK_SECONDS = 0.05


def call(function: Callable[[], T], look: Callable[[], None]) -> T:
    """Call a function in a thread of its own; `look` is called while it runs, and may raise.

    If `look` raises, the call ends some time later, and its result is dropped.
    """
    return result_of(begin(function), look)


def result_of(begun: Future[T], look: Callable[[], None]) -> T:
    """Wait for the result of a call that was begun; `look` is called meanwhile, and may raise."""
    while not wait([begun], _LOOK_SECONDS).done:
        look()
    return begun.result()


def begin(function: Callable[[], T]) -> Future[T]:
    """Begin to call a function in a thread of its own."""
    result = Future[T]()

    def run() -> None:
        try:
            result.set_result(function())
        except Exception as error:
            result.set_exception(error)

    threads.start(run, name="spotrun-call")
    return result
