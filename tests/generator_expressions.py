"""Expressions of random programs: NumPy as its users write it, drawn against the values at hand.

A production takes nodes (text and the value it has where the program is generated), and its value comes from evaluating
the text itself: nothing is known twice. What would raise or grow too large is dropped, except where a program is meant
to fail. Grades say how exactly a result may be compared: EXACT (+ - * / sqrt, comparisons, movement: bit for bit),
EQUAL (equal values, signs of zero aside), NEAR (functions and float reductions: to a tolerance).
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from types import CodeType
from typing import Any, TypeGuard

import numpy as np

EXACT, EQUAL, NEAR = range(3)
MAX_SIZE = 2000
MAX_RANK = 4
_SHOWS_SIGNS = re.compile(r"/|%|\*\*|divide|reciprocal|copysign|signbit|arctan2|power")  # a zero's sign decides a value
_compiled: dict[str, CodeType] = {}


# what a mask takes: sizes that depend on values
TAKEN = ("{1}[{0}]", "{1}[{0}]", "{1}[~{0}]", "np.nonzero({0})[0]", "np.flatnonzero({0})", "{1}[np.nonzero({0})]",
         "np.extract({0}, {1})", "np.where({0})[-1]", "{1}[{0}].sum()", "({1}[{0}] * 2)[::-1]")


class Dropped(Exception):
    """A draw that does not fit the values at hand."""


@dataclass(frozen=True)
class Node:
    """An expression's text, its value here, and the least exact grade in it."""

    text: str
    value: Any
    grade: int = EXACT


def is_array(value: object) -> TypeGuard[np.ndarray]:
    return isinstance(value, np.ndarray)


def is_number(value: object) -> bool:
    return isinstance(value, (int, float, bool, np.number, np.bool_)) or (is_array(value) and value.ndim == 0)


def is_float(value: Any) -> bool:
    return isinstance(value, float) or getattr(value, "dtype", np.dtype(int)).kind == "f"


def is_int(value: Any) -> bool:
    if isinstance(value, (bool, np.bool_)):
        return False
    return isinstance(value, int) or getattr(value, "dtype", np.dtype(bool)).kind in "iu"


def is_bool(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_)) or getattr(value, "dtype", np.dtype(int)).kind == "b"


def is_atom(text: str) -> bool:
    """True when anything may stand beside the text: a name or group, with calls, indexes and attributes behind it."""
    name = re.match(r"[A-Za-z_]\w*", text)
    at = name.end() if name else 0
    if at == 0 and text[:1] != "(":
        return False
    while at < len(text):
        if text[at] in "([":
            level = 0
            for end in range(at, len(text)):
                level += (text[end] in "([{") - (text[end] in ")]}")
                if level == 0:
                    break
            at = end + 1
        elif attribute := re.match(r"\.[A-Za-z_]\w*", text[at:]):
            at += attribute.end()
        else:
            return False
    return True


def fits(value: object) -> bool:
    """True for values that a program may go on with."""
    if is_array(value):
        return value.size <= MAX_SIZE and value.ndim <= MAX_RANK and value.dtype.kind in "biuf"
    if isinstance(value, np.generic):
        return value.dtype.kind in "biuf"
    return isinstance(value, (int, float, bool)) and (not isinstance(value, int) or abs(value) < 2**31)


Table = tuple[tuple[float, str, int], ...]


def table(exact: str = "", equal: str = "", near: str = "") -> Table:
    """Rows (weight, text, grade) of the productions given by grade."""
    rows = []
    for grade, text in ((EXACT, exact), (EQUAL, equal), (NEAR, near)):
        for row in filter(None, (part.strip() for part in text.split(";"))):
            weight, _, template = row.partition(" ")
            rows.append((float(weight), template, grade))
    return tuple(rows)


# Productions: weight and text, separated by semicolons, by grade (over integers all are exact). {0}, {1}: operands.
UNARY = table(
    exact="""
        6 (-{0}); 3 np.abs({0}); 2 abs({0}); 4 np.sqrt({0}); 2 np.square({0}); 2 np.floor({0}); 1 np.ceil({0});
        1 np.trunc({0}); 1 np.rint({0}); 1 np.negative({0}); 1 np.reciprocal({0}); 1 np.isnan({0});
        1 np.isfinite({0}); 1 np.logical_not({0}); 3 ({0} ** 2); 2 ({0}).astype(np.float32);
        2 ({0}).astype(np.float64); 1 ({0}).copy(); 1 np.nan_to_num({0});
        1 np.signbit(np.nan_to_num({0})); 1 (+{0})""",
    equal="""
        1 np.sign({0}); 2 np.maximum({0}, 0); 1 np.maximum({0}, 0.0)""",
    near="""
        6 np.exp({0}); 3 np.log({0}); 2 np.sin({0}); 2 np.cos({0}); 5 np.tanh({0}); 1 np.log1p({0});
        1 np.expm1({0}); 1 np.arctan({0}); 1 np.log2({0}); 1 np.sinh({0}); 1 np.exp2({0}); 1 np.cbrt({0});
        1 np.round({0}, 1); 1 ({0} ** 3); 1 ({0} ** 0.5); 1 (1.0 / (1.0 + np.exp(-{0})))""",
)

UNARY_INT = table(
    exact="""
        3 (~{0}); 2 ({0} << 1); 2 ({0} >> 1); 2 ({0} % 3); 2 ({0} // 2); 2 ({0} & 3); 1 ({0}).astype(np.float32);
        1 ({0}).astype(np.int32); 1 ({0}).astype(bool); 1 ({0}).astype(np.int64)""",
)

BINARY = table(
    exact="""
        9 ({0} + {1}); 8 ({0} - {1}); 9 ({0} * {1}); 6 ({0} / {1}); 1 ({0} // {1}); 1 ({0} % {1});
        1 np.add({0}, {1}); 1 np.multiply({0}, {1}); 1 np.subtract({0}, {1}); 1 np.divide({0}, {1});
        1 np.copysign({0}, np.nan_to_num({1})); 1 np.where({0} > {1}, {0}, {1}); 1 ({0} - {1}) ** 2;
        1 np.floor_divide({0}, {1})""",
    equal="""
        4 np.maximum({0}, {1}); 3 np.minimum({0}, {1}); 1 np.fmax({0}, {1}); 1 np.fmod({0}, {1})""",
    near="""
        1 ({0} ** {1}); 1 np.hypot({0}, {1}); 1 np.arctan2({0}, {1}); 1 np.power({0}, 2); 1 np.logaddexp({0}, {1})""",
)

BINARY_INT = table(
    exact="""
        3 ({0} & {1}); 3 ({0} | {1}); 2 ({0} ^ {1}); 3 ({0} // {1}); 3 ({0} % {1}); 1 np.bitwise_and({0}, {1});
        1 ({0} * {1} + {0})""",
)

COMPARE = table(
    exact="""
        4 ({0} > {1}); 4 ({0} < {1}); 2 ({0} >= {1}); 2 ({0} <= {1}); 2 ({0} == {1}); 2 ({0} != {1});
        1 np.greater({0}, {1}); 1 np.less_equal({0}, {1})""",
    near="""
        1 np.isclose({0}, {1})""",
)

LOGIC = table(
    exact="""
        3 ({0} & {1}); 3 ({0} | {1}); 1 ({0} ^ {1}); 1 (~{0}); 1 np.logical_and({0}, {1});
        1 np.logical_or({0}, {1})""",
)

# {a}: an axis of the operand; {t}: two axes; {k}: '' or ', keepdims=True'.
REDUCE = table(
    exact="""
        2 np.argmax({0}, axis={a}); 1 {0}.argmin(axis={a}); 1 {0}.argmax(); 1 np.any({0} > 0, axis={a});
        1 np.all({0} > -2, axis={a}{k}); 1 {0}.any(); 1 np.count_nonzero({0}); 1 np.logical_or.reduce({0}, axis={a});
        1 np.nonzero({0})[0]; 1 np.where({0} > 0)[-1]; 1 np.flatnonzero({0}); 1 np.argwhere({0});
        1 np.unique({0}, return_counts=True)[1]; 1 np.nanargmax({0}, axis={a}); 1 np.histogram({0}, bins=4, range=(-2.0, 2.0))[0];
        1 np.bincount(np.abs({0})); 1 np.digitize({0}, [-1, 0, 2]); 1 np.isin({0}, [0, 1]);
        1 np.unique({0}, return_inverse=True)[1]""",
    equal="""
        3 {0}.max(axis={a}{k}); 1 {0}.min(); 2 np.max({0}, axis={a}{k}); 1 np.min({0}, axis={a}{k});
        1 np.amax({0}); 1 np.ptp({0}, axis={a}); 1 np.maximum.reduce({0}, axis={a}); 1 np.minimum.accumulate({0}, axis={a});
        1 np.max({0}, axis={a}, initial=0); 1 np.min({0}, initial=1, where={0} > 0); 1 np.fmax.reduce({0}, axis={a});
        1 np.nanmax({0}, axis={a}{k}); 1 np.unique({0}); 1 np.union1d({0}, [1, 2])""",
    near="""
        6 {0}.sum(axis={a}{k}); 4 np.sum({0}, axis={a}{k}); 2 {0}.sum(); 2 np.sum({0}); 5 {0}.mean(axis={a}{k});
        2 np.mean({0}); 1 np.prod({0}, axis={a}); 2 {0}.var(axis={a}{k}); 1 np.std({0}, axis={a}{k});
        1 np.var({0}, ddof=1); 2 np.cumsum({0}, axis={a}); 1 {0}.cumsum(); 1 np.linalg.norm({0});
        1 np.linalg.norm({0}, axis={a}{k}); 1 np.sum({0}, axis={t}{k}); 1 {0}.mean(axis={t});
        1 np.sum({0} * {0}, axis={a}); 1 np.median({0}); 1 np.cumprod({0}, axis={a}); 1 np.add.reduce({0}, axis={a}{k});
        1 np.add.accumulate({0}, axis={a}); 1 np.sum({0}, axis={a}, where={0} > 0); 1 np.mean({0}, axis={a}, where={0} > 0);
        1 np.sum({0}, axis={a}, initial=1); 1 np.multiply.reduce({0}, axis={a}); 1 np.nansum({0}, axis={a});
        1 np.average({0}, axis={a}); 1 {0}[{0} > 0].sum(); 1 np.trapezoid({0}, axis={a});
        1 np.median({0}, axis={a}{k}); 1 np.percentile({0}, [20, 70], axis={a}{k}); 1 np.nanmean({0}, axis={a}{k});
        1 np.quantile({0}, 0.4); 1 np.cov({0}); 1 np.linalg.norm({0}, ord=1, axis={a}{k}); 1 np.linalg.norm({0}, np.inf);
        1 np.linalg.svd({0}, compute_uv=False); 1 np.linalg.det({0} @ {0}.T); 1 np.nanstd({0}, axis={a});
        1 np.histogram({0}, bins=3)[1]""",
)

MOVE = table(
    exact="""
        5 {0}.T; 2 {0}.reshape(-1); 2 {0}.ravel(); 1 {0}.flatten(); 3 {0}[::-1]; 2 {0}[1:]; 2 {0}[:-1]; 2 {0}[::2];
        2 {0}[..., ::-1]; 2 {0}[:, None]; 2 {0}[None, :]; 2 {0}[..., None]; 2 {0}[0]; 2 {0}[-1]; 2 {0}[:, 0];
        2 {0}[..., -1]; 1 {0}[:, ::-1]; 1 {0}[:: -2]; 2 {0}[:{0}.shape[0] // 2]; 1 {0}[..., :{0}.shape[-1] // 2];
        1 {0}[1:-1]; 1 {0}[-2:]; 1 {0}[:3]; 1 {0}[4:1:-1]; 1 np.transpose({0}); 1 np.swapaxes({0}, 0, -1);
        1 np.moveaxis({0}, 0, -1); 2 np.expand_dims({0}, {a}); 1 np.squeeze({0}); 1 np.flip({0}, {a});
        1 np.flip({0}); 1 np.roll({0}, 1, axis={a}); 1 np.roll({0}, -2); 1 np.repeat({0}, 2, axis={a});
        1 np.tile({0}, 2); 1 np.pad({0}, 1); 1 np.concatenate([{0}, {0}], axis={a}); 2 np.stack([{0}, {0} + 1]);
        1 np.diff({0}, axis={a}); 1 np.argsort({0}, axis={a}, kind='stable'); 1 np.tril({0}); 1 np.triu({0});
        1 np.diag({0}); 2 np.zeros_like({0}); 1 np.ones_like({0}); 1 np.full_like({0}, 2);
        1 np.broadcast_to({0}, (2,) + {0}.shape); 1 np.reshape({0}, (-1, 1)); 1 {0}.reshape(1, *{0}.shape);
        1 {0}.reshape({0}.shape[0], -1); 1 np.ascontiguousarray({0}); 1 {0}.transpose(1, 0); 1 np.atleast_2d({0});
        1 np.split({0}, 2)[0]; 1 np.zeros({0}.shape); 1 np.take({0}, 0, axis={a}); 1 {0}[{0} > 0];
        1 np.where({0} > 0, {0}, 0); 1 np.where({0} > 0, {0}, 0.1 * {0}); 1 {0}[np.arange({0}.shape[0]) % 2 == 0];
        1 {0}[np.array([0, -1])]; 1 {0}[[0, 0]]; 1 {0}[..., np.newaxis, :]; 1 np.arange({0}.shape[0]);
        1 np.eye({0}.shape[0]); 1 {0}[{0}.shape[0] // 2:]; 1 {0}[:, {0}.shape[-1] // 2:]; 1 np.rot90({0}); 1 np.fliplr({0});
        1 {0}.swapaxes(0, -1); 1 {0}.astype({0}.dtype, copy=False); 1 np.array({0}); 1 np.asarray({0}, dtype=np.float64);
        1 {0}.real; 1 np.column_stack(({0}, {0})); 1 np.array_split({0}, 2)[1]; 1 {0}.repeat(2); 1 {0}.squeeze();
        1 np.broadcast_arrays({0}, 1)[0]; 1 np.indices({0}.shape)[0]; 1 np.atleast_1d({0});
        1 np.select([{0} > 1, {0} < 0], [{0}, {0}], 1); 1 np.delete({0}, 0, axis={a}); 1 np.insert({0}, 1, 2, axis={a});
        1 np.fft.fftshift({0}, axes={a}); 1 np.triu_indices({0}.shape[0])[1]; 1 np.resize({0}, (2, 3));
        1 np.ones(({0}.shape[0], 2), dtype={0}.dtype)""",
    equal="""
        1 np.sort({0}, axis={a}); 1 np.clip({0}, -1, 2); 2 np.clip({0}, 0.0, 1.5); 1 {0}.clip(-0.5, 0.5)""",
    near="""
        1 np.linspace(0.0, 1.0, {0}.shape[0]); 1 np.fft.fft({0}, axis={a}).real; 1 np.abs(np.fft.rfft({0}));
        1 np.fft.irfft({0}, n=4, axis={a}); 1 np.gradient({0}, axis={a}); 1 np.fft.fft2({0}).imag;
        1 np.linalg.inv({0} @ {0}.T + 3 * np.eye({0}.shape[0])); 1 np.linalg.qr({0})[1] ** 2;
        1 np.linalg.solve({0} @ {0}.T + 3 * np.eye({0}.shape[0]), {0}); 1 np.linalg.eigvalsh({0} @ {0}.T);
        1 np.interp({0}, [-1.0, 0.5, 2.0], [0.0, 1.0, -1.0])""",
)

PRODUCT = table(
    exact="""
        1 np.outer({0}, {1}); 1 np.add.outer({0}, {1}); 1 np.subtract.outer({0}, {1}); 1 np.maximum.outer({0}, {1});
        1 np.searchsorted(np.sort({0}, axis=None), {1}); 1 np.isin({0}, {1}); 1 np.setdiff1d({0}, {1}); 1 np.lexsort(({0}, {1}));
        1 np.divmod({0}, {1})[0]""",
    near="""
        6 ({0} @ {1}); 3 ({0} @ {1}.T); 2 ({0}.T @ {1}); 2 np.dot({0}, {1}); 2 np.matmul({0}, {1});
        1 np.einsum('ij,jk->ik', {0}, {1}); 1 np.einsum('ij,ij->i', {0}, {1}); 1 {0}.dot({1});
        1 np.einsum('i,i->', {0}, {1}); 1 ({0} @ {1} + 1.0); 1 np.maximum({0} @ {1}, 0); 1 np.inner({0}, {1});
        1 np.kron({0}, {1}); 1 np.convolve({0}, {1}); 1 np.correlate({0}, {1}, 'same'); 1 np.cross({0}, {1});
        1 np.polyval({0}, {1})""",
)

JOIN = table(
    exact="""
        3 np.concatenate([{0}, {1}]); 2 np.concatenate(({0}, {1}), axis=-1); 2 np.stack([{0}, {1}]);
        1 np.stack(({0}, {1}), axis=-1); 1 np.vstack([{0}, {1}]); 1 np.hstack([{0}, {1}])""",
)

# {1} holds integers.
GATHER = table(
    exact="""
        4 {0}[{1}]; 2 np.take({0}, {1}, axis=0); 1 {0}[{1} % {0}.shape[0]]; 1 {0}[..., {1}];
        1 np.take({0}, {1}, axis=-1); 1 {0}[{1}, {1}]; 1 np.take_along_axis({0}, {1}, axis=-1)""",
)

# Numbers of an array; the first five are integers from its shape.
SCALAR = table(
    exact="""
        5 {0}.shape[0]; 3 {0}.shape[-1]; 2 len({0}); 2 {0}.size; 1 {0}.ndim; 1 {0}[0]; 1 {0}[0, 0]; 1 {0}[-1, -1];
        1 int({0}.argmax()); 1 {0}.item()""",
    equal="""
        1 float({0}.max())""",
    near="""
        2 {0}.sum(); 1 float({0}.sum()); 1 {0}.mean()""",
)
EXTENT = SCALAR[:5]

SCALAR_UNARY = table(
    exact="""
        3 (-{0}); 2 abs({0}); 2 float({0}); 1 int({0}); 1 np.float32({0}); 1 np.sqrt({0}); 2 ({0} ** 2);
        1 max({0}, 1); 1 min({0}, 4); 1 round({0}); 1 (not {0}); 1 bool({0}); 1 np.float64({0})""",
    near="""
        1 np.exp({0})""",
)

SCALAR_BINARY = table(
    exact="""
        4 ({0} + {1}); 4 ({0} - {1}); 4 ({0} * {1}); 3 ({0} / {1}); 2 ({0} // {1}); 2 ({0} % {1}); 1 max({0}, {1});
        1 min({0}, {1}); 1 ({0} if {0} > {1} else {1}); 1 ({0} and {1}); 1 ({0} or {1})""",
    near="""
        1 ({0} ** {1})""",
)

# Of scalars.
TEST = table(
    exact="""
        4 {0} > {1}; 3 {0} < {1}; 2 {0} == {1}; 1 {0} != {1}; 1 {0} >= {1}; 1 0 < {0} <= {1}; 1 not {0} > {1};
        1 {0} > 0 and {1} > 0; 1 {0} > 2 or {1} < 1""",
)
LITERALS = ("0", "1", "2", "3", "-1", "0.5", "2.0", "-1.5", "0.1", "1e-3", "True", "np.pi", "np.float32(0.5)",
            "np.float64(0.1)", "np.int32(3)", "7", "10", "0.0")


_cumulative: dict[int, list[float]] = {}


def _weights(table: Table) -> list[float]:
    """Cumulative weights of a table (tables live as long as the module)."""
    known = _cumulative.get(id(table))
    if known is None or len(known) != len(table):
        known = _cumulative[id(table)] = list(accumulate(row[0] for row in table))
    return known


class Expressions:
    """Draws expressions over the variables of `env`."""

    def __init__(self, rnd: random.Random, env: dict[str, Any], scope: dict[str, Any]) -> None:
        self.rnd, self.env, self.scope = rnd, env, scope
        self.grades: dict[str, int] = {}   # of variables
        self.unread: list[str] = []        # variables that nothing has read yet
        self.leaves: list[Callable[[], Node | None]] = []  # other sources of operands: containers, helpers

    # --- evaluation

    def value_of(self, text: str, operands: Mapping[str, Any] | None = None) -> Any:
        """What the text evaluates to; operands by placeholder name, else the environment."""
        code = _compiled.get(text)
        if code is None:
            if len(_compiled) > 20000:
                _compiled.clear()
            code = _compiled[text] = compile(text, "<expression>", "eval")
        return eval(code, self.scope, self.env if operands is None else operands)

    def apply(self, template: str, grade: int, *nodes: Node) -> Node:
        """The node of a production; Dropped when it raises or its value does not fit."""
        names = [f"_{i}" for i in range(len(nodes))]
        try:
            value = self.value_of(template.format(*names), dict(zip(names, (n.value for n in nodes), strict=True)))
        except Exception as error:
            raise Dropped from error
        if not fits(value):
            raise Dropped
        grade = grade if any(is_float(n.value) for n in nodes) or is_float(value) else EXACT
        if _SHOWS_SIGNS.search(template) and any(n.grade == EQUAL for n in nodes):
            grade = NEAR
        texts = [n.text if is_atom(n.text) else f"({n.text})" for n in nodes]
        return Node(template.format(*texts), value, max([grade, *(n.grade for n in nodes)]))

    def pick(self, table: Table, *nodes: Node) -> Node:
        """A production of the table that works for these operands; a few tries."""
        for _ in range(4):
            _, template, grade = self.rnd.choices(table, cum_weights=_weights(table))[0]
            try:
                return self.apply(self._axes(template, nodes[0].value if nodes else None), grade, *nodes)
            except Dropped:
                continue
        raise Dropped

    def _axes(self, template: str, value: Any) -> str:
        if "{a}" not in template and "{t}" not in template and "{k}" not in template:
            return template
        rank = max(np.ndim(value), 1)
        axis = self.rnd.randrange(-rank, rank)
        axis_text = "None" if "axis={a}" in template and self.rnd.random() < 0.08 else str(axis)
        two = "(0, 1)" if rank < 3 else self.rnd.choice(("(0, 1)", "(0, 2)", "(-1, -2)"))
        keep = self.rnd.choice(("", "", ", keepdims=True"))
        return template.replace("{a}", axis_text).replace("{t}", two).replace("{k}", keep)

    # --- operands

    def variable(self, claim: Callable[[Any], bool]) -> Node:
        """A variable (or another leaf) whose value meets the claim."""
        names = [name for name, value in self.env.items() if claim(value)]
        if self.leaves and self.rnd.random() < (0.25 if names else 0.8):
            node = self.rnd.choice(self.leaves)()
            if node is not None and claim(node.value):
                return node
        if not names:
            raise Dropped
        unread = [name for name in self.unread if name in names]
        if unread and self.rnd.random() < 0.5:  # results are used
            name = self.rnd.choice(unread)
            return Node(name, self.env[name], self.grades.get(name, EXACT))
        name = names[max(self.rnd.randrange(len(names)), self.rnd.randrange(len(names)))]
        return Node(name, self.env[name], self.grades.get(name, EXACT))

    def literal(self) -> Node:
        text = self.rnd.choice(LITERALS)
        return Node(text, self.value_of(text))

    def scalar(self, depth: int = 1) -> Node:
        """A number: literal, variable, shape, or arithmetic on these."""
        roll = self.rnd.random()
        try:
            if roll < 0.3:
                return self.literal()
            if roll < 0.55:
                return self.variable(is_number)
            if roll < 0.75 or depth <= 0:
                return self.pick(SCALAR, self.variable(is_array))
            if roll < 0.87:
                return self.pick(SCALAR_UNARY, self.scalar(depth - 1))
            return self.pick(SCALAR_BINARY, self.scalar(depth - 1), self.scalar(depth - 1))
        except Dropped:
            return self.literal()

    def test(self) -> Node:
        """A Python condition on shapes and values of scalars."""
        for _ in range(5):
            try:
                if self.rnd.random() < 0.5:
                    left = self.pick(EXTENT, self.variable(is_array))
                    right = Node(str(self.rnd.choice((0, 1, 2, 3, 4, 8))), 0)
                    right = Node(right.text, int(right.text))
                else:
                    left, right = self.scalar(0), self.scalar(0)
                node = self.pick(TEST, left, right)
            except Dropped:
                continue
            if isinstance(node.value, (bool, np.bool_)):
                return node
        return Node("True", True)

    def array(self, depth: int = 3) -> Node:
        """An array expression (sometimes what is left of one: a NumPy scalar)."""
        for _ in range(6):
            try:
                return self._array(depth)
            except Dropped:
                depth -= 1
        return self.variable(is_array)

    def _array(self, depth: int) -> Node:
        if depth <= 0:
            return self.variable(is_array)
        kinds = ("unary", "binary", "reduce", "move", "product", "compare", "where", "join", "gather", "leaf", "taken")
        kind = self.rnd.choices(kinds, (5, 9, 4, 5, 3, 1.5, 1.5, 1, 1, 1.5, 1))[0]
        if kind == "leaf":
            return self.variable(is_array)
        first = self.array(depth - 1)
        if kind == "unary":
            table = UNARY_INT if is_int(first.value) and self.rnd.random() < 0.5 else UNARY
            if is_bool(first.value):
                return self.pick(LOGIC, first, first)
            if is_float(first.value) and self.rnd.random() < 0.04 and self._castable(first.value):
                return self.apply(self.rnd.choice(("({0}).astype(np.int64)", "({0}).astype(np.int32)")), EXACT, first)
            return self.pick(table, first)
        if kind in ("reduce", "move"):
            return self.pick(REDUCE if kind == "reduce" else MOVE, first)
        if kind == "binary" and self.rnd.random() < 0.4:
            second = self.scalar()
            first, second = (first, second) if self.rnd.random() < 0.7 else (second, first)
        elif kind == "gather":
            second = self.variable(lambda v: is_int(v) and is_array(v))
        else:
            second = self.array(depth - 2)
        if kind == "binary":
            ints = not is_float(first.value) and not is_float(second.value)
            if is_bool(first.value) and is_bool(second.value):
                return self.pick(LOGIC, first, second)
            return self.pick(BINARY_INT if ints and self.rnd.random() < 0.4 else BINARY, first, second)
        if kind == "product" and 0 in (np.ndim(first.value), np.ndim(second.value)):
            raise Dropped  # NumPy's own answer (nan or 0 for 0 * inf) depends on its BLAS
        if kind == "taken":
            mask = self.pick(COMPARE, first, self.scalar(0))
            if mask.grade > EQUAL or not is_array(mask.value):
                raise Dropped  # how many there are depends on it
            taken = self.rnd.choice(TAKEN)
            return self.apply(taken, NEAR if ".sum()" in taken else EXACT, mask, first if self.rnd.random() < 0.4 else second)
        if kind == "where":
            mask = self.pick(COMPARE, first, second if self.rnd.random() < 0.5 else self.scalar(0))
            return self.apply("np.where({0}, {1}, {2})", EXACT, mask, first, second)
        return self.pick({"product": PRODUCT, "compare": COMPARE, "join": JOIN, "gather": GATHER}[kind], first, second)

    @staticmethod
    def _castable(value: Any) -> bool:
        """True when every element has an integer that C can hold: other casts are undefined."""
        return bool(np.all(np.isfinite(value)) and np.all(np.abs(value) < 1e6))
