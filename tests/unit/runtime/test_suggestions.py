import asyncio
import subprocess
import sys
from asyncio.subprocess import Process
from typing import Any

import pytest

from spotrun.runtime.asking import suggestions
from spotrun.runtime.asking.suggestions import answer
from spotrun.search import Bayesian, Direction, Question, Random, Suggestion, suggest
from tests.support.search.spaces import TRAINING, a_history

QUESTION = Question(TRAINING, Bayesian(3, per_dollar=True), Direction.MINIMIZE, 12, a_history(12))


async def test_a_model_is_asked_in_a_process_of_its_own() -> None:
    found = await answer(QUESTION)
    assert isinstance(found, Suggestion)
    assert found.values["layers"] in range(2, 25, 2)
    assert await answer(QUESTION) == found


async def test_what_needs_no_model_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    question = Question(TRAINING, Random(3), Direction.MINIMIZE, 0)
    assert await answer(question) == suggest(question)


def played_by(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suggestions, "_PROGRAM", program)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("import sys; sys.exit('no space left')", "ended with exit code 1: no space left"),
        (
            "import os; os.kill(os.getpid(), 9)",
            "ended with exit code -9: it may have had too little memory",
        ),
        ('print(\'{"error": "choose TPE"}\')', "^choose TPE$"),
        ("print('hello')", "did not send a valid answer"),
        ("print(3)", "did not send a valid answer"),
        ("print('{}')", "did not send a valid answer"),
        ('print(\'{"values": {"lr": [1]}, "why": ""}\')', "did not send a valid answer"),
        ("import sys; sys.stdout.buffer.write(bytes([255, 254]))", "did not send a valid answer"),
    ],
)
async def test_what_went_wrong_is_said(
    program: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    played_by(program, monkeypatch)
    with pytest.raises(ValueError, match=words):
        await answer(QUESTION)


async def test_a_process_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []

    async def start(*program: str, **settings: Any) -> Process:
        started.append(await asyncio.create_subprocess_exec(*program, **settings))
        return started[-1]

    monkeypatch.setattr(suggestions, "create_subprocess_exec", start)
    played_by("import time; time.sleep(600)", monkeypatch)
    with pytest.raises(ValueError, match="were not found within 1 s"):
        await answer(QUESTION, seconds=1.0)
    assert [one.returncode for one in started] == [-9]


def test_the_operator_does_not_import_optuna() -> None:
    program = (
        "import sys, spotrun.runtime.assembly, spotrun.runtime.asking.suggestions;"
        "print({'optuna', 'numpy', 'sqlalchemy'} & sys.modules.keys())"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.strip() == "set()"


async def test_a_process_that_cannot_be_started_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(ValueError, match="cannot be started"):
        await answer(QUESTION)
