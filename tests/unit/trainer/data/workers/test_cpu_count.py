"""How many CPUs a container may use, from files as kernels show them."""

import os
from pathlib import Path

import pytest

from spotrun_trainer.data.workers.cpu_count import usable_cpus

V1 = "5:memory:/pod\n4:cpu,cpuacct:/pod/worker\n0::/\n"
V2 = "0::/kubepods/pod/worker\n"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        pytest.param({}, 64, id="no cgroups"),
        pytest.param({"proc/self/cgroup": V2}, 64, id="v2, nothing mounted"),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "150000 100000\n"},
            1.5,
            id="v2 in a container",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"},
            64,
            id="v2 without a limit",
        ),
        pytest.param(
            {
                "proc/self/cgroup": V2,
                "sys/fs/cgroup/kubepods/cpu.max": "800000 100000\n",
                "sys/fs/cgroup/kubepods/pod/cpu.max": "200000 100000\n",
                "sys/fs/cgroup/kubepods/pod/worker/cpu.max": "max 100000\n",
            },
            2,
            id="v2, the pod's limit is the tightest",
        ),
        pytest.param(
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "300000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            3,
            id="v1 in a container, whose path is the host's",
        ),
        pytest.param(
            {
                "proc/self/cgroup": V1,
                "sys/fs/cgroup/cpu/pod/worker/cpu.cfs_quota_us": "-1\n",
                "sys/fs/cgroup/cpu/pod/worker/cpu.cfs_period_us": "100000\n",
            },
            64,
            id="v1 without a limit",
        ),
    ],
)
def test_the_tightest_quota_counts(
    files: dict[str, str], expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64))

    assert usable_cpus(tmp_path) == expected


def test_affinity_counts_if_it_is_tighter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3})

    assert usable_cpus(tmp_path) == 1
    assert usable_cpus() <= 1
