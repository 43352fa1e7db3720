"""With contents as files of real containers had them."""

import pytest

from spotrun_trainer.telemetry.cgroup import Level, level_v1, level_v2, paths, with_parents

V1_PROC = """\
12:memory:/kubepods/burstable/pod5c1a/8f2e
11:cpu,cpuacct:/kubepods/burstable/pod5c1a/8f2e
4:devices:/kubepods/burstable/pod5c1a/8f2e
1:name=systemd:/kubepods/burstable/pod5c1a/8f2e
0::/
"""
V2_PROC = "0::/kubepods.slice/kubepods-pod5c1a.slice/cri-containerd-8f2e.scope\n"
CPU_STAT = """\
usage_usec 23226990
user_usec 18000000
system_usec 5226990
nr_periods 410
nr_throttled 33
throttled_usec 918273
"""
MEMORY_STAT_V2 = """\
anon 812646400
file 268435456
kernel_stack 1048576
inactive_anon 800000000
active_anon 12646400
inactive_file 200000000
active_file 68435456
"""
MEMORY_STAT_V1 = """\
cache 5697536
rss 2191360
inactive_file 7
hierarchical_memory_limit 9223372036854771712
total_cache 5697536
total_inactive_file 397312
total_active_file 5300224
"""


def test_where_a_process_is_in_v1() -> None:
    found = paths(V1_PROC)

    assert found["cpu"] == found["cpuacct"] == found["memory"] == "/kubepods/burstable/pod5c1a/8f2e"
    assert found[""] == "/"


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (V2_PROC, "/kubepods.slice/kubepods-pod5c1a.slice/cri-containerd-8f2e.scope"),
        ("0::/\n", "/"),
        ("0::/a:b\n", "/a:b"),
    ],
)
def test_where_a_process_is_in_v2(content: str, path: str) -> None:
    assert paths(content) == {"": path}


@pytest.mark.parametrize(
    ("path", "levels"),
    [
        ("/", ["/"]),
        ("/a", ["/a", "/"]),
        ("/a/b/c", ["/a/b/c", "/a/b", "/a", "/"]),
        ("/../x", ["/../x", "/..", "/"]),
    ],
)
def test_a_limit_of_any_parent_counts(path: str, levels: list[str]) -> None:
    assert with_parents(path) == levels


@pytest.mark.parametrize(
    ("files", "level"),
    [
        pytest.param(
            {
                "cpu.max": "250000 100000\n",
                "cpu.stat": CPU_STAT,
                "memory.max": "2147483648\n",
                "memory.current": "1073741824\n",
                "memory.stat": MEMORY_STAT_V2,
            },
            Level(23.22699, 2.5, 873_741_824.0, 2_147_483_648.0),
            id="limits of both",
        ),
        pytest.param(
            {
                "cpu.max": "max 100000\n",
                "cpu.stat": CPU_STAT,
                "memory.max": "max\n",
                "memory.current": "1073741824\n",
            },
            Level(23.22699, None, 1_073_741_824.0, None),
            id="no limits",
        ),
        pytest.param({"cpu.stat": CPU_STAT}, Level(23.22699), id="the root has no limits"),
        pytest.param({}, Level(), id="nothing there"),
        pytest.param(
            {"memory.current": "5\n", "memory.stat": "inactive_file 4096\n"},
            Level(memory_bytes=0.0),
            id="read at different moments",
        ),
    ],
)
def test_a_level_of_v2(files: dict[str, str], level: Level) -> None:
    assert level_v2(files) == level


@pytest.mark.parametrize(
    ("files", "level"),
    [
        pytest.param(
            {
                "cpu.cfs_quota_us": "150000\n",
                "cpu.cfs_period_us": "100000\n",
                "cpuacct.usage": "23226990901342\n",
                "memory.limit_in_bytes": "1073741824\n",
                "memory.usage_in_bytes": "9170944\n",
                "memory.stat": MEMORY_STAT_V1,
            },
            Level(23_226.990901342, 1.5, 8_773_632.0, 1_073_741_824.0),
            id="limits of both",
        ),
        pytest.param(
            {
                "cpu.cfs_quota_us": "-1\n",
                "cpu.cfs_period_us": "100000\n",
                "cpuacct.usage": "2000000000\n",
                "memory.limit_in_bytes": "9223372036854771712\n",
                "memory.usage_in_bytes": "9170944\n",
            },
            Level(2.0, None, 9_170_944.0, None),
            id="no limits",
        ),
        pytest.param({}, Level(), id="nothing there"),
    ],
)
def test_a_level_of_v1(files: dict[str, str], level: Level) -> None:
    assert level_v1(files) == level
