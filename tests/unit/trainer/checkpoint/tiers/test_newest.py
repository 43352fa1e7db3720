"""Which step is whole in the folders of all workers together."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint.format.names import Name
from spotrun_trainer.checkpoint.tiers.neighbour import keepers
from spotrun_trainer.checkpoint.tiers.newest import Held, newest


def folder(*parts: str, size: int = 2) -> list[Held]:
    """Parts by "STEP.WORLD/RANK", with an attempt after @ and another content after #."""
    found = []
    for part in parts:
        name, _, rest = part.partition("/")
        rest, _, content = rest.partition("#")
        rank, _, attempt = rest.partition("@")
        step, _, world = name.partition(".")
        sha256 = f"{name}/{rank}{content}"
        found.append(Held(Name(int(step), int(world)), attempt, int(rank), size, sha256))
    return found


def found_in(folders: Iterable[list[Held]], at_least: str | None = None) -> str | None:
    known = Name.parse(at_least) if at_least else None
    found = newest([*folders], at_least=known)
    return None if found is None else str(found.name)


BOTH = ["5.1/0", "5.1/1"]


@pytest.mark.parametrize(
    ("folders", "at_least", "expected"),
    [
        ([[], []], None, None),
        ([BOTH, []], None, "step-5.g1"),
        ([["5.1/0"], ["5.1/1"]], None, "step-5.g1"),
        ([["5.1/0"], ["5.1/0"]], None, None),
        ([[*BOTH, "6.1/0"], []], None, "step-5.g1"),  # the save of step 6 was under way
        ([[*BOTH, "6.1/0"], ["6.1/1"]], None, "step-6.g1"),
        ([["5.1/0@a", "5.1/1@b"], []], None, None),  # of two attempts
        ([BOTH, []], "step-5.g1", "step-5.g1"),  # memory is quicker than the durable place
        ([BOTH, []], "step-6.g1", None),
        ([BOTH, []], "step-4.g2", None),  # another world has gone on since, from less
        ([BOTH, ["5.2/0", "5.2/1"]], "step-4.g2", "step-5.g2"),
    ],
)
def test_the_newest_step_of_which_all_parts_are_there(
    folders: list[list[str]], at_least: str | None, expected: str | None
) -> None:
    assert found_in((folder(*parts) for parts in folders), at_least) == expected


def test_every_holder_of_a_part_is_known() -> None:
    found = newest([folder("5.1/0", "5.1/1"), folder("5.1/1")])
    assert found is not None
    assert [*found.holders] == [{0}, {0, 1}]


def test_of_parts_that_differ_one_is_taken_by_all() -> None:
    found = newest([folder("5.1/0", "5.1/1"), folder("5.1/1#other"), folder("5.1/1")])
    assert found is not None
    assert [*found.holders] == [{0}, {0, 2}]
    assert found.manifests == ("5.1/0", "5.1/1")


@given(st.lists(st.sampled_from("abcde"), min_size=2, max_size=12), st.data())
def test_the_loss_of_any_node_leaves_every_part(nodes: list[str], data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(nodes))
    found = keepers(nodes)
    parts = [
        [str(rank) for rank in range(len(nodes)) if worker in (rank, found[rank])]
        for worker in range(len(nodes))
    ]
    left = [
        folder(*(f"5.1/{rank}" for rank in held), size=len(nodes))
        for node, held in zip(nodes, parts, strict=True)
        if node != lost
    ]
    assert found_in(left) == ("step-5.g1" if len(set(nodes)) > 1 else None)
