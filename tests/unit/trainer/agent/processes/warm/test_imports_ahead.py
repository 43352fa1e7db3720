"""A script cannot tell that its libraries were imported ahead of it."""

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

import pytest

from spotrun_trainer.agent.processes.warm.imports_ahead import UnfitError, import_ahead
from spotrun_trainer.agent.processes.warm.pool import Interpreters
from spotrun_trainer.hooks import imported as notes
from spotrun_trainer.hooks.imported import IMPORTED_FILE, Imported, imported_in, note_imported
from spotrun_trainer.telemetry.trace import Trace
from tests.unit.trainer.agent.scripts import command_of

GIVEN = {"RANK": "1", "LOCAL_RANK": "0"}
FIRST = """
    import os
    from pathlib import Path
    Path({count!r}).open("a").write("x")  # at each time that it is executed
    flavour = os.environ.get("HF_FLAVOUR", "plain")
    print("words of the first")
"""
SECOND = """
    import first_package
    def first(): return first_package
"""
SCRIPT = """
    import json, os, sys
    def seen(): return sorted(n for n in sys.modules if n.endswith("_package"))
    found = [seen()]
    {before}
    import second_package
    found += [seen(), second_package.first().flavour, os.environ["RANK"]]
    import late_package
    found += [seen(), second_package.first() is sys.modules["first_package"]]
    print(json.dumps(found))
"""
ALL = ["first_package", "late_package", "second_package"]


@dataclass
class Packages:
    """Installed packages, and what a script's last process has noted of them."""

    folder: Path

    def __post_init__(self) -> None:
        self.count = self.folder / "count"
        self.notes = self.folder / "notes"
        self.notes.mkdir()
        self.add("first_package", FIRST.format(count=str(self.count)))
        self.add("second_package", SECOND)
        self.add("late_package", "")

    def add(self, name: str, content: str) -> None:
        (self.folder / f"{name}.py").write_text(textwrap.dedent(content))

    def run(self, before: str = "", imported: Sequence[str] = ()) -> tuple[list[object], bool]:
        """Run the script as a restart does; return what it saw, and whether it began anew."""
        interpreters = Interpreters(
            Trace(None),
            room=lambda: 1e12,
            clock=time.monotonic,
            imported=imported,
            directory=self.notes,
        )
        environment = {**os.environ, **GIVEN}
        command = command_of(self.folder, SCRIPT.format(before=before))
        interpreters.start(command, environment, 1, 2)  # none waits yet
        interpreters._not_before = 0.0
        interpreters.look()
        with (self.folder / "out").open("wb") as out:
            process = interpreters.start(command, environment, out.fileno(), 2)
        assert process is not None
        assert process.wait(60) == 0
        (*_, last) = (self.folder / "out").read_text().splitlines()
        return json.loads(last), "words of the first" in (self.folder / "out").read_text()


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.delenv("HF_FLAVOUR", raising=False)
    return Packages(tmp_path)


def test_a_script_sees_each_when_it_imports_it(packages: Packages) -> None:
    Imported(("second_package", "late_package")).write(packages.notes)

    found, is_anew = packages.run()

    assert found == [[], ["first_package", "second_package"], "plain", "1", ALL, True]
    assert not is_anew
    assert packages.count.read_text() == "x", "imported once, ahead"


def test_without_notes_only_torch_is_imported_ahead(packages: Packages) -> None:
    assert packages.run() == ([[], ALL[::2], "plain", "1", ALL, True], True)


def test_a_script_that_sets_what_they_read_begins_anew_and_the_next_has_torch_only(
    packages: Packages,
) -> None:
    Imported(("second_package", "late_package")).write(packages.notes)
    sets = 'os.environ["HF_FLAVOUR"] = "sweet"'

    for times in ("xx", "xxx"):
        found, is_anew = packages.run(sets)
        assert found[2] == "sweet"
        assert is_anew
        assert packages.count.read_text() == times
    assert Imported.read(packages.notes).is_too_late


def test_a_script_that_sets_what_nobody_has_read_goes_on(packages: Packages) -> None:
    Imported(("second_package", "late_package")).write(packages.notes)

    assert not packages.run('os.environ["HF_COLOUR"] = "red"')[1]


def test_a_package_that_runs_a_command_is_imported_ahead(packages: Packages) -> None:
    """To find it, subprocess looks up a name in bytes."""
    runs = "import subprocess; subprocess.run(['true'])"
    packages.add("first_package", f"{FIRST.format(count=str(packages.count))}    {runs}")
    Imported(("second_package", "late_package")).write(packages.notes)

    found, is_anew = packages.run()

    assert found[2] == "plain"
    assert not is_anew


@pytest.mark.parametrize(
    ("sets", "seen"),
    [
        ("torch.set_default_dtype(torch.float64)", "torch.float64 cpu"),
        ("torch.set_default_device('meta')", "torch.float32 meta"),
    ],
)
def test_a_package_makes_its_tensors_by_the_defaults_that_the_script_has_set(
    packages: Packages, sets: str, seen: str
) -> None:
    made = 'import torch\nmade = torch.ones(1)\nflavour = f"{made.dtype} {made.device}"\n'
    told = 'print("words of the first")'
    packages.add("first_package", made + told)
    Imported(("second_package", "late_package")).write(packages.notes)

    plain, is_anew = packages.run("import torch", imported=("torch",))
    assert (plain[2], is_anew) == ("torch.float32 cpu", False)
    for _ in range(2):
        found, is_anew = packages.run(f"import torch; {sets}", imported=("torch",))
        assert (found[2], is_anew) == (seen, True)
        assert Imported.read(packages.notes).is_too_late, "the next has PyTorch only"


def test_torchs_defaults_are_noted_of_the_import_that_brings_torch() -> None:
    """Else what stands in one import with it, and makes tensors, is taken for fit in any script."""
    program = """
import sys
from spotrun_trainer.agent.processes.warm.imports_ahead import import_ahead
assert "torch" not in sys.modules
print(import_ahead(["torch"], own=[], given=[])[0].defaults)
"""
    said = subprocess.run(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=120
    )
    assert said.stdout.decode().strip() == str(
        {"torch's default dtype": "torch.float32", "torch's default device": "cpu"}
    )


def test_a_package_that_reads_the_rank_is_left_to_the_script(packages: Packages) -> None:
    packages.add("first_package", "import os\nflavour = os.environ.get('RANK')")
    Imported(("second_package", "late_package")).write(packages.notes)
    interpreters = Interpreters(
        Trace(None), room=lambda: 1e12, imported=(), directory=packages.notes
    )
    command = command_of(packages.folder, "import first_package; print(first_package.flavour)")
    interpreters.start(command, {**os.environ, **GIVEN}, 1, 2)
    interpreters._not_before = 0.0
    interpreters.look()
    assert interpreters.start(command, {**os.environ, **GIVEN}, 1, 2) is None

    interpreters._not_before = 0.0
    interpreters.look()
    with (packages.folder / "out").open("wb") as out:
        process = interpreters.start(command, {**os.environ, **GIVEN}, out.fileno(), 2)

    assert process is not None, "with PyTorch only"
    assert process.wait(60) == 0
    assert (packages.folder / "out").read_text() == "1\n"


def test_another_begins_when_a_script_has_noted_its_imports(packages: Packages) -> None:
    interpreters = Interpreters(
        Trace(None), room=lambda: 1e12, imported=(), directory=packages.notes
    )
    command = command_of(packages.folder, "pass")
    interpreters.start(command, {**os.environ, **GIVEN}, 1, 2)
    interpreters._not_before = 0.0
    interpreters.look()
    (waiting,) = interpreters.pids
    Imported(("late_package",)).write(packages.notes)
    interpreters._not_before = 0.0
    interpreters.look()
    (other,) = interpreters.pids
    interpreters.close()
    assert waiting != other


def test_the_scripts_own_package_stands_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "datasets_of_mine.py").touch()
    monkeypatch.setattr(
        "spotrun_trainer.agent.processes.warm.imports_ahead.folders_of_packages", lambda: [tmp_path]
    )
    with pytest.raises(UnfitError, match="datasets_of_mine"):
        import_ahead([], own=["datasets_of_mine"], given=[])


@pytest.mark.parametrize("rank", [0, 1])
def test_lightning_knows_its_rank(rank: int) -> None:
    program = f"""
import os
from spotrun_trainer.agent.processes.warm.imports_ahead import correct_ranks, import_ahead
import_ahead(["lightning.pytorch"], own=[], given=["RANK", "LOCAL_RANK", "WORLD_SIZE"])
os.environ.update(RANK="{rank}", LOCAL_RANK="{rank}")
correct_ranks()
from lightning.pytorch.utilities import rank_zero_only
from torchmetrics.utilities.prints import rank_zero_only as other
print(rank_zero_only.rank, other.rank)
"""
    said = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert said.stdout.split() == [b"%d" % rank] * 2


def test_modules_are_noted_by_where_they_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = imported_in(
        _modules({"a.b": "/site/a/b.py", "mine.x": "/own/mine/x.py"}), [Path("/site")]
    )
    assert noted == Imported(("a.b",), ("mine",))

    monkeypatch.setattr(notes, "folders_of_packages", lambda: [Path(pytest.__file__).parents[1]])
    note_imported(tmp_path)
    assert "pytest" in Imported.read(tmp_path).installed

    Imported(is_too_late=True).write(tmp_path)
    note_imported(tmp_path)
    assert Imported.read(tmp_path) == Imported(is_too_late=True)


@pytest.mark.parametrize("content", [None, "", "[]", '{"installed": 3}'])
def test_what_is_damaged_says_nothing(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / IMPORTED_FILE).write_text(content)
    assert Imported.read(tmp_path) == Imported()


def _modules(origins: Mapping[str, str]) -> dict[str, ModuleType | None]:
    found: dict[str, ModuleType | None] = {}
    for name, origin in origins.items():
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None, origin=origin)
        found[name] = module
    return found
