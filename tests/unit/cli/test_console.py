"""The two command lines: what they promise, and that they do not pretend."""

from collections.abc import Callable, Sequence

import pytest

from spotrun.__main__ import main as spotrun
from spotrun.cli.kubectl import main as kubectl_tjob

Main = Callable[[Sequence[str]], int]

COMMANDS = [(spotrun, "operator"), (spotrun, "simulate"), (kubectl_tjob, "estimate")]


@pytest.mark.parametrize(("main", "command"), COMMANDS)
def test_a_planned_command_says_so_and_fails(
    main: Main, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--replicas", "3"]) == 2

    printed = capsys.readouterr()
    assert f"{command}: not built yet" in printed.err
    assert printed.out == ""


@pytest.mark.parametrize(("main", "command"), COMMANDS)
def test_help_lists_a_planned_command_as_planned(
    main: Main, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])

    assert ended.value.code == 0
    # argparse breaks lines where they end, so spaces are compared as one.
    printed = " ".join(capsys.readouterr().out.split())
    assert f" {command} " in printed
    assert "(not built yet)" in printed


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
