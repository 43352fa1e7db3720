"""The two command lines: what they promise, and that they do not pretend."""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest

from spotrun.__main__ import main as spotrun
from spotrun.cli.kubectl import main as kubectl_tjob

Main = Callable[[Sequence[str]], int]


def shown(main: Main, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What a help text says; argparse breaks lines where they end, so spaces are one."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0
    return " ".join(capsys.readouterr().out.split())


def test_help_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert "operator run the operator simulate replay" in shown(spotrun, ["--help"], capsys)
    assert "estimate the range of cost" in shown(kubectl_tjob, ["--help"], capsys)


def test_help_of_the_operator_teaches_by_examples(capsys: pytest.CaptureFixture[str]) -> None:
    help_text = shown(spotrun, ["operator", "--help"], capsys)

    assert "spotrun operator --watch-namespace ml --advertise 192.0.2.7:8443" in help_text
    assert "[SPOTRUN_WATCH_NAMESPACE]" in help_text


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param([], "the following arguments are required: COMMAND", id="no command"),
        pytest.param(["fly"], "invalid choice: 'fly'", id="unknown command"),
    ],
)
@pytest.mark.parametrize("main", [spotrun, kubectl_tjob])
def test_a_wrong_command_line_is_a_usage_error(
    main: Main, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--fly"], "unrecognized arguments: --fly; `spotrun operator --help` lists all"),
        (["--agents-por", "1"], "unrecognized arguments: --agents-por 1"),
        (["--agents-port", "0"], "--agents-port: '0' is no port: use a number from 1 to 65535"),
        (["--tls-cert", "a"], "--tls-cert, --tls-key and --tls-ca go together"),
    ],
)
def test_wrong_flags_are_refused_before_anything_starts(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        spotrun(["operator", *arguments])

    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("spotrun.__main__", "operator"),
        ("spotrun.__main__", "simulate"),
        ("spotrun.cli.kubectl", "estimate"),
    ],
)
def test_help_needs_no_library(module: str, command: str) -> None:
    # Agents' images have the console scripts, and none of the operator's libraries.
    program = (
        "import sys\n"
        f"from {module} import main\n"
        "try:\n"
        f"    main(['{command}', '--help'])\n"
        "finally:\n"
        "    print(sorted({'kopf', 'aiohttp', 'uvloop', 'pydantic', 'yaml'} & set(sys.modules)))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=30
    )

    assert ran.stdout.splitlines()[-1] == "[]"


def test_missing_libraries_are_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    monkeypatch.delitem(sys.modules, "spotrun.cli.operator_process.command", raising=False)

    with pytest.raises(SystemExit) as ended:
        spotrun(["operator"])

    assert ended.value.code == 2
    assert "pip install 'spotrun[operator]'" in capsys.readouterr().err


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("lines", [1, 100_000])
def test_whoever_closes_the_output_ends_a_command_in_silence(unbuffered: str, lines: int) -> None:
    program = (
        "import sys\n"
        "from spotrun.cli.console import CommandLine\n"
        "line = CommandLine('it', 'It.')\n"
        f"line.add('say', 'say it', lambda _: lambda: [print(n) for n in range({lines})] and 0)\n"
        "sys.exit(line.run(['say']))\n"
    )

    ran = with_nobody_reading(["-c", program], unbuffered)

    assert (ran.returncode, ran.stderr) == (141, "")


@pytest.mark.parametrize("module", ["spotrun", "spotrun.cli.kubectl"])
def test_whoever_closes_the_output_ends_help_in_silence(module: str) -> None:
    ran = with_nobody_reading(["-m", module, "--help"], unbuffered="")

    assert (ran.returncode, ran.stderr) == (141, "")


def with_nobody_reading(arguments: list[str], unbuffered: str) -> subprocess.CompletedProcess[str]:
    read, write = os.pipe()
    os.close(read)
    try:
        return subprocess.run(
            [sys.executable, *arguments],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=30,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )
    finally:
        os.close(write)


def test_who_has_closed_the_output_before_wants_none() -> None:
    program = (
        "import sys\n"
        "from spotrun.__main__ import main\n"
        "sys.stdout = None\n"  # as Python has it where descriptor 1 is closed
        "main(['--version'])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )

    assert ran.returncode == 0
    assert "Traceback" not in ran.stderr


def test_ctrl_c_while_the_libraries_are_loaded_is_no_traceback(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("spotrun.runtime.options.read", interrupted)

    assert spotrun(["operator"]) == 130
    assert capsys.readouterr().err == "\nspotrun operator: interrupted before its end\n"
