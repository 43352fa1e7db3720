"""Processes that were begun ahead are there when they are needed, under torchrun itself."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SAYS_HOW = """
    import os, sys
    ahead = "warm.interpreter" in " ".join(sys.orig_argv)
    print("begun ahead" if ahead else "begun now", os.environ["WORLD_SIZE"])
"""
STANDALONE = """
    import sys
    from torch.distributed.run import main
    from spotrun_trainer.agent.processes.warm.pool import begin_ahead
    from spotrun_trainer.telemetry.trace import Trace
    begin_ahead({}, Trace(None))
    _, script, logs = sys.argv
    main(["--standalone", "--nproc-per-node=2", "--redirects=3", f"--log-dir={logs}", script])
"""
PLAIN = """
    import os, signal, sys
    from pathlib import Path
    import torch
    import torch.distributed as dist
    signal.alarm(100)  # it ends, whatever becomes of torchrun
    folder, rank = Path(sys.argv[1]), os.environ["RANK"]
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        dist.init_process_group("gloo")
        if rank == "1":
            (folder / "loss").read_text()  # until the agent opens it
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(1))
    ahead = "warm.interpreter" in " ".join(sys.orig_argv)
    (folder / f"rank-{rank}").write_text("begun ahead" if ahead else "begun now")
"""
"""Whichever process has rank 1 is lost; who begins again says how."""
WORKER = """
    import json, os, subprocess, sys
    from pathlib import Path
    from torch.distributed import TCPStore
    from torch.distributed.run import main
    from spotrun.wire import Ending, LastWords
    from spotrun_trainer.agent import rendezvous_handler as handler
    from spotrun_trainer.agent.processes.warm import pool as interpreters
    from tests.unit.trainer.agent.builders import a_world, settings

    script, folder, processes = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)

    class Agent:
        failures = []
        is_lost = False

        def __init__(self, settings):
            kept = {"processes": processes, "store": f"127.0.0.1:{store.port}"}
            self.worlds = [a_world(1, size=2, **kept), a_world(2, size=processes, **kept)]

        def next_world(self):
            return self.worlds.pop(0)

        def must_stop(self):
            if not self.is_lost and [one.is_ready for one in ahead._waiting] == [True] * processes:
                self.is_lost = True
                (folder / "loss").open("w").close()
            return False

        def may_restart(self):
            return True

        def fail(self, *words):
            self.failures.append(words)

        def finish(self):
            (folder / "failures").write_text(json.dumps(self.failures))
            return LastWords(Ending.COMPLETED)

        def __getattr__(self, name):
            return lambda *_: None

    def begin_ahead(*given):
        global ahead
        ahead = interpreters.begin_ahead(*given)
        return ahead

    interpreters.SETTLED_SECONDS = interpreters.LOOK_SECONDS = 0
    interpreters.memory_left = lambda pid: 1e12
    handler.Agent, handler.begin_ahead = Agent, begin_ahead
    handler.read_settings = lambda: settings(folder)
    if processes == 1:
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "RANK": "1"}
        torchruns = {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
        environment = {**os.environ, **meeting, **torchruns, "WORLD_SIZE": "2"}
        peer = subprocess.Popen([sys.executable, script, folder], env=environment)
    main([
        "--rdzv-backend=spotrun", "--rdzv-id=job", "--rdzv-endpoint=127.0.0.1:1", "--nnodes=1:2",
        f"--nproc-per-node={processes}", "--max-restarts=3", "--monitor-interval=0.1",
        script, str(folder),
    ])
    if processes == 1:
        peer.wait()
"""
"""A worker of a world of two processes: both are its own, or one is that of another worker."""


def test_torchrun_starts_its_processes_in_those_that_wait(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    _run(STANDALONE, _script(tmp_path, SAYS_HOW), logs)

    said = sorted(file.read_text() for file in logs.rglob("stdout.log"))
    assert said == ["begun ahead 2\n", "begun now 2\n"]


@pytest.mark.parametrize(
    ("processes", "code", "words"),
    [
        (2, 137, "rank 1 was killed by SIGKILL ("),
        (1, 1, "rank 0 ended with exit code 1: RuntimeError: "),
    ],
    ids=["a process of this worker", "a process of another worker"],
)
def test_after_a_loss_those_that_wait_are_used(
    processes: int, code: int, words: str, tmp_path: Path
) -> None:
    """The script fails before the operator has said a word; the other worker's is reset."""
    os.mkfifo(tmp_path / "loss")
    _run(WORKER, _script(tmp_path, PLAIN), tmp_path, processes)

    ranks = [tmp_path / f"rank-{rank}" for rank in range(processes)]
    assert [rank.read_text() for rank in ranks] == ["begun ahead"] * processes
    ((told_code, told_words),) = json.loads((tmp_path / "failures").read_text())
    assert told_code == code
    assert told_words.startswith(words)


def _script(folder: Path, content: str) -> Path:
    file = folder / "script.py"
    file.write_text(textwrap.dedent(content))
    return file


def _run(program: str, *arguments: object) -> None:
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)]
    subprocess.run(command, check=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
