"""The contract that every place for checkpoints keeps, whatever it is made of."""

import secrets

import pytest

from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.format.storage import MARKER, SMALL_BYTES, Storage, Stored

NAME, OTHER = Name(3, 1), Name(30, 1)
DATA, MANIFEST = "rank-0.safetensors", "rank-0.json"


class StorageContract:
    """Tests of a place; a subclass has a fixture `place` with nothing in it."""

    def test_there_is_nothing_at_first(self, place: Storage) -> None:
        place.check()
        assert place.names() == []

    def test_it_lists_checkpoints_oldest_first_and_nothing_else(self, place: Storage) -> None:
        for name in (OTHER, NAME):
            place.make(name)
            place.write(name, MANIFEST, b"x", 0)
        place.note("OWNER").replace(b"me")
        assert place.names() == [NAME, OTHER]
        assert [(one.name, one.bytes) for one in place.files(NAME)] == [(MANIFEST, 1)]

    def test_what_is_stored_is_known_where_somebody_charges_for_it(self, place: Storage) -> None:
        for name, file in ((NAME, MANIFEST), (NAME, MARKER), (OTHER, MANIFEST)):
            place.make(name)
            place.write(name, file, bytes(10), 0)
        assert place.stored() in (None, Stored(bytes=30, checkpoints=1))

    def test_a_small_file_is_replaced_as_a_whole(self, place: Storage) -> None:
        place.make(NAME)
        place.write(NAME, MANIFEST, b"a longer one", 0)
        place.write(NAME, MANIFEST, b"new", 0)
        assert place.read(NAME, MANIFEST) == b"new"

    def test_of_several_writers_the_first_one_wins(self, place: Storage) -> None:
        place.make(NAME)
        place.write_once(NAME, MARKER, b"first", 0)
        place.write_once(NAME, MARKER, b"second", 1)
        assert place.read(NAME, MARKER) == b"first"

    def test_what_is_not_there_is_known_not_to_be(self, place: Storage) -> None:
        with pytest.raises(FileNotFoundError):
            place.read(NAME, MARKER)
        with pytest.raises(FileNotFoundError), place.opened(NAME, DATA) as file:
            assert file.size
        place.remove_file(NAME, MARKER)
        place.remove(NAME)

    def test_a_large_small_file_is_not_read(self, place: Storage) -> None:
        place.make(NAME)
        place.write(NAME, MANIFEST, bytes(SMALL_BYTES + 1), 0)
        with pytest.raises(OSError, match="has more than 16 MiB"):
            place.read(NAME, MANIFEST)

    @pytest.mark.parametrize("size", [0, 1, (1 << 20) + 1, (33 << 20) + 7])
    def test_data_is_read_as_it_was_written(self, place: Storage, size: int) -> None:
        content, told = secrets.token_bytes(size), bytearray()
        place.make(NAME)
        parts = [memoryview(content)[: size // 3], memoryview(content)[size // 3 :]]
        place.write_data(NAME, DATA, parts, told.extend)
        assert bytes(told) == content
        read = bytearray(size)
        with place.opened(NAME, DATA, [(0, size)]) as file:
            assert file.size == size
            for start in range(0, size, 3 << 20):
                file.read_into(start, memoryview(read)[start : start + (3 << 20)])
        assert bytes(read) == content

    @pytest.mark.parametrize("expected", [True, False])
    def test_any_range_can_be_read_in_any_order(self, place: Storage, *, expected: bool) -> None:
        content = secrets.token_bytes(20 << 20)
        place.make(NAME)
        place.write_data(NAME, DATA, [memoryview(content)], len)
        reads = [
            (7, 9),
            (5 << 20, (18 << 20) + 1),
            (3, 4),
            (19 << 20, 20 << 20),
            (5 << 20, 6 << 20),
        ]
        with place.opened(NAME, DATA, reads if expected else [(0, 1)]) as file:
            for start, stop in reads:
                found = bytearray(stop - start)
                file.read_into(start, memoryview(found))
                assert bytes(found) == content[start:stop]

    @pytest.mark.parametrize("expected", [True, False])
    def test_a_file_that_ends_early_is_noticed(self, place: Storage, *, expected: bool) -> None:
        place.make(NAME)
        place.write_data(NAME, DATA, [memoryview(b"12345")], len)
        with (
            place.opened(NAME, DATA, [(0, 8)] if expected else []) as file,
            pytest.raises((ValueError, OSError), match=r"ended early|shorter"),
        ):
            file.read_into(3, memoryview(bytearray(4)))

    def test_what_an_earlier_try_left_is_replaced(self, place: Storage) -> None:
        place.make(NAME)
        for content in (b"an earlier one", b"this"):
            place.write_data(NAME, DATA, [memoryview(content)], len)
        with place.opened(NAME, DATA) as file:
            assert file.size == 4

    def test_a_checkpoint_is_removed_and_no_other(self, place: Storage) -> None:
        for name in (NAME, OTHER):
            place.make(name)
            place.write_data(name, DATA, [memoryview(b"x")], len)
            place.write(name, MANIFEST, b"x", 0)
            place.write_once(name, MARKER, b"x", 0)
        place.remove(NAME)
        assert place.names() == [OTHER]
        assert {one.name for one in place.files(OTHER)} == {DATA, MANIFEST, MARKER}

    def test_a_file_that_another_removes_meanwhile_hinders_no_removal(
        self, place: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        place.make(NAME)
        for rank in range(15):
            place.write(NAME, f"rank-{rank}.json", b"x", rank)
        listed = place.files(NAME)
        place.remove_file(NAME, listed[1].name)
        with monkeypatch.context() as before:
            before.setattr(place, "files", lambda _name: listed)
            place.remove(NAME)
        assert place.names() == []

    def test_a_note_is_made_once_replaced_and_removed(self, place: Storage) -> None:
        place.check()
        note = place.note("OWNER")
        assert note.read() is None
        assert note.create(b"a")
        assert not place.note("OWNER").create(b"b")
        assert note.read() == b"a"
        note.replace(b"c")
        assert note.read() == b"c"
        note.remove()
        note.remove()
        assert note.read() is None
