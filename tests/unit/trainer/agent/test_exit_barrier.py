"""The end of a script, where an agent waits for those of the others in vain."""

from tests.unit.trainer.ending import LINGER, run_script

WAITS_FOR_OTHERS = """
from datetime import timedelta
from torch.distributed import TCPStore
from spotrun_trainer.agent import exit_barrier
from tests.unit.trainer.agent.builders import a_world


class Slow(TCPStore):
    def check(self, keys):
        asked.set()
        try:
            self.wait(["nobody sets it"], timedelta(seconds=0.3))
        except RuntimeError:
            return False


exit_barrier.TCPStore, asked = Slow, exit_barrier.threading.Event()
store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
world = a_world(store=f"127.0.0.1:{store.port}", rank=1)
exit_barrier.ExitBarrier(world, on_done=lambda: print("all"))
asked.wait()
"""


def test_an_agent_that_must_end_leaves_a_slow_store_first() -> None:
    ended = run_script(LINGER + WAITS_FOR_OTHERS)

    assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
