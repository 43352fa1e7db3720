"""A Sobol sequence: points that cover a space evenly, after any number of them.

The directions are those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with better
two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), the first twenty. The sequence is
forty lines here; scipy would add 100 MB to the operator's image.
"""

from functools import cache

from spotrun.search.draws import draw

_BITS = 30  # a sequence of a billion points

# Of dimensions 2 to 20: the polynomial's inner coefficients, and the first directions.
_POLYNOMIALS: tuple[tuple[int, tuple[int, ...]], ...] = (
    (0, (1,)),
    (1, (1, 3)),
    (1, (1, 3, 1)),
    (2, (1, 1, 1)),
    (1, (1, 1, 3, 3)),
    (4, (1, 3, 5, 13)),
    (2, (1, 1, 5, 5, 17)),
    (4, (1, 1, 5, 5, 5)),
    (7, (1, 1, 7, 11, 19)),
    (11, (1, 1, 5, 1, 1)),
    (13, (1, 1, 1, 3, 11)),
    (14, (1, 3, 5, 5, 31)),
    (1, (1, 3, 3, 9, 7, 49)),
    (13, (1, 1, 1, 15, 21, 21)),
    (16, (1, 3, 1, 13, 27, 49)),
    (19, (1, 1, 1, 15, 7, 5)),
    (22, (1, 3, 1, 15, 13, 25)),
    (25, (1, 1, 5, 5, 19, 61)),
    (1, (1, 3, 7, 11, 23, 15, 103)),
)


def sobol(number: int, dimensions: int, seed: int | None = 0) -> tuple[float, ...]:
    """Return a point of the sequence, at least 0 and below 1 in each dimension.

    A seed shifts all points in the same way, so they stay evenly spread; None: not shifted.
    """
    shifts = (
        0 if seed is None else int(draw(seed, "sobol", dimension) * 2**_BITS)
        for dimension in range(dimensions)
    )
    return tuple(
        (_point(number, dimension) ^ shift) / 2**_BITS for dimension, shift in enumerate(shifts)
    )


def _point(number: int, dimension: int) -> int:
    point = 0
    for bit, direction in enumerate(_directions(dimension)):
        if number >> bit & 1:
            point ^= direction
    return point


@cache
def _directions(dimension: int) -> tuple[int, ...]:
    if dimension == 0:
        return tuple(1 << (_BITS - 1 - bit) for bit in range(_BITS))
    inner, first = _POLYNOMIALS[dimension - 1]
    degree = len(first)
    directions = [number << (_BITS - 1 - bit) for bit, number in enumerate(first)]
    for bit in range(degree, _BITS):
        before = directions[bit - degree]
        made = before ^ (before >> degree)
        for term in range(1, degree):
            if inner >> (degree - 1 - term) & 1:
                made ^= directions[bit - term]
        directions.append(made)
    return tuple(directions)
