"""The shape of the repository: what would break imports, leak a path, or drag libraries along."""

import ast
import os
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPTS = Path(sys.executable).parent


def repository_files() -> list[Path]:
    """Every file that is or would be checked in."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]


def run_python(*arguments: str, cwd: Path = ROOT, path: Path | None = None) -> str:
    """What a Python of our own version prints, with `path` as its PYTHONPATH."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        environment["PYTHONPATH"] = str(path)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    ).stdout


def test_operator_is_a_source_root_and_no_package() -> None:
    # With an __init__.py it would shadow the standard library's module of that name.
    assert not (ROOT / "operator/__init__.py").exists()
    assert not (ROOT / "trainer_image/__init__.py").exists()


@pytest.mark.parametrize("way", ["from the repository root", "with the root on sys.path"])
def test_import_operator_is_the_standard_library(way: str, tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules.pop('operator', None); import operator; print(operator.__file__)"
    )
    if way == "from the repository root":
        printed = run_python("-c", program)
    else:
        printed = run_python("-c", program, cwd=tmp_path, path=ROOT)

    assert Path(printed.strip()) == Path(sysconfig.get_path("stdlib")) / "operator.py"


def test_tests_are_no_packages() -> None:
    assert not (ROOT / "tests/operator").exists()
    assert list((ROOT / "tests").rglob("__init__.py")) == []


def test_every_policy_module_has_a_test_file_of_its_name() -> None:
    policies, tests = ROOT / "operator/spotrun/policies", ROOT / "tests/unit/policies"
    modules = [one.relative_to(policies) for one in policies.rglob("*.py")]
    named = [one.with_name(f"test_{one.name}") for one in modules if one.name != "__init__.py"]
    assert named
    assert [str(one) for one in named if not (tests / one).is_file()] == []


def test_no_model_is_changed_unchecked() -> None:
    # pydantic looks neither at the names nor at the values that it copies in: `having` does.
    unchecked = re.compile(r"\.model_copy\(")
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "operator").rglob("*.py")
        if unchecked.search(path.read_text())
    ]

    assert found == []


def test_no_file_holds_a_path_of_somebodys_machine() -> None:
    homes = r"(?<![\w.~-]/)(?:home/\w|Users/\w|root(?=/))"
    # A checkout directly below the root, /src say, has too common a name to look for.
    checkout = rf"|{re.escape(str(ROOT)[1:])}(?!\w)" if len(ROOT.parts) > 2 else ""
    # It begins with a plain character: ten times as fast as with a look at what is before it.
    machine = re.compile(rf"/(?:{homes}{checkout})".encode())

    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in repository_files()
        for match in machine.finditer(path.read_bytes())
    ]

    assert found == []


@pytest.mark.parametrize("script", ["spotrun", "kubectl-tjob"])
def test_console_scripts_answer(script: str) -> None:
    for option, answer in (("--version", "spotrun "), ("--help", "usage: ")):
        ran = subprocess.run(
            [SCRIPTS / script, option], capture_output=True, text=True, check=True, timeout=30
        )
        assert ran.stdout.startswith(answer)


def test_console_scripts_need_nothing_but_the_standard_library() -> None:
    # -S leaves site-packages out: the distribution has no dependencies of its own.
    run_python("-S", "-c", "import spotrun.__main__, spotrun.cli.kubectl", path=ROOT / "operator")


def test_the_plugin_needs_no_more_than_its_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    cli, operator = (
        {re.match(r"[\w-]+", one)[0] for one in extras[name]}  # type: ignore[index]
        for name in ("cli", "operator")
    )
    # Blocked is what the operator has beyond that, by the names that are imported.
    blocked = [one.replace("-", "_") for one in sorted(operator - cli)]
    program = (
        f"import sys; sys.modules.update(dict.fromkeys({blocked})); import importlib\n"
        "from spotrun.cli.kubectl import VERBS\n"
        "modules = {verb.module for verb in VERBS.values()}\n"
        "modules |= {'spotrun.cli.doctor.checkup', 'spotrun.cli.doctor.sizes', 'spotrun.api.crd'}\n"
        "print(len([importlib.import_module(one) for one in modules]))"
    )
    assert cli < operator
    assert int(run_python("-c", program)) > 5


@pytest.mark.parametrize(
    ("sources", "allowed"),
    [
        pytest.param(
            "operator/spotrun/wire/*.py", {"spotrun"}, id="wire: the standard library only"
        ),
        pytest.param(
            "trainer_image/spotrun_trainer/**/*.py",
            {"torch", "typing_extensions", "spotrun", "spotrun_trainer"},
            id="trainer: torch, what torch brings along, and spotrun.wire only",
        ),
    ],
)
def test_what_goes_into_training_images_brings_no_libraries(
    sources: str, allowed: set[str]
) -> None:
    allowed = allowed | sys.stdlib_module_names
    files = list(ROOT.glob(sources))
    assert files
    foreign = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in files
        for name, line in imported_names(path)
        if name not in allowed and not is_adapter_for(path, name)
    ]

    assert foreign == []


def is_adapter_for(path: Path, framework: str) -> bool:
    """Whether a module adapts to a framework, store or format: whoever imports it has that."""
    if framework == "obstore":
        return path.parent.name in {"places", "store"}
    if framework in {"h5py", "numpy", "pyarrow", "zstandard"}:
        return path.parent.name == "formats"
    return path.parent.name in {"integrations", "trackers"} and path.stem == framework


def imported_names(path: Path) -> list[tuple[str, int]]:
    """The top-level names that a module imports, with their lines."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name.partition(".")[0], node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.append((node.module.partition(".")[0], node.lineno))
    return found


@pytest.mark.parametrize("layer", ["api", "money", "state", "policies"])
def test_pure_layers_read_no_clock(layer: str) -> None:
    # .importlinter keeps `time` out; `datetime` is needed for its types, and has clocks as well.
    clock = re.compile(r"\.(?:now|utcnow|today)\(")
    found = [
        f"{path.relative_to(ROOT)}: {read[0]}"
        for path in (ROOT / "operator/spotrun" / layer).rglob("*.py")
        for read in clock.finditer(path.read_text())
    ]

    assert found == []


WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_are_pinned_and_have_few_rights(path: Path) -> None:
    workflow: dict[str, Any] = yaml.safe_load(path.read_text())

    assert workflow["permissions"] == {"contents": "read"}
    assert "group" in workflow["concurrency"]
    for name, job in workflow["jobs"].items():
        assert job["timeout-minutes"] <= 60, name
        for step in job["steps"]:
            # A tag can be moved to other code, a commit cannot.
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", step.get("uses", f"a@{'0' * 40}")), step


@pytest.mark.parametrize("name", [".pre-commit-config.yaml", ".github/dependabot.yml"])
def test_other_configuration_is_yaml(name: str) -> None:
    assert isinstance(yaml.safe_load((ROOT / name).read_text()), dict)
