import os
import subprocess
import sys

import pytest

from spotrun_trainer.process.node_memory import VARIABLE, offer_memory, offered_memory

HOLDER = """
import os
from spotrun_trainer.process.node_memory import VARIABLE, offer_memory
offer_memory(os.environ)
print(os.environ[VARIABLE], flush=True)
input()
"""


def test_it_ends_with_the_process_that_offers_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        files = offered_memory({VARIABLE: holder.stdout.readline().strip()})
        files[0].write_bytes(b"state")
        assert [file.read_bytes() for file in files] == [b"state", b""]
        holder.kill()
    assert not any(file.exists() for file in files)


def test_processes_that_it_starts_do_not_hold_it() -> None:
    environment: dict[str, str] = {}
    offer_memory(environment)
    descriptors = [int(file.name) for file in offered_memory(environment)]
    assert not any(os.get_inheritable(one) for one in descriptors)


def test_another_agents_memory_is_not_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_name: str) -> int:
        raise OSError("not allowed")

    monkeypatch.setattr(os, "memfd_create", refuse)
    environment = {VARIABLE: "/proc/1/fd/3:/proc/1/fd/4"}
    offer_memory(environment)
    assert offered_memory(environment) == ()
