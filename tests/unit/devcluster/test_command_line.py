"""`python -m devcluster`: wrong usage is said, and costs nobody a file."""

import subprocess
import sys
from pathlib import Path

import pytest

from devcluster import __main__ as command_line
from devcluster import supervisor
from devcluster.arguments import parser


@pytest.mark.parametrize("name", ["..", "../x", "a/b", "", "-x", "a b", ".", "a" * 64])
def test_a_name_leads_nowhere_else(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["down", f"--name={name}"])

    assert ended.value.code == 2
    assert f"{name!r} is no name" in capsys.readouterr().err


@pytest.mark.parametrize("gpus", ["-3", "2.5", "many"])
def test_gpus_are_counted(gpus: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main(["add-node", "a", f"--gpus={gpus}"])

    assert ended.value.code == 2
    assert f"{gpus!r} is no number of them" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["up", "run"])
def test_a_directory_with_files_of_others_is_left_alone(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    assert command_line.main([command, f"--directory={tmp_path}"]) == 1
    assert command_line.main(["down", f"--directory={tmp_path}"]) == 0

    assert "is not empty, and no cluster's" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_directory_of_a_cluster_is_ours(tmp_path: Path) -> None:
    supervisor.require_own(tmp_path)
    supervisor.require_own(tmp_path / "none")
    (tmp_path / supervisor.LOG).write_text("what the last one said when it did not start")
    supervisor.require_own(tmp_path)
    (tmp_path / supervisor.STATE).write_text("{}")
    (tmp_path / "etcd").mkdir()
    supervisor.require_own(tmp_path)


def test_a_place_where_nothing_can_be_written_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()

    assert command_line.main(["up", f"--directory={tmp_path / 'file' / 'below'}"]) == 1

    assert str(tmp_path / "file") in capsys.readouterr().err


def test_a_command_without_its_cluster_says_how_to_start_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.main(["env", f"--directory={tmp_path / 'none'}"]) == 1
    assert "start a cluster with `up`" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "-m devcluster env"),
        (["--name=other"], "-m devcluster env --name=other"),
        (["--directory=a b"], "-m devcluster env '--directory=a b'"),
    ],
)
def test_the_next_step_is_about_this_very_cluster(arguments: list[str], expected: str) -> None:
    told = command_line._env_command(parser().parse_args(["up", *arguments]))

    python, _, rest = told.partition(" ")
    assert rest == expected
    assert Path(python).resolve() == Path(sys.executable).resolve()


def test_a_python_without_the_libraries_is_told_of_the_right_one() -> None:
    program = (
        "import runpy, sys\n"
        "sys.modules['aiohttp'] = None\n"
        "runpy.run_module('devcluster', run_name='__main__')\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=30
    )

    assert ran.returncode == 1
    assert ".venv/bin/python, which `make setup` makes" in ran.stderr
    assert "Traceback" not in ran.stderr
