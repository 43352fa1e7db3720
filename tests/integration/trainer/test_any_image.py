"""Images without spotrun: the operator brings it, and what else is missing is said at once."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from devcluster.client import ApiError
from tests.integration.trainer.helpers import FOR_LONG, Place
from tests.support.jobs.statuses import failures_of
from tests.support.processes.stock_image import stock_image

INJECTING = {"inject_image": "operator", "trainer_image": "trainer"}


async def test_a_script_in_a_stock_image_goes_on_after_a_loss(place: Place, tmp_path: Path) -> None:
    path = {"PATH": stock_image(tmp_path / "image")}
    await place.start("snapshots.py", place.folder, *FOR_LONG, sizes={"min": 1}, env=path)
    async with place.operator(**INJECTING):
        before = await place.until_trains(2)
        (pod, _) = await place.pods()
        told = ("logs", "-n", place.namespace, pod["metadata"]["name"])
        said = (await asyncio.to_thread(place.cluster.kubectl, *told)).stdout
        await place.machine(await place.member(0)).vanish(delete_node=True)
        alone = await place.until_trains(1, after=before)
        await place.add_nodes("c")
        await place.until_trains(2, after=[*before, *alone])
        status = (await place.job())["status"]
    assert "spotrun: 0." in said
    assert ", sha256 " in said
    assert "the image's own" not in said, "it has none"
    assert alone[0]["step"] % 5 == 1, "it begins with a snapshot"
    assert failures_of(status) == 0


async def test_an_image_with_spotrun_uses_what_was_brought(place: Place) -> None:
    await place.start("plain_loop.py", "--trace", place.folder / "trace.jsonl", "--steps", 5)
    async with place.operator(**INJECTING):
        await place.until_phase("Succeeded")
        words = (await place.until_all_ended()).values()
    assert [one["reason"] for one in words] == ["completed"] * 2


def without_torch(folder: Path) -> str:
    stock_image(folder)
    (torch,) = folder.rglob("site-packages/torch")
    torch.unlink()
    return f"{folder / 'bin'}:/usr/bin:/bin"


def without_python(folder: Path) -> str:
    folder.mkdir()
    return str(folder)


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (without_torch, "has no torch: install torch 2.10 or newer for it"),
        (without_python, "the image has no Python in its PATH: use an image with Python 3.10"),
    ],
)
async def test_an_image_that_cannot_train_fails_the_job_at_once(
    place: Place, tmp_path: Path, image: Callable[[Path], str], words: str
) -> None:
    await place.start("plain_loop.py", *FOR_LONG, env={"PATH": image(tmp_path / "image")})
    async with place.operator(**INJECTING):
        status = (await place.until_phase("Failed"))["status"]
    assert status["reason"] == "UnusableImage"
    assert words in status["message"]
    assert failures_of(status) == 1, "it was not tried again"


async def test_injection_changes_only_while_the_job_is_suspended(place: Place) -> None:
    await place.start("plain_loop.py", *FOR_LONG)
    with pytest.raises(ApiError, match="only while the job is suspended"):
        await place.patch_job({"workers": {"inject": "Never"}})
    await place.patch_job({"suspend": True, "workers": {"inject": "Never"}})
