"""`python -m demo`: what cannot be done is refused before anything starts."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo import command
from demo.__main__ import main

HEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in HEEDED}
    monkeypatch.setattr(command, "run", lambda *_: pytest.fail("it was started"))
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize(
    ("flag", "name", "expected"),
    [
        ("--record", "missing/demo.svg", "missing/demo.svg' cannot be written: No such file or "),
        ("--record", "file/demo.svg", "file/demo.svg' cannot be written: Not a directory. Name "),
        ("--record", "", "Is a directory. Name a file in a folder that exists"),
        ("--job", "missing.yaml", "missing.yaml cannot be read as a manifest: "),
        ("--job", "file", "file is not the manifest of one TrainingJob"),
        ("--scripts", "missing", "missing' is not a folder: name an existing one"),
        ("--scripts", "file", "file' is not a folder: name an existing one"),
    ],
)
def test_a_path_that_will_not_do_is_wrong_usage(
    flag: str, name: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SystemExit) as ended:
        main([flag, str(tmp_path / name)])

    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("python -m demo: error: ")
    assert expected in said
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_what_was_asked_for_is_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[command.Options] = []

    def run(options: command.Options, _pid_file: Path) -> int:
        ran.append(options)
        return os.EX_OK

    monkeypatch.setattr(command, "run", run)
    recording = tmp_path / "demo.svg"
    assert main(["--keep", "--record", str(recording), "--scripts", str(tmp_path)]) == os.EX_OK
    (options,) = ran
    assert options.job.name == "tiny-lm"
    assert (options.keep, options.plain, options.record) == (True, False, recording)
