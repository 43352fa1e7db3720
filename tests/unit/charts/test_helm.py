"""Helm is found where it is good enough, and built where it is not."""

from pathlib import Path

import pytest

from charts import helm
from devcluster.golang import BuildError
from tests.support.processes.fake_programs import fake_go, program

# go build -trimpath -ldflags F -o OUT PACKAGE
BUILD = 'shift 5; echo built > "$1"'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and a PATH of one folder, `bin`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "bin").mkdir()
    return tmp_path


def silent(_: str) -> None:
    pass


def test_one_of_the_pinned_minor_is_used_as_it_is(machine: Path) -> None:
    minor = helm.version().rpartition(".")[0]
    program(machine / "bin/helm", f"echo {minor}.99+gabcdef0")

    assert helm.ensure(silent) == machine / "bin/helm"


@pytest.mark.parametrize("version", ["v3.15.4+gfa9efb0", "v40.3.1", "v4.30.1", ""])
def test_another_one_is_not_used(machine: Path, version: str) -> None:
    program(machine / "bin/helm", f"echo '{version}'")
    fake_go(machine / "bin/go", BUILD)

    assert helm.ensure(silent).read_text() == "built\n"


def test_a_broken_one_is_not_used(machine: Path) -> None:
    program(machine / "bin/helm", "exit 1")
    fake_go(machine / "bin/go", BUILD)

    assert helm.ensure(silent).read_text() == "built\n"


def test_it_is_built_once(machine: Path) -> None:
    fake_go(machine / "bin/go", BUILD)
    lines: list[str] = []
    built = helm.ensure(lines.append)
    assert any("helm: compiling" in line for line in lines)

    lines.clear()
    assert helm.ensure(lines.append) == built
    assert lines == []


def test_a_failed_build_leaves_nothing_half(machine: Path) -> None:
    fake_go(machine / "bin/go", "echo 'no such host' >&2; exit 1")

    with pytest.raises(BuildError, match=r"no such host\nIt needs Go"):
        helm.ensure(silent)
    assert list((machine / "cache").rglob("helm")) == []


def test_what_helm_refuses_comes_in_its_words(machine: Path) -> None:
    program(machine / "bin/helm", "echo 'Error: chart not found' >&2; exit 1")

    with pytest.raises(helm.HelmError, match=r"^Error: chart not found$"):
        helm.run(machine / "bin/helm", "lint", "nowhere")
