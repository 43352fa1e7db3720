import os
import signal
import subprocess
import sys

import pytest

from spotrun.wire import Notice
from spotrun_trainer.agent.processes import notice_signal
from spotrun_trainer.agent.processes.notice_signal import NoticeSignal, signal_asked_for

NOTICE = Notice(1e9, "node a goes away")
SCRIPT = """
import signal, sys
handled = signal.SIGUSR1 if sys.argv[1] == "handles" else signal.SIGUSR2
signal.signal(handled, lambda *_: print("told", flush=True))
print("ready", flush=True)
for line in sys.stdin:
    print(line, end="", flush=True)
"""


@pytest.mark.parametrize("way", ["handles", "handles another"])
def test_a_process_with_a_handler_is_told_once_for_each_notice(way: str) -> None:
    command = [sys.executable, "-c", SCRIPT, way]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as one:
        assert one.stdin is not None
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
        told = NoticeSignal(signal.SIGUSR1, lambda: [one.pid])
        told.look(None)
        for _ in range(3):
            told.look(NOTICE)
        printed = [one.stdout.readline()] if way == "handles" else []
        told.look(Notice(2e9, "node b goes away"))
        printed += [one.stdout.readline()] if way == "handles" else []
        one.stdin.write("alive\n")
        one.stdin.close()
        printed.append(one.stdout.readline())
    assert printed == (["told\n", "told\n", "alive\n"] if way == "handles" else ["alive\n"])


B = "node b goes away"


@pytest.mark.parametrize(
    ("notices", "num_signals"),
    [
        ([(100, B), (100, B)], 1),
        ([(100, B), (160, B)], 1),
        ([(100, B), (160, B), (130, B), (160, B)], 1),
        ([(100, B), (40, B)], 2),
        ([(100, B), (160, "node c goes away")], 2),
        ([(100, B), None, (100, B)], 1),
        ([(100, B), None, (160, B), (190, B)], 2),
    ],
    ids=[
        "the same",
        "a later end, as a new leader tells it",
        "an end that is never sooner than the first",
        "a sooner end",
        "another node",
        "the same, after a world without it",
        "withdrawn, and a new one",
    ],
)
def test_a_notice_that_is_told_again_is_no_new_one(
    notices: list[tuple[float, str] | None], num_signals: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(notice_signal, "handles", lambda pid, number: True)
    monkeypatch.setattr(os, "kill", lambda pid, number: sent.append((pid, number)))
    told = NoticeSignal(signal.SIGUSR1, lambda: [7])
    for notice in notices:
        told.look(Notice(*notice) if notice is not None else None)
    assert sent == [(7, signal.SIGUSR1)] * num_signals


def test_without_being_asked_it_tells_nobody() -> None:
    NoticeSignal(None, lambda: pytest.fail("nobody is looked for")).look(NOTICE)


def test_the_signal_is_named_in_the_environment(caplog: pytest.LogCaptureFixture) -> None:
    assert signal_asked_for({}) is None
    assert signal_asked_for({"SPOTRUN_NOTICE_SIGNAL": "SIGUSR2"}) is signal.SIGUSR2
    assert signal_asked_for({"SPOTRUN_NOTICE_SIGNAL": "USR2"}) is None
    assert "USR2 is not the name of a signal" in caplog.text
