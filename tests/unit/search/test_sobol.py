import pytest
import torch

from spotrun.search.sobol import sobol

DIMENSIONS = 20


def test_the_points_are_those_of_joe_and_kuo() -> None:
    # torch has them in the order of Gray's code, which is another one of the same points.
    engine = torch.quasirandom.SobolEngine(DIMENSIONS)  # type: ignore[no-untyped-call]
    published = engine.draw(256, dtype=torch.float64)
    ours = [list(sobol(n ^ (n >> 1), DIMENSIONS, None)) for n in range(256)]
    assert ours == published.tolist()


@pytest.mark.parametrize("seed", [0, 1, 99])
def test_each_dimension_has_a_point_in_each_slot(seed: int) -> None:
    points = [sobol(number, DIMENSIONS, seed) for number in range(64)]
    for dimension in range(DIMENSIONS):
        assert sorted(int(point[dimension] * 64) for point in points) == list(range(64))


def test_seeds_differ() -> None:
    assert sobol(3, 2, 1) != sobol(3, 2, 2)
