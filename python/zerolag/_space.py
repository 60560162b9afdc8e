"""Spaces of sweeps: every combination, a list of points, or a sequence that fills the space evenly."""

from __future__ import annotations

import hashlib
import itertools
import math
from dataclasses import dataclass
from typing import Iterable, Mapping, Sequence, Union

from ._errors import InputError
from ._spec import Value, key_of, written

Space = Union[Mapping[str, Iterable[Value]], Sequence[Mapping[str, Value]]]
"""Values per key, of which every combination is run; or a list of points."""


@dataclass(frozen=True)
class Between:
    """The values from `low` to `high`, with `log=True` evenly by ratio.

    They are multiples of `step`, and written by `form`: `Between(50, 400, step=1, form="{}ms")`.
    """

    low: float
    high: float
    step: float = 0.0
    log: bool = False
    form: str = "{}"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise InputError(f"Between({self.low}, {self.high}): the first value must not be above the second")
        if self.log and self.low <= 0:
            raise InputError(f"Between({self.low}, {self.high}): values by ratio are above 0")
        if self.step < 0:
            raise InputError(f"Between: step {self.step} is below 0")
        if self.step and self.steps()[0] > self.steps()[1]:
            raise InputError(f"Between({self.low}, {self.high}): no multiple of {self.step} is there")

    def steps(self) -> tuple[int, int]:
        """Returns the lowest and the highest value in steps."""
        return math.ceil(self.low / self.step), math.floor(self.high / self.step)

    def at(self, share: float) -> float:
        """Returns the value at a share of the way from `low` (0) to `high` (1)."""
        if self.log:
            value = self.low * (self.high / self.low) ** share
        else:
            value = self.low + (self.high - self.low) * share
        return self.near(value)

    def near(self, value: float) -> float:
        """Returns the allowed value that is nearest to another one."""
        if self.step:
            least, most = self.steps()
            return min(max(round(value / self.step), least), most) * self.step
        return min(max(value, self.low), self.high)

    def written(self, value: float) -> str:
        """Returns a value as a sweep takes it."""
        whole = int(value)
        return self.form.format(whole if whole == value else value)


Axis = Union[Between, Sequence[Value]]


def points_of(space: Space) -> tuple[list[str], list[list[str]]]:
    """Returns the keys of a space and the values of its points."""
    if isinstance(space, Mapping):
        axes = {key_of(key): _values(key, values) for key, values in space.items()}
        if not axes:
            raise InputError("nothing to vary: give values for at least one key")
        return list(axes), [list(point) for point in itertools.product(*axes.values())]
    points = [{key_of(key): written(value) for key, value in point.items()} for point in space]
    if not points:
        raise InputError("nothing to vary: give at least one point")
    keys = list(points[0])
    for at, point in enumerate(points):
        if list(point) != keys:
            raise InputError(f"point {at} has the keys {', '.join(point) or 'none'}; point 0 has {', '.join(keys)}")
    return keys, [list(point.values()) for point in points]


def _values(key: str, values: object) -> list[str]:
    if isinstance(values, Between):
        raise InputError(f"`{key}`: a range has no list of values; use `sobol`, or list some")
    if isinstance(values, (str, bytes, int, float)) or not isinstance(values, Iterable):
        raise InputError(f"`{key}`: expected a list of values, as in [{values!r}]")
    listed: list[str] = [written(value) for value in values]
    if not listed:
        raise InputError(f"`{key}`: the list of values is empty")
    return listed


# Degree, coefficients and first direction numbers of primitive polynomials, for the dimensions from the second on:
# Joe & Kuo 2008, "Constructing Sobol sequences with better two-dimensional projections", the first of their numbers.
_JOE_KUO = [
    (1, 0, [1]),
    (2, 1, [1, 3]),
    (3, 1, [1, 3, 1]),
    (3, 2, [1, 1, 1]),
    (4, 1, [1, 1, 3, 3]),
    (4, 4, [1, 3, 5, 13]),
    (5, 2, [1, 1, 5, 5, 17]),
    (5, 4, [1, 1, 5, 5, 5]),
    (5, 7, [1, 1, 7, 11, 19]),
    (5, 11, [1, 1, 5, 1, 1]),
    (5, 13, [1, 1, 1, 3, 11]),
    (5, 14, [1, 3, 5, 5, 31]),
    (6, 1, [1, 3, 3, 9, 7, 49]),
    (6, 13, [1, 1, 1, 15, 21, 21]),
    (6, 16, [1, 3, 1, 13, 27, 49]),
    (6, 19, [1, 1, 1, 15, 7, 5]),
    (6, 22, [1, 3, 1, 15, 13, 25]),
    (6, 25, [1, 1, 5, 5, 19, 61]),
    (7, 1, [1, 3, 7, 11, 23, 15, 103]),
    (7, 4, [1, 3, 7, 13, 13, 15, 69]),
]
_BITS = 30
DIMENSIONS = len(_JOE_KUO) + 1
"""The most keys of `sobol`."""


def _directions(dimension: int) -> list[int]:
    if dimension == 0:
        return [1 << (_BITS - 1 - bit) for bit in range(_BITS)]
    degree, coefficients, first = _JOE_KUO[dimension - 1]
    numbers = [number << (_BITS - 1 - bit) for bit, number in enumerate(first)]
    for bit in range(degree, _BITS):
        number = numbers[bit - degree] ^ (numbers[bit - degree] >> degree)
        for back in range(1, degree):
            if (coefficients >> (degree - 1 - back)) & 1:
                number ^= numbers[bit - back]
        numbers.append(number)
    return numbers


def sequence(dimensions: int, points: int, seed: int) -> list[list[float]]:
    """Returns the first points of a Sobol sequence in [0, 1), shifted by a seed; seed 0 shifts nothing."""
    directions = [_directions(dimension) for dimension in range(dimensions)]
    shifts = [0] * dimensions
    if seed:
        digests = (hashlib.sha256(f"{seed}/{dimension}".encode()).digest() for dimension in range(dimensions))
        shifts = [int.from_bytes(digest[:8], "big") >> (64 - _BITS) for digest in digests]
    state = [0] * dimensions
    found: list[list[float]] = []
    for index in range(points):
        found.append([(value ^ shift) / (1 << _BITS) for value, shift in zip(state, shifts)])
        # Gray code: the lowest bit that is 0 says which direction is next.
        bit = (~index & (index + 1)).bit_length() - 1
        state = [value ^ direction[bit] for value, direction in zip(state, directions)]
    return found


def sobol(space: Mapping[str, Axis], points: int, *, seed: int = 0) -> list[dict[str, Value]]:
    """Returns points that fill a space evenly, for `sweep`: the first ones of a Sobol sequence.

    A key has a range (`Between`) or a list of values. Where a grid of 6 keys with 10 values has a million points, some
    hundred of these say which keys matter; a power of two of them is most even. The same seed gives the same points.
    """
    if not 1 <= len(space) <= DIMENSIONS:
        raise InputError(f"sobol: expected 1 to {DIMENSIONS} keys, not {len(space)}")
    if not 1 <= points <= 1 << 20:
        raise InputError(f"sobol: expected 1 to {1 << 20} points, not {points}")
    axes: dict[str, Axis] = {
        key: axis if isinstance(axis, Between) else _values(key, axis) for key, axis in space.items()
    }

    def value(axis: Axis, share: float) -> Value:
        if isinstance(axis, Between):
            return axis.written(axis.at(share))
        return axis[int(share * len(axis))]

    shares = sequence(len(axes), points, seed)
    return [{key: value(axis, share) for (key, axis), share in zip(axes.items(), point)} for point in shares]
