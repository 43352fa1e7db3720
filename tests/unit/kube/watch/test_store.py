from collections.abc import Iterable

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from spotrun.kube.resource import Key, Meta
from spotrun.kube.watch.store import Change, Store


class Thing(msgspec.Struct, frozen=True):
    metadata: Meta
    colours: tuple[str, ...] = ()


def thing(name: str, version: int, uid: str = "u", colours: Iterable[str] = ()) -> Thing:
    meta = Meta(name=name, namespace="ns", uid=uid, resource_version=str(version))
    return Thing(meta, tuple(colours))


def coloured() -> Store[Thing]:
    return Store({"colour": lambda item: item.colours})


def test_an_index_follows_every_change() -> None:
    store = coloured()
    store.put(thing("a", 1, colours=["red", "blue"]))
    store.put(thing("b", 2, colours=["red"]))
    store.put(thing("a", 3, colours=["blue", "green"]))
    assert [t.metadata.name for t in store.by_index("colour", "red")] == ["b"]
    assert [t.metadata.name for t in store.by_index("colour", "green")] == ["a"]
    store.remove(Key("ns", "a"))
    assert store.by_index("colour", "blue") == ()
    assert store.by_index("colour", "never seen") == ()


def test_another_object_of_the_same_name_ends_the_first() -> None:
    store = coloured()
    old, new = thing("a", 1, "u1", ["red"]), thing("a", 5, "u2", ["blue"])
    store.put(old)
    assert store.put(new) == [(old, None), (None, new)]
    assert store.by_index("colour", "red") == ()


def test_an_older_version_changes_nothing() -> None:
    store = coloured()
    new = thing("a", 5, colours=["red"])
    store.put(new)
    assert store.put(thing("a", 5, colours=["blue"])) == []
    assert store.put(thing("a", 4, "another", ["blue"])) == []
    assert store.get(Key("ns", "a")) is new


def test_removing_what_is_not_there_changes_nothing() -> None:
    assert coloured().remove(Key("ns", "a")) == []


names = st.sampled_from("abc")
operations = st.lists(
    st.tuples(
        names,
        st.one_of(st.none(), st.tuples(st.sampled_from("uv"), st.sets(st.sampled_from("xyz")))),
    )
)


@given(operations)
def test_who_follows_the_changes_knows_what_the_store_knows(
    steps: list[tuple[str, tuple[str, set[str]] | None]],
) -> None:
    store = coloured()
    followed: dict[str, Thing] = {}

    def follow(changes: list[Change[Thing]]) -> None:
        for old, new in changes:
            if old is not None:
                assert followed.pop(old.metadata.name) is old
            if new is not None:
                assert new.metadata.name not in followed
                followed[new.metadata.name] = new

    for version, (name, what) in enumerate(steps):
        if what is None:
            follow(store.remove(Key("ns", name)))
        else:
            follow(store.put(thing(name, version, what[0], sorted(what[1]))))
        assert followed == {t.metadata.name: t for t in store}
        assert {key.name for key in store.names()} == set(followed)
        for colour in "xyz":
            expected = {n for n, t in followed.items() if colour in t.colours}
            assert {t.metadata.name for t in store.by_index("colour", colour)} == expected
