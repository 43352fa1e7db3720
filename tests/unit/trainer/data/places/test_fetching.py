"""The process that reads from stores answers each request, and no other."""

import subprocess
import sys
from typing import IO

import pytest

from spotrun_trainer.data.places.fetching import Fetcher

_ECHO = """
import sys, json
for line in sys.stdin:
    print(json.dumps({"name": json.loads(line)["name"]}), flush=True)
"""


def test_an_answer_that_nobody_waited_for_is_not_that_of_the_next_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = subprocess.Popen
    command = [sys.executable, "-c", _ECHO]
    monkeypatch.setattr(subprocess, "Popen", lambda _, **more: start(command, **more))
    fetcher = Fetcher()
    try:
        assert fetcher.ask("read", "s3://bucket", "a") == {"name": "a"}
        process = fetcher._started()
        assert process.stdout is not None
        with monkeypatch.context() as pressed:
            pressed.setattr(process, "stdout", _Interrupted(process.stdout))
            with pytest.raises(KeyboardInterrupt):
                fetcher.ask("read", "s3://bucket", "b")
        assert fetcher.ask("read", "s3://bucket", "c") == {"name": "c"}
    finally:
        fetcher.close()


class _Interrupted:
    """A pipe whose reader presses Ctrl-C."""

    def __init__(self, pipe: IO[str]) -> None:
        self.close = pipe.close

    def readline(self) -> str:
        raise KeyboardInterrupt
