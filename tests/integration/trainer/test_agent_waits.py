"""A worker whose operator is nowhere to be found, under torchrun itself."""

import asyncio
import datetime
import os
import signal
import sys
from pathlib import Path

from spotrun.http.certificates import make_authority
from spotrun.wire import Ending, LastWords, read_last_words

TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--rdzv-backend=spotrun")


async def start(folder: Path, **environment: str) -> asyncio.subprocess.Process:
    authority = make_authority(datetime.datetime.now(datetime.UTC))
    (folder / "token").write_text("a token")
    pod = {
        "SPOTRUN_DIR": str(folder / "run"),
        "SPOTRUN_NAMESPACE": "team",
        "SPOTRUN_JOB": "job",
        "SPOTRUN_WORKER": "job-abcde-0",
        "SPOTRUN_SERVER": "127.0.0.1:1",
        "SPOTRUN_CA": authority.certificate.decode(),
        "SPOTRUN_TOKEN_FILE": str(folder / "token"),
        "SPOTRUN_TERMINATION_LOG": str(folder / "words"),
        "POD_IP": "127.77.201.1",
    }
    return await asyncio.create_subprocess_exec(
        *(*TORCHRUN, "--rdzv-endpoint=127.0.0.1:1", "--nnodes=1:2", "train.py"),
        env={"PATH": os.environ["PATH"], **pod, **environment},
        stderr=asyncio.subprocess.PIPE,
    )


def words(folder: Path) -> LastWords | None:
    return read_last_words((folder / "words").read_text())


async def test_it_gives_up_after_a_while(tmp_path: Path) -> None:
    worker = await start(tmp_path, SPOTRUN_GIVE_UP_SECONDS="4")
    async with asyncio.timeout(120):
        _, said = await worker.communicate()

    found = words(tmp_path)
    assert found is not None
    assert (worker.returncode, found.reason, found.exit_code) == (1, Ending.FAILED, 1)
    assert "and this worker does not train: it gives up" in found.message
    assert said.decode().count("no answer from the operator at 127.0.0.1:1") == 1


async def test_it_ends_in_order_when_it_is_told_to(tmp_path: Path) -> None:
    worker = await start(tmp_path)
    assert worker.stderr is not None
    async with asyncio.timeout(120):
        while b"no answer from the operator" not in (line := await worker.stderr.readline()):
            assert line, "it ended before it was told to"
        worker.send_signal(signal.SIGTERM)
        await worker.communicate()

    assert words(tmp_path) == LastWords(Ending.DEPARTED, message="this worker was told to end")
