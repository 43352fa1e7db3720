"""A process ends well, whatever its threads are at: else torch (2.15) would abort it."""

import pytest

from tests.unit.trainer.ending import LINGER, run_script

WAITS_IN_TORCH = """
import ctypes
from datetime import timedelta
from torch.distributed import TCPStore
from spotrun_trainer.elastic import background_call as leaving
from spotrun_trainer.process import threads

store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
# As the agent's, it outlives this process, whatever the interpreter lets go of first at its end.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(store))
waiting, waiting_too = (TCPStore("127.0.0.1", store.port) for _ in range(2))


def wait_for(key):
    waiting.wait([key])
    print(key)
"""
COME_BACK = """
threads.start(lambda: wait_for("end"), name="is asked", end=lambda: store.set("end", ""))
leaving.begin(lambda: waiting_too.wait(["nothing"], timedelta(seconds=0.3)))
threads.start(lambda: None, name="has ended", end=lambda: print("not asked")).join()
"""
HANGS = """
threads.start(lambda: wait_for("nothing"), name="hangs", seconds=0.1)
"""


@pytest.mark.parametrize(
    ("script", "said"), [(COME_BACK, "end\n"), (HANGS, "")], ids=["come back", "hangs"]
)
def test_a_process_does_not_end_before_its_threads_unless_they_hang(script: str, said: str) -> None:
    ended = run_script(LINGER + WAITS_IN_TORCH + script)

    assert (ended.returncode, ended.stdout) == (0, said), ended.stderr


REDUCES = """
import atexit
import torch
import torch.distributed as dist
from spotrun_trainer.process import threads

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
atexit.register(lambda: print([work.is_completed() for work in works]))
threads.await_gloo_at_exit()
large = torch.ones(1 << 24)
works = [dist.all_reduce(large, async_op=True) for _ in range(64)]
"""


def test_gloo_has_let_go_of_what_it_reduced_before_a_process_ends() -> None:
    ended = run_script(REDUCES)

    assert (ended.returncode, ended.stdout) == (0, f"{[True] * 64}\n"), ended.stderr
