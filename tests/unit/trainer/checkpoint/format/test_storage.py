"""Folders, and objects in a store that lives in memory, keep the same contract."""

from pathlib import Path

import pytest
from obstore.store import MemoryStore

from spotrun_trainer.checkpoint.format.storage import Storage
from spotrun_trainer.checkpoint.places.directory import Place
from spotrun_trainer.checkpoint.places.objects import Objects
from spotrun_trainer.store.addresses import Address
from tests.support.storage.contract import StorageContract


class TestFolder(StorageContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Storage:
        return Place(tmp_path)


class TestObjectsInMemory(StorageContract):
    @pytest.fixture
    def place(self) -> Storage:
        store = MemoryStore()
        return Objects(Address.parse("s3://bucket/prefix"), store, store)
