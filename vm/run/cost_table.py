"""Which cost rule each kernel has.

`RULES` and `PLAIN` together name every kernel of the registry, and a test demands it, so that a new kernel does not
pass unseen; ufunc methods (`np.add.outer`, ...) share one rule for each method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from . import estimates as e
from . import kernel_costs as k
from .estimates import Cost, Rule

# Operands read once or a few times, the result no larger than they are together, or than their broadcast:
# kernel -> work for each element.
PLAIN: dict[str, int] = {}
for _factor, _names in (
    (16, """
        np.absolute np.fabs np.rint np.sign np.positive np.negative np.conjugate np.exp np.exp2 np.log np.log2 np.log10
        np.expm1 np.log1p np.sqrt np.square np.cbrt np.reciprocal np.sin np.cos np.tan np.arcsin np.arccos np.arctan
        np.sinh np.cosh np.tanh np.arcsinh np.arccosh np.arctanh np.degrees np.radians np.deg2rad np.rad2deg np.invert
        np.logical_not np.isfinite np.isinf np.isnan np.signbit np.floor np.ceil np.trunc np.spacing np.bitwise_count
        np.add np.subtract np.multiply np.divide np.fmod np.logaddexp np.logaddexp2 np.arctan2 np.hypot np.bitwise_and
        np.bitwise_or np.bitwise_xor np.left_shift np.right_shift np.greater np.greater_equal np.less np.less_equal
        np.equal np.not_equal np.logical_and np.logical_or np.logical_xor np.maximum np.minimum np.fmax np.fmin
        np.heaviside np.copysign np.nextafter np.ldexp np.modf np.frexp np.clip np.fix np.nan_to_num
        np.angle np.real_if_close np.sinc np.interp np.unwrap np.isclose np.isposinf np.isneginf np.iscomplex np.isreal
        arr.clip arr.conj arr.conjugate np.bool np.int8 np.int16 np.int32 np.int64 np.uint8 np.uint16
        np.uint32 np.uint64 np.float16 np.float32 np.float64 np.complex64 np.complex128 np.longlong np.ulonglong
        np.longdouble np.clongdouble"""),
    (64, "np.floor_divide np.remainder np.divmod np.power np.float_power np.gcd np.lcm np.i0"),
    (400, "ops.erf"),
    (8, """
        np.sum np.prod np.max np.min np.amax np.amin np.mean np.var np.std np.any np.all np.argmax np.argmin np.ptp
        np.average np.count_nonzero np.nansum np.nanprod np.nanmax np.nanmin np.nanmean np.nanstd np.nanvar
        np.nanargmax np.nanargmin np.allclose np.array_equal np.array_equiv np.trace np.trapezoid np.cumsum np.cumprod
        np.ediff1d np.gradient np.nancumsum np.nancumprod arr.sum arr.prod arr.max arr.min arr.mean arr.var arr.std
        arr.any arr.all arr.argmax arr.argmin arr.cumsum arr.cumprod arr.trace np.cross np.vecdot np.vdot np.where
        np.take_along_axis np.put np.put_along_axis np.putmask np.place np.copyto np.compress
        np.extract np.unravel_index np.ravel_multi_index arr.put arr.compress arr.fill
        np.copy np.ascontiguousarray np.asfortranarray np.append np.insert np.delete np.roll np.trim_zeros arr.copy
        arr.reshape arr.ravel arr.flatten np.reshape np.ravel np.fft.fftshift np.fft.ifftshift np.linalg.vector_norm
        np.fill_diagonal np.linalg.trace np.linalg.cross np.cumulative_sum np.cumulative_prod np.asarray_chkfinite
        np.packbits np.polyadd np.polysub"""),
):
    PLAIN.update(dict.fromkeys(_names.split(), _factor))

RULES: dict[str, Rule] = {}
for _rule, _names in (
    # views and questions: hardly any work, however large the array is
    (k.free_cost, """
        np.real np.imag np.iscomplexobj np.isrealobj np.isscalar np.transpose np.swapaxes np.moveaxis np.rollaxis
        np.expand_dims np.squeeze np.broadcast_to np.broadcast_arrays np.atleast_1d np.atleast_2d np.atleast_3d np.flip
        np.fliplr np.flipud np.rot90 np.diagonal np.matrix_transpose np.permute_dims
        np.lib.stride_tricks.sliding_window_view np.ndim np.shape np.size np.ix_ np.ndenumerate
        np.linalg.diagonal np.broadcast_shapes np.issubdtype np.result_type np.promote_types np.can_cast
        np.may_share_memory np.finfo np.iinfo arr.set_shape arr.transpose arr.swapaxes arr.squeeze arr.diagonal
        arr.item arr.view py.len py.enumerate py.reversed py.isinstance py.hasattr py.getattr py.list_append
        py.list_pop py.dict_items py.dict_keys py.dict_values py.is_integer py.calls op.not"""),
    # products
    (e.matmul, "np.matmul op.matmul"), (e.dot, "np.dot arr.dot"), (e.inner, "np.inner"),
    (e.outer, "np.outer np.kron np.linalg.outer np.polymul np.polydiv"),
    (e.tensordot, "np.tensordot"), (e.einsum, "np.einsum"), (e.convolve, "np.convolve np.correlate"),
    (e.multi_dot, "np.linalg.multi_dot"), (e.matvec, "np.matvec"), (e.vecmat, "np.vecmat"),
    # functions of arrays whose work or result is out of proportion
    (k.polyval_cost, "np.polyval"), (k.poly_steps_cost, "np.polyder np.polyint"),
    (k.polyfit_cost, "np.polyfit"), (k.roots_cost, "np.roots np.poly"),
    (k.unpackbits_cost, "np.unpackbits"), (k.diff_cost, "np.diff"), (k.rows_squared_cost, "np.cov np.corrcoef"),
    (k.quantile_cost, "np.percentile np.quantile np.nanpercentile np.nanquantile"),
    (k.nonzero_cost, "np.nonzero np.flatnonzero np.argwhere arr.nonzero"),
    (k.take_cost, "np.take arr.take"), (k.bincount_cost, "np.bincount"),
    (k.histogram_cost(1, 1), "np.histogram np.histogram_bin_edges"), (k.histogram_cost(2, 2), "np.histogram2d"),
    (k.shares_memory_cost, "np.shares_memory"),
    (k.sort_cost, """
        np.median np.nanmedian np.searchsorted np.digitize np.isin np.sort np.argsort np.partition np.argpartition
        np.unique np.unique_values np.unique_counts np.unique_inverse np.unique_all np.lexsort
        np.sort_complex np.intersect1d np.union1d np.setdiff1d np.setxor1d arr.searchsorted
        arr.sort arr.argsort arr.partition arr.argpartition"""),
    # sizes given as numbers
    (k.filled_cost(0, 1), "np.zeros np.ones np.empty"), (k.filled_cost(0, 2), "np.full"),
    (k.like_cost(1, 4), "np.zeros_like np.ones_like np.empty_like"), (k.like_cost(2, 5), "np.full_like"),
    (k.arange_cost, "np.arange"), (k.linspace_cost(5), "np.linspace np.geomspace"), (k.linspace_cost(6), "np.logspace"),
    (k.square_cost(1, 3), "np.eye np.tri"), (k.square_cost(-1, 1), "np.identity"), (k.diag_cost, "np.diag"),
    (k.diagflat_cost, "np.diagflat"), (k.triangle_cost, "np.tril np.triu"), (k.meshgrid_cost, "np.meshgrid"),
    (k.grid_cost, "np.mgrid np.ogrid np.r_ np.c_"),
    (k.indices_cost, "np.indices"), (k.ndindex_cost, "np.ndindex"), (k.vander_cost, "np.vander"), (k.pad_cost, "np.pad"),
    (k.repeat_cost, "np.repeat arr.repeat"), (k.tile_cost, "np.tile"), (k.resize_cost, "np.resize"),
    (k.window_cost, "np.hanning np.hamming np.blackman np.bartlett np.kaiser"),
    (k.triangle_indices_cost, "np.triu_indices np.tril_indices"), (k.diag_indices_cost, "np.diag_indices"),
    (k.triangle_indices_from_cost, "np.triu_indices_from np.tril_indices_from np.diag_indices_from"),
    (k.sections_cost, "np.split np.array_split np.hsplit np.vsplit np.dsplit"), (k.unstack_cost, "np.unstack"),
    (k.stack_cost, """
        np.concatenate np.stack np.vstack np.hstack np.dstack np.column_stack np.block np.select np.choose
        arr.choose"""),
    (k.array_cost, "np.array np.asarray np.asanyarray np.require"), (k.astype_cost, "arr.astype np.astype"),
    (k.tolist_cost, "arr.tolist"), (k.fftfreq_cost, "np.fft.fftfreq np.fft.rfftfreq"),
    (k.fft_cost, """
        np.fft.fft np.fft.ifft np.fft.rfft np.fft.irfft np.fft.hfft np.fft.ihfft np.fft.fft2 np.fft.ifft2 np.fft.rfft2
        np.fft.irfft2 np.fft.fftn np.fft.ifftn np.fft.rfftn np.fft.irfftn"""),
    # linear algebra
    (k.cubic_cost(16), """
        np.linalg.norm np.linalg.solve np.linalg.inv np.linalg.det np.linalg.slogdet np.linalg.cholesky np.linalg.qr
        np.linalg.svd np.linalg.eigh np.linalg.eigvalsh np.linalg.eig np.linalg.eigvals np.linalg.lstsq np.linalg.pinv
        np.linalg.matrix_rank np.linalg.cond np.linalg.matrix_norm np.linalg.svdvals"""),
    (k.matrix_power_cost, "np.linalg.matrix_power"), (k.tensor_solve_cost, "np.linalg.tensorsolve np.linalg.tensorinv"),
    # Python
    (k.walk_cost, """
        py.min py.max py.abs py.any py.all py.int py.float py.bool py.complex py.dict_get py.dict_update py.raise
        py.assert         op.pos math.hypot math.fsum math.dist math.gcd"""),
    (k.sum_cost, "py.sum"), (k.listed_cost, "py.tuple py.list py.sorted py.list_extend py.list_insert py.list_reverse"),
    (k.range_cost, "py.range"), (k.round_cost, "py.round"), (k.zip_cost, "py.zip"),
    (k.decimals_cost, "np.round np.around arr.round"),
    (k.pow_cost, "py.pow"), (k.format_cost, "py.format"),
    (k.text_cost, "py.text"), (k.operator_cost("mod"), "py.divmod"),
    (k.factorial_cost, "math.factorial"), (k.binomial_cost, "math.comb math.perm"),
    (k.product_of_ints_cost, "math.prod math.lcm"),
    (k.small_ints_cost, """
        math.sqrt math.cbrt math.exp math.exp2 math.expm1 math.log math.log2 math.log10 math.log1p math.pow math.sin
        math.cos math.tan math.asin math.acos math.atan math.atan2 math.sinh math.cosh math.tanh math.asinh math.acosh
        math.atanh math.floor math.ceil math.trunc math.fabs math.fmod math.copysign math.isnan math.isinf math.isfinite
        math.isclose math.erf math.erfc math.gamma math.lgamma math.degrees math.radians math.isqrt math.modf
        math.frexp math.ldexp math.remainder math.nextafter math.ulp"""),
    (k.refused_cost, "debug.dump_tensor debug.breakpoint py.call_other py.set_attribute py.make"),
):
    RULES.update(dict.fromkeys(_names.split(), _rule))
for _name in "add sub mul truediv floordiv mod pow lshift rshift and or xor".split():  # noqa: SIM905 - as above
    RULES[f"op.{_name}"] = k.operator_cost(_name)

UFUNC_METHODS: dict[str, Rule] = {
    "reduce": k.unary_array_cost, "accumulate": k.unary_array_cost, "outer": e.outer, "at": k.unary_array_cost,
    "reduceat": k.reduceat_cost,
}


# Grids and concatenation by indexing: their containers hold slices, None and text
_TAKES_SLICES = frozenset(("np.mgrid", "np.ogrid", "np.r_", "np.c_"))


def kernel_cost(name: str, args: Sequence[Any]) -> Cost:
    """The estimate for a call of the kernel. Raises LimitError for what no limited run may do."""
    cost = _own_cost(name, args)
    if name.startswith(("np.", "arr.", "ops.")):
        lists = [value for value in args if isinstance(value, (range, *e.CONTAINERS))]
        if lists:  # they become arrays first
            n = e.extent_of(lists, numeric=name not in _TAKES_SLICES).elements
            return Cost(max(cost.size_bytes, n * 16), cost.work + n * 50)
    return cost


def _own_cost(name: str, args: Sequence[Any]) -> Cost:
    rule = RULES.get(name)
    if rule is None:
        factor = PLAIN.get(name)
        if factor is not None:
            return e.elementwise(args, factor)
        rule = UFUNC_METHODS.get(name.rpartition(".")[2], k.unary_array_cost)
    return rule(args)
