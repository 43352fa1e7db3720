"""Faults and low clocks of GPUs, as a driver reports them; the driver's library is a stand-in.

The processes train on the CPU: all that is not there is the GPU.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from spotrun.wire import FAULTY_DEVICE
from tests.integration.trainer.helpers import FOR_LONG, Place
from tests.integration.trainer.traces import differences, pid_of, pids_of
from tests.support.gpu.nvml_library import FakeGpu, compile_nvml, describe, report_xid
from tests.support.jobs.statuses import failures_of


@pytest.fixture
def driver(tmp_path: Path) -> dict[str, str]:
    """The variables of a pod whose node has the driver."""
    compile_nvml(tmp_path)
    return {"LD_LIBRARY_PATH": str(tmp_path), "NVML_STATE": f"{tmp_path}/gpus-$(NODE)"}


def gpus_of(place: Place, node: str) -> Path:
    return place.folder / f"gpus-{place.namespace}-{node}"


async def test_a_node_with_a_faulty_gpu_is_left_and_no_step_is_lost(
    place: Place, alone: dict[int, str], driver: dict[str, str]
) -> None:
    await place.add_nodes("c", "d")
    for node in "abcd":
        describe(gpus_of(place, node), [FakeGpu(f"GPU-{node}", serial=f"165{ord(node)}")])
    await place.start_run(workers=3, sizes={"min": 2}, env=driver)
    async with place.operator():
        before = await place.until_trains(3)
        bad = (await place.member(1))["spec"]["nodeName"]
        state = gpus_of(place, bad.removeprefix(f"{place.namespace}-"))
        report_xid(state, 79)
        await place.until(lambda: _is_read(Path(f"{state}.xid")))
        os.kill(pid_of(before, 1), signal.SIGKILL)
        job = await place.until_job(lambda s: failures_of(s) == 1)
        two = await place.until_trains(2)
        await place.until_trace(lambda lines: bool(pids_of(lines) - pids_of(before)))
        pods = [one for one in await place.pods() if one["status"]["phase"] == "Running"]
    assert job["status"]["restarts"]["lastReason"] == "FaultyDevice"
    message = job["status"]["restarts"]["lastMessage"]
    name = bad.removeprefix(f"{place.namespace}-")
    assert f"GPU-{name} (serial number 165{ord(name)}): {FAULTY_DEVICE}: Xid 79" in message
    assert "rank 1 was killed by SIGKILL" in message
    assert bad not in {pod["spec"]["nodeName"] for pod in pods}
    survivors = pids_of(before) - {pid_of(before, 1)}
    assert pids_of(two) == survivors, "they keep their state, and their processes"
    assert differences(place.trace(), alone) == set()


async def test_what_lowers_the_clock_of_a_slow_worker_is_named(
    place: Place, driver: dict[str, str]
) -> None:
    for node in "ab":
        describe(gpus_of(place, node), [FakeGpu(f"GPU-{node}")])
    await place.start_run(*FOR_LONG, "--compute", 0.02, env=driver)
    async with place.operator():
        await place.until_trains(2)
        slow = (await place.member(1))["spec"]["nodeName"]
        name = slow.removeprefix(f"{place.namespace}-")
        hot = FakeGpu(f"GPU-{name}", mhz=990, causes=0x40, celsius=93)
        describe(gpus_of(place, name), [hot])
        (place.folder / "slow-node").write_text(slow)
        told = f"; low clock of GPU-{name} (serial number {hot.serial}): it is too hot"
        await place.until_job(lambda s: _even_speed(s).endswith(told))


def _even_speed(status: dict[str, object]) -> str:
    conditions = status["conditions"]
    assert isinstance(conditions, list)
    return next((str(c["message"]) for c in conditions if c["type"] == "EvenSpeed"), "")


async def _is_read(file: Path) -> bool:
    return not await asyncio.to_thread(file.exists)
