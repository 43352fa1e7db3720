"""Answers of the operator, made in one line; and an operator that says what a test wants."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from spotrun.wire import Answer, How, Report, World, read_report
from spotrun_trainer.agent.operator_connection import NoAnswerError
from spotrun_trainer.agent.settings import Settings

WORLD = World(
    number=1,
    rank=0,
    size=2,
    processes=1,
    store="127.0.0.1:1",
    secret="of this world",  # noqa: S106
    neighbours=(),
    how=How.RESTART,
    switch=True,
    restore=None,
)


def a_world(world_number: int = 1, **changes: Any) -> World:
    return replace(WORLD, number=world_number, **changes)


def an_answer(world: World | None = None, *, phase: str = "Running", **changes: Any) -> Answer:
    """Each content has a version of its own, as the operator's answers have."""
    answer = Answer(version="", phase=phase, world=world, **changes)
    return replace(answer, version=f"v{hash((phase, world, *changes.items())) & 0xFFFFFF}")


def settings(folder: Path, **changes: Any) -> Settings:
    known: dict[str, Any] = {
        "directory": folder / "run",
        "namespace": "team",
        "job": "job",
        "worker": "job-abcde-0",
        "server": "127.0.0.1:1",
        "authorities": "",
        "token_file": folder / "token",
        "address": "127.0.0.1",
        "last_words": folder / "last-words",
    }
    return Settings(**(known | changes))


class ScriptedOperator:
    """Answers polls when something is said, and keeps what was reported."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.is_away = False
        self.news = threading.Condition()
        self._answer = an_answer(phase="Pending")

    def say(self, answer: Answer) -> None:
        with self.news:
            self._answer = answer
            self.news.notify_all()

    def poll(self, seen: str) -> Answer:
        with self.news:
            self.news.wait_for(lambda: self.is_away or self._answer.version != seen, timeout=0.2)
            return self._said()

    def report(self, body: bytes) -> Answer:
        with self.news:
            answer = self._said()
            self.reports.append(read_report(body))
            self.news.notify_all()
            return answer

    def pause_seconds(self, _error: NoAnswerError) -> float:
        return 0.01

    def until_reported(self, **wanted: object) -> Report:
        """Wait for a report that says so; returns the newest."""

        def holds() -> bool:
            return bool(self.reports) and wanted.items() <= vars(self.reports[-1]).items()

        with self.news:
            assert self.news.wait_for(holds, timeout=10), (wanted, self.reports[-1:])
            return self.reports[-1]

    def _said(self) -> Answer:
        if self.is_away:
            raise NoAnswerError("away")
        return self._answer
