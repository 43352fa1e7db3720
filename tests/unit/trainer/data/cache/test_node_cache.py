"""A cache on a node's disk: within its limit, shared by processes, safe to lose or to be torn."""

import json
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from spotrun_trainer.data.cache import entries, locks, settings
from spotrun_trainer.data.cache.node_cache import NodeCache
from spotrun_trainer.data.cache.settings import node_cache

KEYS = [f"{number:02x}" * 32 for number in range(8)]


def get(cache: NodeCache, key: str, content: bytes = b"x" * 100) -> bytes:
    """Return what is there, or make it, as readers of shards do."""
    if (found := cache.find(key)) is None:
        with cache.making(key):
            found = (
                cache.find(key)
                or cache.confirm(key)
                or cache.make(key, lambda part: part.write_bytes(content))
            )
    with found as file:
        return file.read()


def kept(cache: NodeCache) -> list[str]:
    return sorted(path.name for path in cache.root.glob("files/*/*") if not path.suffix)


def test_it_is_made_once(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 1000)
    assert [get(cache, KEYS[0], one) for one in (b"first", b"second")] == [b"first"] * 2
    assert (cache.hits, cache.misses) == (1, 1)
    assert get(NodeCache(tmp_path, 1000), KEYS[0]) == b"first"


def test_what_was_not_used_for_the_longest_time_goes_first(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 350)
    for number, key in enumerate([*KEYS[:3], KEYS[0], KEYS[3], KEYS[4]]):
        get(cache, key)
        for note in tmp_path.glob(f"files/*/{key}.json"):
            os.utime(note, (number, number))  # file systems have coarse clocks
    assert kept(cache) == [KEYS[0], KEYS[3], KEYS[4]]


def test_a_large_one_takes_the_place_of_several(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 400)
    for key in KEYS[:4]:
        get(cache, key)
    get(cache, KEYS[4], b"x" * 250)
    assert kept(cache) == [KEYS[3], KEYS[4]]


def test_what_is_open_is_read_to_its_end_although_it_was_removed(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 100)
    get(cache, KEYS[0], b"first" * 20)
    opened = cache.find(KEYS[0])
    get(cache, KEYS[1])
    assert kept(cache) == [KEYS[1]]
    assert opened is not None
    with opened:
        assert opened.read() == b"first" * 20


def test_what_does_not_fit_is_refused_with_what_to_try(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="SPOTRUN_DATA_CACHE_SIZE"):
        get(NodeCache(tmp_path, 10), KEYS[0])
    assert list(tmp_path.glob("parts/*")) == []


def test_what_is_known_not_to_fit_is_not_begun(tmp_path: Path) -> None:
    cache, begun = NodeCache(tmp_path, 100), list[Path]()
    with pytest.raises(OSError, match="SPOTRUN_DATA_CACHE_SIZE"), cache.making(KEYS[0]):
        cache.make(KEYS[0], begun.append, num_bytes=101)
    assert not begun


def test_room_for_what_comes_is_made_before_it_comes(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 200)
    for key in KEYS[:2]:
        get(cache, key)

    def write(part: Path) -> None:
        assert kept(cache) == [KEYS[1]]
        part.write_bytes(b"x" * 100)

    with cache.making(KEYS[2]):
        cache.make(KEYS[2], write, num_bytes=100).close()
    assert kept(cache) == [KEYS[1], KEYS[2]]


def as_another_user(root: Path, answer: Connection) -> None:
    os.setgid(65534)
    os.setuid(65534)
    try:
        NodeCache(root, 100)
    except ValueError as error:
        answer.send(str(error))
    else:
        answer.send("it was taken")


@pytest.mark.skipif(os.getuid() != 0, reason="only root may become another user")
def test_the_folder_of_another_user_is_refused_with_what_to_try() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        NodeCache(root, 100)
        receiving, sending = multiprocessing.Pipe(duplex=False)
        other = multiprocessing.get_context("fork").Process(
            target=as_another_user, args=(root, sending)
        )
        other.start()
        said = receiving.recv()
        other.join()
    assert "it belongs to user 0, but this is user 65534" in said
    assert "SPOTRUN_DATA_CACHE" in said


@pytest.mark.parametrize("damage", ["other", "short", "no note", "no file", "note is torn"])
def test_what_is_damaged_is_made_again(tmp_path: Path, damage: str) -> None:
    cache = NodeCache(tmp_path, 1000)
    get(cache, KEYS[0], b"content")
    (file,) = tmp_path.glob(f"files/*/{KEYS[0]}")
    note = file.with_suffix(".json")
    ways: dict[str, Callable[[], object]] = {
        "other": lambda: file.write_bytes(b"CONTENT"),
        "short": lambda: os.truncate(file, 3),
        "no note": note.unlink,
        "no file": file.unlink,
        "note is torn": lambda: note.write_text('{"num_bytes": 7, "sha'),
    }
    ways[damage]()
    assert get(cache, KEYS[0], b"content") == b"content"
    assert (cache.hits, cache.misses) == (0, 2)


def test_after_a_boot_hashes_are_compared_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = NodeCache(tmp_path, 1000)
    get(cache, KEYS[0], b"content")
    get(cache, KEYS[1], b"content")
    (torn,) = tmp_path.glob(f"files/*/{KEYS[1]}")
    before = torn.stat()
    torn.write_bytes(b"c\0\0\0\0\0\0")  # a block that a crash left empty, with the time it had
    os.utime(torn, ns=(before.st_atime_ns, before.st_mtime_ns))
    monkeypatch.setattr(entries, "boot", lambda: "another")

    assert cache.find(KEYS[0]) is None
    assert [get(cache, key, b"content") for key in KEYS[:2]] == [b"content"] * 2
    assert (cache.hits, cache.misses) == (1, 3)
    found = cache.find(KEYS[0])
    assert found is not None
    found.close()


def test_a_hash_of_a_manifest_is_compared_before_anything_is_kept(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 1000)
    with pytest.raises(OSError, match="another hash than its manifest"), cache.making(KEYS[0]):
        cache.make(KEYS[0], lambda part: part.write_bytes(b"x"), digest="0" * 64)
    assert kept(cache) == []


def test_a_full_disk_takes_what_was_used_least(tmp_path: Path) -> None:
    cache = NodeCache(tmp_path, 1000)
    for key in KEYS[:4]:
        get(cache, key)
    tries = iter([OSError(28, "No space left on device")] * 2)

    def make(part: Path) -> None:
        if error := next(tries, None):
            raise error
        part.write_bytes(b"new")

    with cache.making(KEYS[7]):
        cache.make(KEYS[7], make).close()
    assert len(kept(cache)) == 3
    assert KEYS[7] in kept(cache)


def test_no_name_shares_its_lock_with_that_of_the_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "_FILES", 1)  # so that all names share one
    cache = NodeCache(tmp_path, 1000)

    making = threading.Thread(target=lambda: get(cache, "a"), daemon=True)
    making.start()
    making.join(10)

    assert kept(cache) == ["a"]


def test_processes_that_want_the_same_make_it_once(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    workers = [fork.Process(target=make_slowly, args=(tmp_path,)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert len(list(tmp_path.glob("made-*"))) == 1


def make_slowly(root: Path) -> None:
    cache = NodeCache(root, 1000)

    def make(part: Path) -> None:
        (root / f"made-{os.getpid()}").touch()
        time.sleep(0.2)
        part.write_bytes(b"x")

    if cache.find(KEYS[0]) is None:
        with cache.making(KEYS[0]):
            (cache.find(KEYS[0]) or cache.make(KEYS[0], make)).close()


def test_a_process_that_is_killed_holds_no_lock_and_leaves_nothing_half(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    is_making = fork.Event()
    killed = fork.Process(target=make_for_ever, args=(tmp_path, is_making))
    killed.start()
    assert is_making.wait(20)
    os.kill(killed.pid or 0, signal.SIGKILL)
    killed.join()

    cache = NodeCache(tmp_path, 1000)
    assert get(cache, KEYS[0], b"whole") == b"whole"
    assert list(tmp_path.glob("parts/*")) == []


def make_for_ever(root: Path, is_making: Event) -> None:
    def make(part: Path) -> None:
        part.write_bytes(b"half")
        is_making.set()
        time.sleep(60)

    cache = NodeCache(root, 1000)
    with cache.making(KEYS[0]):
        cache.make(KEYS[0], make)


def test_the_environment_says_where_it_is_and_how_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTRUN_DATA_CACHE", str(tmp_path / "there"))
    monkeypatch.setenv("SPOTRUN_DATA_CACHE_SIZE", "150B")
    cache = node_cache()
    for key in KEYS[:2]:
        get(cache, key)
    assert cache.root == tmp_path / "there"
    assert kept(cache) == [KEYS[1]]
    assert node_cache() is cache
    monkeypatch.setenv("SPOTRUN_DATA_CACHE_SIZE", "much")
    with pytest.raises(ValueError, match="SPOTRUN_DATA_CACHE_SIZE: 'much' is not a size"):
        node_cache()


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps({}))
    with pytest.raises(ValueError, match="SPOTRUN_DATA_CACHE=/path"):
        NodeCache(tmp_path / "file", 1000)


def test_without_a_name_it_is_a_folder_of_this_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SPOTRUN_DATA_CACHE", raising=False)
    monkeypatch.setattr(settings, "gettempdir", lambda: str(tmp_path))
    root = node_cache().root
    assert root.stat().st_mode & 0o777 == 0o700
    root.rename(tmp_path / "elsewhere")
    root.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="belongs to another user"):
        node_cache()


def test_a_process_killed_amid_a_removal_leaves_no_file_that_nobody_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = NodeCache(tmp_path, 1000)
    get(cache, KEYS[0])
    unlink, removed = Path.unlink, list[Path]()

    def killed(path: Path, *, missing_ok: bool = False) -> None:
        if removed:
            raise KeyboardInterrupt
        removed.append(path)
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as context:
        context.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            cache.discard(KEYS[0])
    assert kept(cache) == []
