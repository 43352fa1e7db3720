"""What counts as a stray from the way that a life takes by its worlds."""

import pytest

from tests.integration.spot.lives import Life
from tests.integration.spot.stories import swapped

SWAP = Life(swapped, ({0, 1}, {0, 2}))
MORE = Life(swapped, ({0, 1}, {0}, {0, 2, 3}))


@pytest.mark.parametrize(
    ("life", "entered", "num_strays"),
    [
        pytest.param(SWAP, [{0, 1}, {0, 2}], 0, id="just so"),
        pytest.param(SWAP, [{0, 1}, {0}, {0, 2}], 0, id="over a smaller one"),
        pytest.param(SWAP, [{0, 1}, {0, 1, 2}, {0, 2}], 0, id="over a larger one"),
        pytest.param(MORE, [{0, 1}, {0}, {0, 2}, {0, 2, 3}], 0, id="in several steps"),
        pytest.param(SWAP, [{0, 1}, {1}, {0, 2}], 1, id="without who was to stay"),
        pytest.param(SWAP, [{0, 1}, {0, 3}, {0, 2}], 1, id="with a stranger"),
        pytest.param(SWAP, [{0, 1}, {0, 2}, {0, 1}, {0, 2}], 1, id="there and back"),
        pytest.param(MORE, [{0, 1}, {0, 2}, {0, 2, 3}], 2, id="not by all of them"),
        pytest.param(SWAP, [{0, 1}], 1, id="not to its end"),
        pytest.param(SWAP, [{0}, {0, 1}, {0, 2}], 1, id="from another beginning"),
    ],
)
def test_strays(life: Life, entered: list[set[int]], num_strays: int) -> None:
    assert len(life.strays([frozenset(world) for world in entered])) == num_strays
