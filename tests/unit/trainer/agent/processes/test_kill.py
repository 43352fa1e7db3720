import subprocess
import sys
import textwrap

import pytest

KILLER = """
    import subprocess, sys, time
    from pathlib import Path
    from spotrun_trainer.agent.processes.kill import kill_sessions

    def is_alive(pid):
        try:
            return Path(f"/proc/{pid}/stat").read_text().split()[2] not in "XZ"
        except OSError:
            return False

    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    starter = (
        "import subprocess, sys; p = subprocess.Popen(sys.argv[2:], **eval(sys.argv[1]));"
        "print(p.pid, flush=True); p.wait()"
    )
    trainer = subprocess.Popen(
        [sys.executable, "-c", starter, sys.argv[1], *sleeps],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    helper = subprocess.Popen(sleeps)
    grandchild = int(trainer.stdout.readline())
    kill_sessions()
    print(trainer.wait(), helper.poll())
    helper.kill()
    helper.wait()
    while is_alive(grandchild):
        time.sleep(0.01)
    print("dead")
"""


@pytest.mark.parametrize("apart", [{}, {"process_group": 0}, {"start_new_session": True}], ids=str)
def test_training_processes_die_with_all_they_started_and_nothing_else_does(
    apart: dict[str, object],
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLER), repr(apart)],
        capture_output=True,
        text=True,
        check=False,
        timeout=20,
    )
    assert ran.stdout.splitlines() == ["-9 None", "dead"], ran.stderr
