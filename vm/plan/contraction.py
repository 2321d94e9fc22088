"""Which einsum terms are a matrix product: what plans make one step of, and what the option `precision` speaks of."""

from __future__ import annotations

from collections.abc import Sequence


def contraction(terms: Sequence[str], target: str) -> tuple[list[str], list[str], list[str], list[str]] | None:
    """The labels (batch, m, n, k) of two terms that are a product of matrices; None where they are none."""
    a, b = terms
    batch = [c for c in target if c in a and c in b]
    m = [c for c in target if c in a and c not in b]
    n = [c for c in target if c in b and c not in a]
    k = [c for c in a if c in b and c not in target]
    alone = [c for c in a + b if c not in target and (a + b).count(c) == 1]
    if not (m and n and k) or alone or len(set(a)) != len(a) or len(set(b)) != len(b):
        return None
    return batch, m, n, k


def implied_target(terms: Sequence[str]) -> str:
    """The output labels of an einsum without an arrow."""
    joined = "".join(terms)
    return "".join(c for c in sorted(set(joined)) if joined.count(c) == 1)


def first_pair(terms: Sequence[str], target: str) -> str:
    """What the first two of more than two terms are contracted to."""
    later = target + "".join(terms[2:])
    return "".join(dict.fromkeys(c for c in terms[0] + terms[1] if c in later))
