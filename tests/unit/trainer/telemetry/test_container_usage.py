import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from spotrun_trainer.telemetry.container_usage import (
    SAMPLE_SECONDS,
    Sample,
    Usage,
    memory_left,
    oom_kills,
)

PID = 40
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
GIB = 2**30
MEMINFO = f"MemTotal:       {16 * GIB // 1024} kB\nMemAvailable:   {12 * GIB // 1024} kB\n"


class Machine:
    """Files as the kernel has them, and a clock."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now = 1_000.0
        self.write({"proc/meminfo": MEMINFO, f"proc/{PID}/cgroup": "0::/\n"})
        self.process(PID, cpu_seconds=0, memory=0)

    def write(self, files: Mapping[str, object]) -> None:
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(str(content))

    def process(self, pid: int, *, cpu_seconds: float, memory: int, children: str = "") -> None:
        # What is told of a process whose name is meant to confuse: "a) R (b".
        times = f"{round(cpu_seconds * TICKS)} 0 0 0"
        stat = f"{pid} (a) R (b) S 1 1 1 0 -1 4194560 0 0 0 0 {times} 20 0 3 0 77 {memory}"
        self.write(
            {
                f"proc/{pid}/stat": f"{stat} {memory // PAGE} 18446744073709551615 1 1 0\n",
                f"proc/{pid}/task/{pid}/children": children,
            }
        )

    def usage(self, cpus: int = 4) -> Usage:
        return Usage(PID, root=self.root, clock=lambda: self.now, cpus=lambda: cpus)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_of_cpu_a_first_look_says_nothing(machine: Machine) -> None:
    machine.process(PID, cpu_seconds=100, memory=4 * GIB)

    assert machine.usage().sample() == Sample(cpu=None, memory=0.25)


def test_without_limits_it_is_the_processes_against_the_machine(machine: Machine) -> None:
    machine.process(PID, cpu_seconds=100, memory=GIB, children="41 43")
    machine.process(41, cpu_seconds=10, memory=GIB, children="42")
    machine.process(42, cpu_seconds=0, memory=2 * GIB)  # and 43 has just ended
    usage = machine.usage(cpus=4)
    usage.sample()
    machine.now += 10
    machine.process(PID, cpu_seconds=105, memory=GIB, children="41")
    machine.process(42, cpu_seconds=15, memory=2 * GIB)

    assert usage.sample() == Sample(cpu=0.5, memory=0.25)


def v2(directory: str, *, usec: int, quota: str, limit: str, used: int) -> dict[str, object]:
    return {
        f"sys/fs/cgroup/{directory}cpu.stat": f"usage_usec {usec}\nuser_usec 0\n",
        f"sys/fs/cgroup/{directory}cpu.max": f"{quota} 100000\n",
        f"sys/fs/cgroup/{directory}memory.max": f"{limit}\n",
        f"sys/fs/cgroup/{directory}memory.current": f"{used}\n",
        f"sys/fs/cgroup/{directory}memory.stat": "anon 1\ninactive_file 0\n",
    }


def test_a_container_of_v2_against_its_limits(machine: Machine) -> None:
    machine.write(v2("", usec=7_000_000, quota="200000", limit=str(4 * GIB), used=3 * GIB))
    usage = machine.usage()
    usage.sample()
    machine.now += 10
    machine.write(v2("", usec=22_000_000, quota="200000", limit=str(4 * GIB), used=GIB))

    assert usage.sample() == Sample(cpu=0.75, memory=0.25)


def test_the_tightest_limit_of_all_levels_counts(machine: Machine) -> None:
    def at(usec: int) -> dict[str, object]:
        return v2("pod/", usec=2 * usec, quota="200000", limit=str(2 * GIB), used=GIB) | v2(
            "pod/trainer/", usec=usec, quota="400000", limit=str(4 * GIB), used=GIB
        )

    machine.write({f"proc/{PID}/cgroup": "0::/pod/trainer\n", **at(0)})
    usage = machine.usage()
    usage.sample()
    machine.now += 10
    machine.write(at(8_000_000))

    assert usage.sample() == Sample(cpu=0.8, memory=0.5)


def test_a_container_of_v1_that_sees_only_itself(machine: Machine) -> None:
    # /proc names the path on the node, which is not there below the container's own mount.
    def at(nanoseconds: int) -> dict[str, object]:
        return {
            f"proc/{PID}/cgroup": "12:memory:/kubepods/x\n11:cpu,cpuacct:/kubepods/x\n0::/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "50000\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            "sys/fs/cgroup/cpuacct/cpuacct.usage": f"{nanoseconds}\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{8 * GIB}\n",
            "sys/fs/cgroup/memory/memory.usage_in_bytes": f"{4 * GIB}\n",
            "sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {2 * GIB}\n",
        }

    machine.write(at(0))
    usage = machine.usage()
    usage.sample()
    machine.now += 10
    machine.write(at(4_000_000_000))

    assert usage.sample() == Sample(cpu=0.8, memory=0.25)


def test_limits_beyond_the_machine_are_those_of_the_machine(machine: Machine) -> None:
    machine.write(v2("", usec=0, quota="6400000", limit=str(64 * GIB), used=8 * GIB))
    usage = machine.usage(cpus=2)
    usage.sample()
    machine.now += 10
    machine.write(v2("", usec=10_000_000, quota="6400000", limit=str(64 * GIB), used=8 * GIB))

    assert usage.sample() == Sample(cpu=0.5, memory=0.5)


def test_shares_stay_between_0_and_1(machine: Machine) -> None:
    machine.write(v2("", usec=0, quota="100000", limit=str(GIB), used=2 * GIB))
    usage = machine.usage()
    usage.sample()
    machine.now += 10
    machine.write(v2("", usec=11_000_000, quota="100000", limit=str(GIB), used=2 * GIB))
    assert usage.sample() == Sample(cpu=1.0, memory=1.0)

    machine.now += 10
    machine.write(v2("", usec=0, quota="100000", limit=str(GIB), used=0))
    assert usage.sample() == Sample(cpu=0.0, memory=0.0)


def test_files_are_read_every_few_seconds_only(machine: Machine) -> None:
    usage = machine.usage()
    first = usage.sample()
    machine.process(PID, cpu_seconds=SAMPLE_SECONDS, memory=GIB)
    machine.now += SAMPLE_SECONDS - 0.1
    assert usage.sample() is first

    machine.now += 0.1
    assert usage.sample() == Sample(cpu=0.25, memory=1 / 16)


def test_of_a_machine_that_is_no_linux_nothing_is_known(tmp_path: Path) -> None:
    usage = Usage(1, root=tmp_path, cpus=lambda: 2)

    assert usage.sample() == Sample()


def test_on_this_machine_a_busy_child_is_seen() -> None:
    now = 0.0
    usage = Usage(os.getpid(), clock=lambda: now, cpus=lambda: 1)
    before = usage.sample()
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", burn], check=True, timeout=30)
    now = 10.0
    after = usage.sample()

    assert before.memory is not None
    assert 0 < before.memory < 1
    # In a container with a CPU limit it is that container's CPU, this test's among others'.
    assert after.cpu is not None
    assert after.cpu >= 0.02


def test_memory_is_left_until_the_first_limit(machine: Machine) -> None:
    def left() -> float:
        return memory_left(PID, machine.root) / GIB

    assert left() == 12
    machine.write({f"proc/{PID}/cgroup": "0::/pod/trainer\n"})
    machine.write(v2("pod/trainer/", usec=0, quota="max", limit="max", used=5 * GIB))
    assert left() == 12
    machine.write(v2("pod/", usec=0, quota="max", limit=str(8 * GIB), used=5 * GIB))
    assert left() == 3
    machine.write(v2("pod/trainer/", usec=0, quota="max", limit=str(6 * GIB), used=5 * GIB))
    assert left() == 1


@pytest.mark.parametrize(
    ("paths", "file", "killed"),
    [
        ("0::/pod/c", "pod/c/memory.events", 2),
        ("5:memory:/pod/c", "memory/pod/c/memory.oom_control", 2),
        ("0::/pod/c", "pod/memory.events", None),
    ],
    ids=["v2", "v1", "it cannot be read"],
)
def test_the_kernels_kills_for_memory_are_counted(
    tmp_path: Path, paths: str, file: str, killed: int | None
) -> None:
    events = tmp_path / "sys/fs/cgroup" / file
    cgroup = tmp_path / f"proc/{PID}/cgroup"
    for path, text in ((cgroup, f"{paths}\n"), (events, "low 0\noom 3\noom_kill 2\n")):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    assert oom_kills(PID, tmp_path) == killed
