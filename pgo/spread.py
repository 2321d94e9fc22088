"""How far repeated measurements can be trusted: medians with bounds, from rounds that were taken in turns."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """The median of some values and a range that holds the true one, 19 times in 20."""

    low: float
    middle: float
    high: float

    def inverse(self) -> Spread:
        """Of the values' reciprocals: a share of the time as a speed-up."""
        return Spread(1 / self.high, 1 / self.middle, 1 / self.low)

    def __str__(self) -> str:
        return f"{self.middle:.2f}x ({self.low:.2f} to {self.high:.2f})"


def spread_of(values: Sequence[float]) -> Spread:
    """Median and bounds of at least one value.

    The bounds are order statistics: whatever the values' distribution, so many lie on either side of its median.
    Source: the sign test's confidence interval, normal approximation of the binomial.
    """
    ranked = sorted(values)
    n = len(ranked)
    out = max(0, int(n / 2 - 0.98 * math.sqrt(n)))
    middle = (ranked[(n - 1) // 2] + ranked[n // 2]) / 2
    return Spread(ranked[out], middle, ranked[n - 1 - out])


def compared(ours: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Our share of their time, round by round: a slow moment of the machine falls on both sides of a round."""
    return spread_of([a / b for a, b in zip(ours, theirs, strict=True)])
