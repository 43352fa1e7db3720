from collections import defaultdict
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from spotrun_trainer.checkpoint.format.shard_plan import UNCUT_BYTES, Slice, plan
from spotrun_trainer.state.flatten import DTYPES, Spec

SIZES = st.integers(1, 17)
SPECS = st.builds(
    Spec,
    st.sampled_from(sorted(DTYPES)),
    st.lists(st.integers(0, 300), max_size=3).map(tuple),
)
LAYOUTS = st.dictionaries(st.text(max_size=5), SPECS, max_size=30)


def part_bytes(layout: dict[str, Spec], part: tuple[Slice, ...]) -> int:
    return sum(layout[one.tensor].itemsize * one.numel for one in part)


@given(LAYOUTS, SIZES)
def test_every_element_is_written_exactly_once(layout: dict[str, Spec], size: int) -> None:
    slices = defaultdict(list)
    for part in plan(layout, size):
        for one in part:
            slices[one.tensor].append((one.start, one.stop))

    assert set(layout) == set(slices)
    for tensor, found in slices.items():
        assert found[0][0] == 0
        assert layout[tensor].numel == found[-1][1]
        assert [stop for _, stop in found[:-1]] == [start for start, _ in found[1:]]


@given(LAYOUTS, SIZES)
def test_no_rank_writes_more_than_its_share_and_a_small_tensor(
    layout: dict[str, Spec], size: int
) -> None:
    parts = [part_bytes(layout, part) for part in plan(layout, size)]

    assert max(parts) <= sum(parts) / size + UNCUT_BYTES + 16


@given(LAYOUTS, SIZES)
def test_elements_lie_at_multiples_of_their_size(layout: dict[str, Spec], size: int) -> None:
    for part in plan(layout, size):
        offset = 0
        for one in part:
            assert offset % layout[one.tensor].itemsize == 0
            offset += layout[one.tensor].itemsize * one.numel


@given(LAYOUTS, SIZES)
def test_small_tensors_stay_whole(layout: dict[str, Spec], size: int) -> None:
    for part in plan(layout, size):
        for one in part:
            spec = layout[one.tensor]
            assert one.numel == spec.numel or spec.numel * spec.itemsize > UNCUT_BYTES


@given(LAYOUTS, SIZES, st.randoms())
def test_the_order_of_the_tensors_does_not_matter(
    layout: dict[str, Spec], size: int, dice: Random
) -> None:
    shuffled = list(layout.items())
    dice.shuffle(shuffled)

    assert plan(layout, size) == plan(dict(shuffled), size)


def test_a_real_model_is_balanced_within_a_per_cent() -> None:
    layer = {
        "qkv.weight": Spec("bfloat16", (2304, 768)),
        "qkv.bias": Spec("bfloat16", (2304,)),
        "out.weight": Spec("bfloat16", (768, 768)),
        "norm.weight": Spec("float32", (768,)),
        "step": Spec("float32", ()),
    }
    layout = {f"{number}.{name}": spec for number in range(24) for name, spec in layer.items()}

    parts = [part_bytes(layout, part) for part in plan(layout, 16)]

    assert max(parts) / min(parts) < 1.01


def test_a_tensor_larger_than_a_share_is_cut() -> None:
    layout = {"embedding": Spec("float32", (1000, 1000)), "bias": Spec("float32", (10,))}

    first, second = plan(layout, 2)

    assert (Slice("bias", 0, 10), Slice("embedding", 0, 499_995)) == first
    assert (Slice("embedding", 499_995, 1_000_000),) == second


def test_ranks_without_anything_to_write_write_nothing() -> None:
    assert ((Slice("bias", 0, 1),), ()) == plan({"bias": Spec("float32", ())}, 2)
    assert plan({}, 2) == ((), ())
