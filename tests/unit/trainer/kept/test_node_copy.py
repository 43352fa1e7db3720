from pathlib import Path

import pytest
from torch import nn

from spotrun_trainer.kept.image import Image, Writer
from spotrun_trainer.kept.node_copy import SPARE_BYTES, NodeCopy
from spotrun_trainer.state.tracked import Tracked
from tests.unit.trainer.kept.trainings import Worker


@pytest.fixture
def image() -> Image:
    tracked = Tracked()
    tracked.add("model", nn.Linear(512, 512))
    return Writer(tracked).image({})


@pytest.mark.parametrize(("left", "is_kept"), [(SPARE_BYTES + 4e6, True), (SPARE_BYTES, False)])
def test_two_copies_have_to_fit(
    image: Image, left: float, is_kept: bool, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker()
    copy = NodeCopy(worker.files, lambda: left)
    copy.write(1, image)
    assert copy.is_there == is_kept
    said = "two copies of 1 MiB are needed and 256 MiB of memory are left"
    assert (said in caplog.text) == (not is_kept)
    assert (copy.header() is not None) == is_kept


def test_memory_that_is_reserved_already_is_not_asked_for_again(image: Image) -> None:
    worker = Worker()
    for step in (1, 2):
        NodeCopy(worker.files, lambda: 1e12).write(step, image)
    full = NodeCopy(worker.files, lambda: 0.0)
    full.write(3, image)
    header = full.header()
    assert header is not None
    assert header.step == 3


def test_memory_that_is_gone_is_done_without(
    image: Image, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copy = NodeCopy((tmp_path / "0", tmp_path / "1"))
    assert "the memory that the agent offers cannot be opened" in caplog.text
    copy.write(1, image)
    assert copy.header() is None


def test_without_an_agent_nothing_is_kept(image: Image, caplog: pytest.LogCaptureFixture) -> None:
    copy = NodeCopy(())
    copy.write(1, image)
    assert not copy.is_there
    assert "the training continues without" in caplog.text
