"""Several training processes in one worker, under torchrun itself."""

import asyncio
import sys
import time
from pathlib import Path

LAUNCHER = """
import sys
from torch.distributed.run import main
from spotrun_trainer.agent.processes.exit_codes import watch_failures
from spotrun_trainer.agent.processes.kill import kill_sessions

def tell(code, message):
    print(f"told: {code}, {message}", flush=True)

watch_failures(tell, end_siblings=kill_sessions)
main(["--standalone", "--nproc-per-node=2", *sys.argv[1:]])
"""
STUBBORN = """
import os, signal, sys, time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.environ["LOCAL_RANK"] == "1":
    open(sys.argv[1], "w").close()
    sys.exit(3)
time.sleep(300)
"""


async def test_one_fails_and_its_siblings_do_not_hold_up_the_others(tmp_path: Path) -> None:
    """torchrun would wait 30 s for those that do not heed SIGTERM."""
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    launched = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", LAUNCHER, tmp_path / "stubborn.py", tmp_path / "failed"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert launched.stdout is not None
    async with asyncio.timeout(120):
        told = (await launched.stdout.readline()).decode().strip()
        told_seconds = time.time() - (tmp_path / "failed").stat().st_mtime
        _, complaints = await launched.communicate()

    assert told == "told: 3, rank 1 ended with exit code 3: its log says why"
    assert told_seconds < 20
    assert b"ChildFailedError" in complaints
