"""The output of processes that torchrun's own class starts, as it comes through the agent."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)

from spotrun_trainer.agent.processes.output_tail import (
    KEPT_BYTES,
    VARIABLE,
    tail_of,
    watch_output,
)

PRINTS = "import sys; print('out', flush=True); print('err', file=sys.stderr); sys.exit(3)"
AGENT = """
import sys
from spotrun_trainer.agent.processes import output_tail
from torch.distributed.elastic.multiprocessing.subprocess_handler.subprocess_handler import (
    SubprocessHandler,
)
output_tail.watch_output({})
program = "import sys; sys.stdout.write('x' * 1_000_000); sys.stderr.write('end')"
SubprocessHandler(sys.executable, ("-c", program), {}, None, None, 0, None).proc.wait()
"""


@pytest.fixture
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SubprocessHandler, "_popen", SubprocessHandler._popen)


def started(program: str, stderr: Path | None = None) -> SubprocessHandler:
    place = str(stderr) if stderr is not None else None
    handler = SubprocessHandler(sys.executable, ("-c", program), {}, None, place, 0, None)
    handler.proc.wait()
    for file in filter(None, (handler._stdout, handler._stderr)):
        file.close()
    return handler


@pytest.mark.usefixtures("_as_before")
def test_the_end_of_the_output_is_kept_and_all_of_it_is_handed_on(
    capfd: pytest.CaptureFixture[str],
) -> None:
    watch_output({})
    handler = started(PRINTS)
    assert set((tail_of(handler) or "").split()) == {"out", "err"}
    assert capfd.readouterr() == ("out\n", "err\n")


@pytest.mark.usefixtures("_as_before")
def test_only_so_much_is_kept() -> None:
    watch_output({})
    handler = started("print('x' * 200_000, 'end')")
    said = tail_of(handler) or ""
    assert len(said) == KEPT_BYTES
    assert said.endswith("x end\n")


@pytest.mark.usefixtures("_as_before")
def test_what_torchrun_redirects_is_read_from_its_file(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    watch_output({})
    handler = started(PRINTS, tmp_path / "stderr.log")
    assert set((tail_of(handler) or "").split()) == {"out", "err"}
    assert capfd.readouterr() == ("out\n", "")


@pytest.mark.usefixtures("_as_before")
def test_output_is_left_alone_where_that_is_said() -> None:
    watch_output({VARIABLE: "0"})
    assert tail_of(started("pass")) is None


def test_an_agent_that_ends_has_handed_on_all() -> None:
    ran = subprocess.run([sys.executable, "-c", AGENT], capture_output=True, text=True, check=True)
    assert (len(ran.stdout), ran.stderr) == (1_000_000, "end")
