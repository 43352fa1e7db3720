"""How the watch gets into processes of scripts in which not a line is changed."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from spotrun_trainer.agent.processes.warm.pool import Interpreters
from spotrun_trainer.hooks.python_path import SITE, watch_processes, with_site
from spotrun_trainer.process.ipc_files import read_progress
from spotrun_trainer.telemetry.trace import Trace
from tests.unit.trainer.agent.scripts import until_ready

TRAINING = """
    import torch

    parameter = torch.nn.Parameter(torch.ones(3))
    opt = torch.optim.SGD([parameter], lr=0.1)
    for batch in torch.utils.data.DataLoader(range(5), batch_size=1):
        parameter.sum().backward()
        opt.step()
"""


def ran(
    script: str, folder: Path, *options: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """A script run by a Python with our folder in its PYTHONPATH, as the agent has it."""
    env = {**os.environ, "SPOTRUN_DIR": str(folder), "SPOTRUN_WORLD_NUMBER": "3", **environment}
    watch_processes(env)
    file = folder / "script.py"
    file.write_text(textwrap.dedent(script))
    return subprocess.run(
        [sys.executable, *options, str(file)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_a_script_that_knows_nothing_of_spotrun_is_counted(tmp_path: Path) -> None:
    done = ran(TRAINING, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    telling = read_progress(tmp_path)
    assert (telling.world_number, telling.step) == (3, 5)
    assert telling.signs == 5  # since the first step: four batches, and their end


def test_a_child_that_is_forked_before_training_may_train(tmp_path: Path) -> None:
    parent = """
        import os, sys, torch
        if os.fork():
            sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    done = ran(textwrap.dedent(parent) + textwrap.dedent(TRAINING), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert read_progress(tmp_path).step == 5


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    assert ran(TRAINING, tmp_path, SPOTRUN_COUNT_STEPS="0").returncode == 0
    assert not (tmp_path / "progress.json").exists()


def test_an_error_leaves_the_script_alone_and_is_said_once(tmp_path: Path) -> None:
    broken = tmp_path / "broken" / "spotrun_trainer"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise RuntimeError('an old image')")
    done = ran(TRAINING + "    print('done')", tmp_path, PYTHONPATH=str(broken.parent))
    assert (done.returncode, done.stdout) == (0, "done\n")
    lines = done.stderr.splitlines()
    assert len(lines) <= 2  # one for the optimizers, one for the loaders
    assert "steps are not counted, the script continues" in lines[0]


def test_neither_torch_nor_ours_is_imported_for_a_script_without_it(tmp_path: Path) -> None:
    script = """
        import json, sys
        print(json.dumps([name for name in sys.modules if name.startswith(("torch", "spotrun"))]))
    """
    assert json.loads(ran(script, tmp_path).stdout) == []


def test_a_sitecustomize_that_was_there_runs_too(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import sys; sys.was_customized = True")
    script = """
        import sys, sitecustomize
        print(sys.was_customized, sitecustomize.__file__)
    """
    printed = ran(script, tmp_path, PYTHONPATH=str(theirs)).stdout
    assert printed == f"True {theirs / 'sitecustomize.py'}\n"


CHAINS_BY_IMPORT = """
    import os, sys

    {note}
    here = os.path.dirname(__file__)
    if here in sys.path:
        place = sys.path.index(here)
        del sys.path[place]
        mine = sys.modules.pop("sitecustomize")
        try:
            import sitecustomize
        except ImportError:
            sys.modules["sitecustomize"] = mine
        finally:
            sys.path.insert(place, here)
"""
CHAINS_BY_FINDER = """
    import os, sys
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    {note}
    here = os.path.dirname(__file__)
    spec = PathFinder.find_spec("sitecustomize", [one for one in sys.path if one != here])
    if spec is not None:
        sys.modules["sitecustomize"] = module_from_spec(spec)
        spec.loader.exec_module(sys.modules["sitecustomize"])
"""


@pytest.mark.parametrize("chains", [CHAINS_BY_IMPORT, CHAINS_BY_FINDER])
def test_sitecustomizes_that_look_for_the_next_one_all_run_once(
    chains: str, tmp_path: Path
) -> None:
    names = "first", "second", "third"
    for name in names:
        (tmp_path / name).mkdir()
        note = f"sys.ran = [*getattr(sys, 'ran', []), {name!r}]"
        file = tmp_path / name / "sitecustomize.py"
        file.write_text(
            textwrap.dedent(chains if name != "third" else "import sys\n{note}").format(note=note)
        )
    script = textwrap.dedent(TRAINING) + "import sys; print(*sys.ran)"
    path = os.pathsep.join(str(tmp_path / name) for name in names)
    if "PYTHONPATH" in os.environ:
        path += os.pathsep + os.environ["PYTHONPATH"]
    done = ran(script, tmp_path, PYTHONPATH=path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "first second third\n")
    assert read_progress(tmp_path).step == 5


def test_a_process_starts_as_quickly(tmp_path: Path) -> None:
    done = ran("pass", tmp_path, "-X", "importtime")
    lines = [line for line in done.stderr.splitlines() if "sitecustomize" in line]
    own_microseconds = [int(line.split("|")[0].rpartition(":")[2]) for line in lines]
    assert lines
    assert sum(own_microseconds) < 50_000  # on a busy machine; a millisecond on an idle one


@pytest.mark.parametrize("before", ["", "/a:/b", ":/a", "/a:"])
def test_the_folder_is_put_before_the_others_once(before: str) -> None:
    once = with_site({"PYTHONPATH": before})
    assert once == (f"{SITE}:{before}" if before else str(SITE))
    assert with_site({"PYTHONPATH": once}) == once


def test_an_interpreter_that_was_begun_ahead_counts_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", with_site(os.environ))
    file = tmp_path / "script.py"
    file.write_text(textwrap.dedent(TRAINING))
    interpreters = Interpreters(Trace(None), room=lambda: 1e12)
    interpreters._not_before = 0.0
    interpreters.look()
    until_ready(interpreters)
    env = {**os.environ, "SPOTRUN_WORLD_NUMBER": "4"}
    process = interpreters.start([sys.executable, "-u", str(file)], env, 1, 2)
    assert process is not None
    assert process.wait(timeout=120) == 0
    interpreters.close()
    told = read_progress(tmp_path)
    assert (told.world_number, told.step) == (4, 5)


def test_a_script_that_fails_after_it_has_set_a_variable_runs_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", with_site(os.environ))
    file, runs, noted = tmp_path / "script.py", tmp_path / "runs", tmp_path / "error.json"
    file.write_text(
        f"import os\nos.environ['OMP_NUM_THREADS'] = '4'\n"
        f"open({str(runs)!r}, 'a').write('run\\n')\nraise RuntimeError('no such data set')\n"
    )
    interpreters = Interpreters(
        Trace(None), room=lambda: 1e12, imported=("spotrun_trainer.hooks.uncaught",)
    )
    interpreters._not_before = 0.0
    interpreters.look()
    until_ready(interpreters)
    env = {**os.environ, "TORCHELASTIC_ERROR_FILE": str(noted)}
    process = interpreters.start([sys.executable, "-u", str(file)], env, 1, 2)
    assert process is not None
    assert process.wait(timeout=120) == 1
    interpreters.close()
    assert runs.read_text() == "run\n"
    assert "no such data set" in noted.read_text()
