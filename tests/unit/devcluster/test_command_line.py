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


@pytest.mark.parametrize(
    ("arguments", "value", "expected"),
    [
        (["add-node", "a", "--gpus"], "-3", "is not a count"),
        (["add-node", "a", "--gpus"], "2.5", "is not a count"),
        (["add-node", "a", "--gpus"], "many", "is not a count"),
        (["add-node", "a", "--cpu"], "-1", "is not a quantity"),
        (["add-node", "a", "--memory"], "32GB", "is not a quantity"),
        (["add-node", "a", "--label"], "team", "is not KEY=VALUE"),
        (["add-node", "a", "--label"], "=vision", "is not KEY=VALUE"),
        (["notice", "a", "--seconds"], "nan", "is not a time in seconds"),
        (["notice", "a", "--seconds"], "-1", "is not a time in seconds"),
        (["shut-down", "a", "--grace"], "soon", "is not a time in seconds"),
        (["up", "--flag"], "kubelet:--v=1", "is not COMPONENT:--name=value with one of etcd, "),
        (["up", "--flag"], "kube-apiserver", "is not COMPONENT:--name=value with one of etcd, "),
    ],
)
def test_a_value_that_will_not_do_is_wrong_usage(
    arguments: list[str], value: str, expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    *command, flag = arguments
    with pytest.raises(SystemExit) as ended:
        command_line.main([*command, f"{flag}={value}"])

    assert ended.value.code == 2
    assert f"{value!r} {expected}" in capsys.readouterr().err


@pytest.mark.parametrize("quantity", ["0", "8", "1.5", "500m", "64k", "100M", "32Gi", "2Ti"])
def test_quantities_are_as_kubernetes_writes_them(quantity: str) -> None:
    assert quantity == parser().parse_args(["add-node", "a", f"--cpu={quantity}"]).cpu


def test_labels_come_in_pairs() -> None:
    given = parser().parse_args(["add-node", "a", "--label=team=vision", "--label=key=a=b"])
    assert given.label == [("team", "vision"), ("key", "a=b")]


def test_flags_go_to_their_components() -> None:
    given = ["etcd:--a=1", "kube-apiserver:--b=2:3", "etcd:--c"]
    expected = {"etcd": ["--a=1", "--c"], "kube-apiserver": ["--b=2:3"]}
    assert expected == command_line.extra_flags(parser().parse_args(["up", *_each(given)]).flag)


@pytest.mark.parametrize("command", ["up", "run"])
def test_a_directory_with_files_of_others_is_left_alone(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")

    assert command_line.main([command, f"--directory={tmp_path}"]) == 1
    assert command_line.main(["down", f"--directory={tmp_path}"]) == 0

    assert "is not empty and belongs to no cluster" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_directory_of_a_cluster_is_ours(tmp_path: Path) -> None:
    supervisor.require_own(tmp_path)
    supervisor.require_own(tmp_path / "none")
    (tmp_path / supervisor.LOG).write_text("what the last one said when it did not start")
    supervisor.require_own(tmp_path)
    (tmp_path / supervisor.STATE).write_text("{}")
    (tmp_path / "etcd").mkdir()
    supervisor.require_own(tmp_path)


@pytest.mark.parametrize("command", ["up", "run"])
@pytest.mark.parametrize("flag", ["--directory", "--logs"])
def test_a_place_where_nothing_can_be_written_is_wrong_usage(
    command: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(SystemExit) as ended:
        command_line.main([command, f"{flag}={file / 'below'}"])

    assert ended.value.code == 2
    expected = f"'{file}/below' cannot be written, because of {file}: name a folder that you may"
    assert expected in capsys.readouterr().err


def test_a_place_that_can_be_made_will_do(tmp_path: Path) -> None:
    folder = tmp_path / "one" / "two"
    assert folder == parser().parse_args(["up", f"--logs={folder}"]).logs
    assert not folder.parent.exists()


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


def _each(flags: list[str]) -> list[str]:
    return [f"--flag={flag}" for flag in flags]
