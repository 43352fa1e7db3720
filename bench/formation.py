"""The time that a thousand processes need to meet in one world.

Each is a thread with its own connection to the store of the world, and does the same as a training
process. The time runs from the moment when all know the world until the last one knows that all are
present. All share one machine, so this measures work. But the first time, torch also asks the name
server about each of them at once, and some answers get lost.

Run as `.venv/bin/python bench/formation.py [--quick] [--repeats 5] [--processes 1000]`.
"""

import argparse
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from torch.distributed import TCPStore  # type: ignore[attr-defined]  # not in its __all__

from bench.operator_bench import say
from devcluster.argument_types import how_many
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.elastic.store_rendezvous import meet
from spotrun_trainer.process.dns import wait_shortly

TIMEOUT_SECONDS = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="100 processes, once")
    parser.add_argument("--repeats", type=how_many, default=5)
    parser.add_argument("--processes", type=how_many, default=1000)
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.processes, arguments.repeats = 100, 1
    wait_shortly(os.environ)  # as agents do
    took = [form(arguments.processes) for _ in range(arguments.repeats)]
    say(f"formation_{arguments.processes}_seconds", took, "s")


def form(processes: int) -> float:
    """Return the seconds until all have met."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    know = threading.Barrier(processes + 1)

    def process(rank: int) -> float:
        rank_info = RankInfo(
            rank=rank, size=processes, world_number=1, store=("127.0.0.1", store.port), elastic=True
        )
        know.wait()
        meet(rank_info, TIMEOUT_SECONDS, lambda: None)
        return time.monotonic()

    with ThreadPoolExecutor(processes) as threads:
        there = [threads.submit(process, rank) for rank in range(processes)]
        know.wait()
        began = time.monotonic()
        return max(one.result() for one in there) - began


if __name__ == "__main__":
    main()
