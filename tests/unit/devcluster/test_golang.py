"""Which Go compiles the pins: the installed one if it can, else the pinned one."""

from pathlib import Path

import pytest

from devcluster.golang import find_go
from tests.support.processes.fake_programs import fake_go, program

ROOT = Path(__file__).parents[3]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with the pinned Go in its cache, a PATH of one folder, and a module to build."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/sh").symlink_to("/bin/sh")
    (tmp_path / "module").mkdir()
    (tmp_path / "module/go.mod").write_text("module example\n\ngo 1.26.2\n")
    return tmp_path


def found(machine: Path) -> str:
    """`bin` or `pinned`: where the Go is from that is taken."""
    said: list[str] = []
    pinned = pinned_go(machine)
    go = Path(find_go(machine / "module", said.append))
    assert said == []
    return {machine / "bin/go": "bin", pinned: "pinned"}[go]


def pinned_go(machine: Path) -> Path:
    pin = (ROOT / "devcluster/binaries/go-toolchain.txt").read_text().split()[0]
    go = machine / "cache/spotrun" / pin.replace("==", "-") / "go/bin/go"
    program(go, "exit 1")  # nobody asks it
    return go


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        ("go1.26.2", "bin"),
        ("go1.26.10", "bin"),
        ("go1.27", "bin"),
        ("'go1.26.3 X:nodwarf5'", "bin"),
        ("go2.0.1", "bin"),
        ("go1.26.1", "pinned"),
        ("go1.26", "pinned"),
        ("go1.26rc1", "pinned"),
        ("go1.27rc2", "pinned"),
        ("go1.9.7", "pinned"),
        ("go1.19.8", "pinned"),
        ("go1.25.11", "pinned"),
        ("'devel go1.27-3f2a'", "pinned"),
        ("''", "pinned"),
    ],
)
def test_an_installed_one_is_taken_from_what_go_mod_asks_for_on(
    machine: Path, version: str, taken: str
) -> None:
    fake_go(machine / "bin/go", "exit 1", version)

    assert taken == found(machine)


def test_an_older_one_is_taken_that_fetches_a_newer_one_in_the_modules_folder(
    machine: Path,
) -> None:
    program(machine / "bin/go", "[ -f go.mod ] && echo go1.26.2 || echo go1.21.0")

    assert found(machine) == "bin"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("echo 'go: toolchain not available' >&2; exit 1", id="cannot fetch one"),
        pytest.param("echo 'go version go1.19.8 linux/amd64'", id="does not know what is asked"),
    ],
)
def test_one_that_cannot_say_is_not_taken(machine: Path, script: str) -> None:
    program(machine / "bin/go", script)

    assert found(machine) == "pinned"


def test_none_of_another_architecture_is_taken(machine: Path) -> None:
    (machine / "bin/go").write_bytes(b"\x7fELF")
    (machine / "bin/go").chmod(0o755)

    assert found(machine) == "pinned"


def test_without_an_installed_one_the_pinned_one_is_taken(machine: Path) -> None:
    assert found(machine) == "pinned"
