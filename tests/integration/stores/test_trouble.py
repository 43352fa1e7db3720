"""A store that fails, of each kind: what passes is tried again, and what does not is said."""

import pytest

from spotrun_trainer.checkpoint import open_storage
from spotrun_trainer.checkpoint.places import objects
from spotrun_trainer.store import stores
from tests.faults.store_proxy import PASSING, Action, Fault, StoreProxy
from tests.support.storage.servers import StoreServer
from tests.unit.trainer.checkpoint.states import (
    NAME,
    checkpoints,
    copied,
    same,
    save,
    small_training,
)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "BESIDE", stores.QUICKLY)


@pytest.mark.parametrize("action", PASSING)
@pytest.mark.parametrize("method", ["PUT", "GET", "POST"])
def test_what_passes_is_tried_again(
    address: str, proxy: StoreProxy, action: Action, method: str
) -> None:
    proxy.faults.append(fault := Fault(action, method, times=2))
    before = copied((training := small_training()).flatten())
    save(address, training.flatten())
    target = small_training(seed=2)
    with checkpoints(address) as opened:
        assert opened.complete() == [NAME]
        opened.load(NAME, target)
    assert same(target.flatten(), before)
    assert fault.struck or method == "POST"  # the state is too small for parts


def test_the_marker_whose_answer_was_lost_counts(address: str, proxy: StoreProxy) -> None:
    proxy.faults.append(fault := Fault("lose_answer", "PUT", "COMPLETE$", times=1))
    with checkpoints(address) as opened:
        opened.save(NAME, small_training().flatten(), rank=0, size=1, extra={})
        assert opened.wait(30)
        saved = opened.finished()
    assert saved is not None
    assert fault.struck == 1


SECRETS = {"AWS_SECRET_ACCESS_KEY", "GOOGLE_BEARER_TOKEN", "AZURE_STORAGE_ACCOUNT_KEY"}


def test_a_bucket_that_does_not_exist_is_refused(store_server: StoreServer, address: str) -> None:
    place = open_storage(store_server.address("no-such"))
    with pytest.raises(ValueError, match=r"cannot be kept .*: the (bucket|container) does not"):
        place.check()
    for ask in (place.names, place.stored):
        with pytest.raises(PermissionError, match="does not exist"):
            ask()


def test_a_secret_that_is_wrong_is_refused(
    store_server: StoreServer, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in set(store_server.environment()) & SECRETS:
        monkeypatch.setenv(name, "d3Jvbmc=")
    with pytest.raises(ValueError, match=r"(secret key is wrong|access was denied) \(40[13] "):
        open_storage(address).check()
