"""`ShapePolicy`: which fusions a plan may use, as a rule tree from operator pattern, extents and dtype.

The named fusions are one table, `FUSIONS`; options that switch fusions off name its rows. A pass asks the policy before
it fuses; the answer and its reason are kept in `plan.notes`, for `explain`.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...templates.records import record
from .extents import Expr
from .steps import Note, Plan


@record(eq=True)
class Fusion:
    """A named fusion. is_implemented: False for names that are reserved and said so by `explain`."""

    name: str
    doc: str
    is_implemented: bool = True


FUSIONS: tuple[Fusion, ...] = (
    Fusion("chain", "elementwise operations run as one nest, without temporaries between them"),
    # Bias and relu. Longer activations run over the block of rows that the product left in the second-level cache: an exact
    # gelu takes as long for an element there as in the first-level cache (0.60 ns with 8 rows of 1,536 and with 128).
    Fusion("product_epilogue", "bias and activation are applied while a product's result is in registers"),
    Fusion("product_residual", "a residual is added while a product's result is in registers"),
    Fusion("product_norm", "products with constant matrices, and what follows over their rows, run block by block"),
    # Merged panels were measured against products in turn (384 x 384, 1 to 128 rows): at most 1% apart.
    Fusion("sibling_products", "products of one left operand (Q, K, V) run as one", False),
    Fusion("reduce_epilogue", "elementwise operations before a reduction run inside it; equal spaces share a pass"),
    Fusion("row_softmax", "softmax and log-softmax over rows run block by block"),
    Fusion("row_norm", "layer norm, rms norm and their residual run block by block"),
    Fusion("attention", "scores, softmax and the product with values run block by block"),
    Fusion("gather_sum", "rows of a table are summed as they are gathered (embedding bags)"),
    Fusion("conv_bn", "batch norm is folded into a convolution's weights", False),
    Fusion("conv_act", "activation is applied while a convolution's result is in registers", False),
    Fusion("conv_pool", "pooling consumes a convolution's rows as they are made", False),
    Fusion("layout", "layouts are chosen so that transposed copies disappear", False),
)
BY_NAME: dict[str, Fusion] = {fusion.name: fusion for fusion in FUSIONS}
BLOCK = "block"  # runs of row steps that are neither softmax nor norm: on while one of the two is

class ShapePolicy:
    """Answers for one plan. disabled: names of FUSIONS that the function's options switch off."""

    def __init__(self, plan: Plan, disabled: Iterable[str] = ()) -> None:
        self.plan = plan
        self.disabled = frozenset(disabled)
        unknown = sorted(self.disabled.difference(BY_NAME))
        if unknown:
            raise ValueError(f"unknown fusions: {', '.join(unknown)}")

    def allows(self, name: str) -> bool:
        """Whether the fusion may be used at all."""
        if name == BLOCK:
            return not {"row_softmax", "row_norm"} <= self.disabled
        return name not in self.disabled

    def takes_block(self, name: str, rows: Expr) -> bool:
        """Whether a run of row steps becomes a loop over blocks of `rows`."""
        if not self.allows(name):
            self.note(name, f"switched off: steps over {rows!r} rows stay apart")
            return False
        return True

    def close(self) -> None:
        """Say of every fusion that did not fire why not."""
        for fusion in FUSIONS:
            if fusion.name not in self.plan.notes:
                self.note(fusion.name, "switched off" if fusion.name in self.disabled else
                          "no place for it in this program" if fusion.is_implemented else "not implemented")

    def note(self, name: str, before: str, extents: tuple[Expr, ...] = (), after: str = "") -> None:
        """Record that a fusion fired, or why it did not: text around the values of extents."""
        self.plan.notes.setdefault(name, []).append(Note(before, extents, after))
