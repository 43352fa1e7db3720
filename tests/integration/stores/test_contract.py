"""Each kind of store keeps the contract of places for checkpoints, also where one in ten fails."""

import pytest

from spotrun_trainer.checkpoint import open_storage
from spotrun_trainer.checkpoint.format.storage import Storage
from tests.faults.store_proxy import PASSING, Fault, StoreProxy
from tests.support.storage.contract import StorageContract


class TestStore(StorageContract):
    @pytest.fixture
    def place(self, address: str) -> Storage:
        return open_storage(address)


class TestStoreThatFails(StorageContract):
    @pytest.fixture
    def place(self, address: str, proxy: StoreProxy) -> Storage:
        proxy.faults += [Fault(action, share=0.03) for action in PASSING]
        return open_storage(address)
