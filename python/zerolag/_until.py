"""When a point of a sweep has enough seeds: the confidence interval of a mean."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Optional, Sequence

from ._errors import InputError


@dataclass(frozen=True)
class Until:
    """Adds seeds to a point until the mean of a figure is known well enough.

    `Until("request_latency.p99", 0.05)`: the confidence interval of its mean over seeds reaches at most 5 % to each side
    (Student's t, so the means are assumed to be about normal). No point gets more than `most` runs, and one whose run
    fails, or has no samples of the figure, gets no more. Further seeds follow the first ones, in the same order at all
    points, so points stay comparable seed by seed.
    """

    figure: str
    relative: float = 0.05
    confidence: float = 0.95
    most: int = 200

    def __post_init__(self) -> None:
        if not 0 < self.relative < 1:
            raise InputError(f"until: relative {self.relative} is outside 0 to 1")
        if not 0.5 <= self.confidence < 1:
            raise InputError(f"until: confidence {self.confidence} is outside 0.5 to 1")
        if not 2 <= self.most <= 10_000:
            raise InputError(f"until: most {self.most} is outside 2 to 10000")

    def more(self, values: Sequence[Optional[int]]) -> int:
        """Returns how many runs a point still needs, from the figures of its runs."""
        known = [value for value in values if value is not None]
        runs = len(values)
        if len(known) < runs or runs >= self.most:
            return 0
        if runs < 2:
            return 2 - runs
        mean = sum(known) / runs
        variance = sum((value - mean) ** 2 for value in known) / (runs - 1)
        half = t_quantile(runs - 1, self.confidence) * math.sqrt(variance / runs)
        wanted = self.relative * mean
        if half <= wanted:
            return 0
        # The width shrinks with the square root of the runs. At most as many again: the variance is only estimated.
        needed = runs * (half / wanted) ** 2 if wanted > 0 else math.inf
        return max(1, min(runs, self.most - runs, math.ceil(min(needed, 1e9)) - runs))


def t_quantile(freedom: int, confidence: float) -> float:
    """Returns the half width of the middle `confidence` of Student's distribution, by bisection."""
    low, high = 0.0, 1.0
    while _middle(freedom, high) < confidence:
        high *= 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _middle(freedom, middle) < confidence else (low, middle)
    return (low + high) / 2


def _middle(freedom: int, t: float) -> float:
    """Returns the probability of -t to t."""
    return 1 - _beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def _beta(a: float, b: float, x: float) -> float:
    """Returns the regularised incomplete beta function, by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - _beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    f, c, d = 1.0, 1.0, 0.0
    for i in range(300):
        m = i // 2
        if i == 0:
            numerator = 1.0
        elif i % 2 == 0:
            numerator = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        else:
            numerator = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + numerator * d or 1e-300)
        c = 1 + numerator / c or 1e-300
        f *= c * d
        if abs(1 - c * d) < 1e-14:
            break
    return front * (f - 1)
