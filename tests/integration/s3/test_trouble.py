"""A store that fails: training goes on, a sentence says why, and nothing is torn or lost."""

import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from devcluster.s3.server import Server
from spotrun_trainer.checkpoint import (
    CheckpointError,
    Checkpoints,
    UnreadableCheckpointError,
    open_storage,
    storage_retries,
)
from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.places import objects
from spotrun_trainer.elastic.process_group import Group
from spotrun_trainer.elastic.rank_info import RankInfo
from spotrun_trainer.loop.saving.save_schedule import SaveSchedule
from spotrun_trainer.loop.saving.saving import Saving
from spotrun_trainer.process.ipc_files import read_progress
from spotrun_trainer.state.tracked import Tracked
from spotrun_trainer.step.vote import StepVote
from spotrun_trainer.store import stores
from spotrun_trainer.telemetry.meter import Meter
from spotrun_trainer.telemetry.reporter import Reporter
from tests.faults.store_proxy import Action, Fault, StoreProxy
from tests.integration.s3.test_saving import parts_of_uploads
from tests.support.processes.trainer_world import run_alone
from tests.unit.trainer.checkpoint.states import (
    NAME,
    checkpoints,
    save,
    small_training,
)
from tests.unit.trainer.run.scripts import Plan, train

NAMED = Name.parse(NAME)
LATER, LATEST = "step-20.g1", "step-30.g1"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "BESIDE", stores.QUICKLY)
    monkeypatch.setattr(storage_retries, "READ_SECONDS", 0.5)


@pytest.mark.parametrize("hidden", ["", "etag"])
def test_a_range_that_is_cut_off_is_read_again(
    address: str, proxy: StoreProxy, hidden: str
) -> None:
    place, content = open_storage(address), bytes(range(256)) * 4096
    place.write(NAMED, "rank-0.safetensors", content, 0)
    proxy.faults.append(fault := Fault("cut_answer", "GET", "safetensors$", times=2))
    proxy.hidden.add(hidden)
    target = bytearray(len(content))
    with place.opened(NAMED, "rank-0.safetensors", [(0, len(content))]) as opened:
        opened.read_into(0, memoryview(target))
    assert target == content
    assert fault.struck == 2


SAID: dict[Action, str] = {
    "slow_down": r"the store asks for fewer requests \(503 SlowDown\)",
    "fail": r"the store failed \(500 InternalError\)",
    "reset": "the store cannot be reached",
    "expire": r"the credentials have expired \(400 ExpiredToken\)",
    "skew": r"this machine's clock and the store's differ too much \(403 RequestTimeTooSkewed\)",
}


@pytest.mark.parametrize("action", SAID)
def test_a_store_that_fails_is_said_and_the_next_save_succeeds(
    s3: Server, address: str, bucket: str, proxy: StoreProxy, action: Action
) -> None:
    flat = small_training().flatten()
    with checkpoints(address) as opened:
        proxy.faults.append(Fault(action, "PUT"))
        opened.save(NAME, flat, rank=0, size=1, extra={})
        with pytest.raises(
            CheckpointError, match=f"could not be written to {address}: {SAID[action]}"
        ):
            opened.wait(60)
        proxy.faults.clear()
        opened.save(LATER, flat, rank=0, size=1, extra={})
        assert opened.wait(30)
        assert opened.complete() == [LATER]
    assert parts_of_uploads(s3.folder / bucket) == []


def test_no_part_is_left_of_an_upload_that_failed(
    s3: Server, address: str, bucket: str, proxy: StoreProxy
) -> None:
    proxy.faults.append(Fault("fail", "PUT", "partNumber=3"))
    place = open_storage(address)
    with pytest.raises(OSError, match="the store failed"):
        place.write_data(Name(1, 1), "rank-0.safetensors", [memoryview(bytes(40 << 20))], len)
    assert parts_of_uploads(s3.folder / bucket) == []


def test_a_bucket_that_disappears_is_not_taken_for_no_checkpoints(
    s3: Server, address: str, bucket: str
) -> None:
    save(address, small_training().flatten())
    hidden = s3.folder / bucket
    hidden.rename(away := s3.folder.parent / bucket)
    with checkpoints(address) as opened:
        for ask in (opened.complete, opened.newest, lambda: opened.load(NAME, small_training())):
            with pytest.raises(UnreadableCheckpointError, match="the bucket does not exist"):
                ask()
        away.rename(hidden)
        assert opened.newest() == NAME


def test_a_save_without_a_bucket_fails_and_the_next_one_is_in_the_bucket_that_came_back(
    s3: Server, address: str, bucket: str
) -> None:
    save(address, flat := small_training().flatten())
    (s3.folder / bucket).rename(away := s3.folder.parent / bucket)
    with checkpoints(address) as opened:
        opened.save(LATER, flat, rank=0, size=1, extra={})
        with pytest.raises(CheckpointError, match="the bucket does not exist"):
            opened.wait(60)
        away.rename(s3.folder / bucket)
        opened.save(LATEST, flat, rank=0, size=1, extra={})
        assert opened.wait(30)
        assert opened.complete() == [LATEST, NAME]


WRONG: dict[str, tuple[str, dict[str, str], str]] = {
    "another bucket": ("s3://no-such/x", {}, "the bucket does not exist (404 NoSuchBucket)"),
    "another key": ("", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "the secret key is wrong"),
    "another user": ("", {"AWS_ACCESS_KEY_ID": "unknown"}, "the store failed (404 XAdmin"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_can_never_work_is_refused_before_anything_is_trained(
    s3: Server, address: str, case: str
) -> None:
    other, env, why = WRONG[case]
    began = time.monotonic()
    ended = run_alone(train, Plan(checkpoint=other or address), env=s3.environment() | env)
    assert time.monotonic() - began < 60  # of which most is the start of Python
    assert "ValueError: checkpoints cannot be kept in s3://" in ended.error
    assert why in ended.error


def test_a_store_that_cannot_put_conditionally_keeps_the_first_marker(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", "disabled")
    save(address, small_training().flatten())
    with checkpoints(address) as opened:
        assert opened.complete() == [NAME]
    note = open_storage(address).note("OWNER")
    assert note.create(b"a")
    assert not note.create(b"b")


@pytest.mark.parametrize("action", ["slow_down", "expire"])
def test_it_is_reported_to_the_agent_until_a_save_succeeds(
    address: str, proxy: StoreProxy, tmp_path: Path, action: Action
) -> None:
    with checkpoints(address) as opened:
        saves = saving(opened, Reporter(tmp_path), training := small_training())
        proxy.faults.append(Fault(action, "PUT", "step-3"))
        saves.begin({})
        look_until_over(saves)
        told = read_progress(tmp_path)
        assert told.checkpoint is None
        assert told.save_failure is not None
        assert re.search(SAID[action], told.save_failure)
        proxy.faults.clear()
        assert training is not None
        saves.begin({})
        look_until_over(saves)
        told = read_progress(tmp_path)
        assert (told.checkpoint, told.save_failure) == ("step-3.g0", None)


def saving(opened: Checkpoints, reporter: Reporter, training: Tracked) -> Saving:
    """The saves of a training that has done three steps."""
    context: Any = SimpleNamespace(
        checkpoints=opened,
        reporter=reporter,
        meter=Meter(),
        rank_info=RankInfo(),
        group=Group(),
        tracked=training,
        step=3,
        place=None,
        orders=lambda: 0,
        store_meter=None,
        acknowledged=lambda: None,
        answer=lambda: None,
        world=lambda: None,
    )
    return Saving(context, SaveSchedule(60.0))


def look_until_over(saves: Saving) -> None:
    until = time.monotonic() + 60
    while saves.is_in_flight and time.monotonic() < until:
        saves.look(0.01, StepVote())
        time.sleep(0.01)
