from spotrun.kube.lru_map import LruMap


def filled(*keys: str, most: int = 2) -> LruMap[str, int]:
    entries = LruMap[str, int](most)
    for number, key in enumerate(keys):
        entries[key] = number
    return entries


def test_one_more_than_fit_removes_the_least_recently_used() -> None:
    assert list(filled("a", "b", "c")) == ["b", "c"]


def test_a_look_is_a_use() -> None:
    entries = filled("a", "b")
    assert entries.get("a") == 0
    entries["c"] = 2
    assert list(entries) == ["a", "c"]


def test_an_entry_that_is_replaced_removes_no_other() -> None:
    entries = filled("a", "b", "a")
    assert (list(entries), entries.get("a")) == (["b", "a"], 2)


def test_what_is_absent_is_none_and_takes_no_place() -> None:
    entries = filled("a", "b")
    assert (entries.get("x"), entries.pop("x"), "x" in entries, len(entries)) == (
        None,
        None,
        False,
        2,
    )


def test_what_was_removed_makes_room() -> None:
    entries = filled("a", "b")
    assert entries.pop("b") == 1
    entries["c"] = 2
    assert list(entries) == ["a", "c"]


def test_none_is_a_value_like_any_other() -> None:
    entries = LruMap[str, int | None](1)
    entries["a"] = None
    assert (entries.get("a"), list(entries)) == (None, ["a"])
