"""The values of the next trial of a search; if that needs Optuna, a process finds them."""

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, create_subprocess_exec
from collections.abc import Awaitable, Callable
from json import JSONDecodeError

from prometheus_client import Histogram

from spotrun.search import Nothing, Question, Suggestion, needs_process, suggest
from spotrun.search.process.messages import read_answer, write_question

Suggest = Callable[[Question], Awaitable[Suggestion | Nothing]]
"""Returns the values of the next trial; raises ValueError with a sentence for users."""

ANSWER_SECONDS = 60.0
"""A thousand trials take a second; this long limit is for a node whose CPU is busy."""
_WORDS_SHOWN = 300
# One thread, with a lower priority than the operator, which continues to work on jobs.
_ENV = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
_PROGRAM = "import os; os.nice(5); from spotrun.search.process.__main__ import main; main()"


async def answer(question: Question, *, seconds: float = ANSWER_SECONDS) -> Suggestion | Nothing:
    """Return the next trial's values; raises ValueError with a sentence for users.

    A model of the trials so far runs in a process of its own, which ends with the answer. So Optuna
    is never in the operator's memory.
    """
    if not needs_process(question):
        return suggest(question)
    program = (sys.executable, "-c", _PROGRAM)
    try:
        process = await create_subprocess_exec(
            *program, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=_environment()
        )
    except OSError as error:  # no memory, or this user may start no more processes
        raise ValueError(
            f"the process that looks for the next trial's values cannot be started: {error}"
        ) from None
    try:
        async with asyncio.timeout(seconds):
            said, complaints = await process.communicate(write_question(question))
    except TimeoutError:
        raise ValueError(
            f"the next trial's values were not found within {seconds:.0f} s: give the operator "
            "more CPU, or search with sobol or random"
        ) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        last = complaints.decode(errors="replace").strip()[-_WORDS_SHOWN:]
        raise ValueError(
            "the process that looks for the next trial's values ended with exit code "
            f"{process.returncode}: "
            f"{last or 'it may have had too little memory, about 100 MiB beside the operator'}"
        )
    try:
        return read_answer(said)
    except (JSONDecodeError, UnicodeDecodeError, LookupError, TypeError):
        raise ValueError(
            "the process that looks for the next trial's values did not send a valid answer: "
            f"{said[:_WORDS_SHOWN]!r}"
        ) from None


def timed(suggest: Suggest, seconds: Histogram) -> Suggest:
    """Return the same function, with its time measured, also when it fails."""

    async def measured(question: Question) -> Suggestion | Nothing:
        with seconds.time():
            return await suggest(question)

    return measured


def _environment() -> dict[str, str]:
    """Return what a process needs to find Python and its packages, and no credentials."""
    kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    return {**kept, **_ENV}
