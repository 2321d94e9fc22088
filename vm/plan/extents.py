"""Exact integer algebra over extents: interned sums of products, with "equal", "different" or "ask" as answers.

An `Expr` is a constant plus integer multiples of products of atoms. Atoms are symbols (an entry extent, stride or
integer argument), runtime registers (a loop variable, an integer read from an array) and opaque operations (floor
division, modulo, min, max, select) that are no sum of products. Every atom carries interval bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from math import inf
from typing import TypeAlias

Bound: TypeAlias = "int | float"  # exact, or +-inf

_MAX_TERMS = 64  # past this an expression becomes one opaque atom
_MAX_TEXT = 2000  # of an expression: what shares its parts would be written out over and over


class Atom:
    """An indivisible integer: op is 'sym', 'reg' or an opaque operation over Exprs; lo <= value <= hi always holds."""

    __slots__ = ("args", "atoms", "expr", "hi", "is_entry", "lo", "name", "op", "order")

    def __init__(self, op: str, name: object, args: tuple[Expr, ...], lo: Bound, hi: Bound, order: int) -> None:
        self.op, self.name, self.args, self.lo, self.hi, self.order = op, name, args, lo, hi, order
        self.expr: Expr | None = None  # the expression that is this atom alone
        # itself, and every atom inside its arguments
        self.atoms: frozenset[Atom] = frozenset((self,)).union(*[x.atoms for x in args]) if args else frozenset((self,))
        # decided once at call entry: no runtime register anywhere inside
        self.is_entry: bool = op != "reg" and all([x.is_entry for x in args])

    def __repr__(self) -> str:
        if self.op in ("sym", "reg"):
            return str(self.name)
        return f"{self.op}({', '.join(map(repr, self.args))})"


_NO_ATOMS: frozenset[Atom] = frozenset()


class Expr:
    """const + sum(coef * product(atoms)); interned, so equality of normal forms is identity."""

    __slots__ = ("_bounds", "_sort_key", "_text", "atom", "atoms", "const", "is_entry", "terms", "value")

    def __init__(self, const: int, terms: tuple[tuple[tuple[Atom, ...], int], ...]) -> None:
        self.const, self.terms = const, terms
        self.value: int | None = None if terms else const  # the constant value, or None
        self._bounds: tuple[Bound, Bound] | None = None
        self._text = ""
        self._sort_key: tuple[list[tuple[list[int], int]], int] | None = None
        # atom: the one that it is, where it is nothing else; atoms, is_entry: see Atom
        self.atom: Atom | None = None
        self.atoms: frozenset[Atom]
        self.is_entry: bool
        if len(terms) == 1 and len(terms[0][0]) == 1:
            (atom,), coef = terms[0]
            self.atoms, self.is_entry = atom.atoms, atom.is_entry
            if coef == 1 and not const:
                self.atom = atom
        else:
            direct = [atom for product, _ in terms for atom in product]
            self.atoms = _NO_ATOMS.union(*[atom.atoms for atom in direct])
            self.is_entry = all([atom.is_entry for atom in direct])

    def __repr__(self) -> str:
        text = self._text
        if not text:
            text = self._text = self._show()
        return text

    def _show(self) -> str:
        parts = []
        for product, coef in self.terms:
            text = "*".join(map(repr, product))
            parts.append(text if coef == 1 else f"-{text}" if coef == -1 else f"{coef}*{text}")
        if self.const or not parts:
            parts.append(str(self.const))
        text = " + ".join(parts).replace("+ -", "- ")
        return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}..."

    def __add__(self, other: Expr | int) -> Expr:
        return add(self, other if other.__class__ is Expr else const(other))  # type: ignore[arg-type]

    def __radd__(self, other: int) -> Expr:
        return add(const(other), self)

    def __sub__(self, other: Expr | int) -> Expr:
        return sub(self, other if other.__class__ is Expr else const(other))  # type: ignore[arg-type]

    def __rsub__(self, other: int) -> Expr:
        return sub(as_expr(other), self)

    def __mul__(self, other: Expr | int) -> Expr:
        return mul(self, other if other.__class__ is Expr else const(other))  # type: ignore[arg-type]

    def __rmul__(self, other: int) -> Expr:
        return mul(const(other), self)

    def __neg__(self) -> Expr:
        return mul(self, MINUS_ONE)

    def bounds(self) -> tuple[Bound, Bound]:
        """Interval that contains every value."""
        if self._bounds is None:
            lo: Bound = self.const
            hi: Bound = self.const
            for product, coef in self.terms:
                a, b = product[0].lo, product[0].hi
                for atom in product[1:]:
                    if a >= 0 and atom.lo >= 0:
                        a, b = a * atom.lo, _times(b, atom.hi)
                    else:
                        corners = [_times(p, q) for p in (a, b) for q in (atom.lo, atom.hi)]
                        a, b = min(corners), max(corners)
                if len(product) == 2:
                    a, b = _whole_multiples(*product, a, b)
                if coef < 0:
                    a, b = b, a
                lo, hi = lo + coef * a, hi + coef * b  # no coefficient is 0
            self._bounds = (lo, hi)
        return self._bounds

    def sort_key(self) -> tuple[list[tuple[list[int], int]], int]:
        """A total order of expressions: constants first."""
        found = self._sort_key
        if found is None:
            found = self._sort_key = [([atom.order for atom in product], coef) for product, coef in self.terms], self.const
        return found

    def evaluate(self, env: Mapping[object, int] | Callable[[Atom], int]) -> int:
        """Value under env: a mapping from atom names, or a function from 'sym'/'reg' atoms."""
        look: Callable[[Atom], int] = env if callable(env) else (lambda atom: env[atom.name])
        total = self.const
        for product, coef in self.terms:
            for atom in product:
                args = atom.args
                if not args:
                    coef *= look(atom)
                elif len(args) == 2:
                    coef *= OPAQUE[atom.op](args[0].evaluate(look), args[1].evaluate(look))
                else:
                    coef *= OPAQUE[atom.op](*[x.evaluate(look) for x in args])
            total += coef
        return total

    def substitute(self, mapping: Mapping[Atom, Expr]) -> Expr:
        """The expression with atoms replaced, normalised again."""
        if self.atoms.isdisjoint(mapping):
            return self
        total = const(self.const)
        for product, coef in self.terms:
            value = const(coef)
            for atom in product:
                new = mapping.get(atom)
                if new is None:
                    if atom.args:
                        new = _make(atom.op, *(x.substitute(mapping) for x in atom.args))
                    else:
                        new = atom_expr(atom)
                value = value * new
            total = total + value
        return total


class Evaluator:
    """Values of expressions under fixed values of symbols; each part of them is computed once."""

    __slots__ = ("_known", "_look")

    def __init__(self, look: Callable[[Atom], int]) -> None:
        """look: the value of a 'sym' or 'reg' atom."""
        self._look = look
        self._known: dict[Expr | Atom, int] = {}

    def __call__(self, expr: Expr) -> int:
        """The value. Raises whatever `look` raises."""
        known = self._known
        total = known.get(expr)
        if total is None:
            total = expr.const
            for product, coef in expr.terms:
                for atom in product:
                    value = known.get(atom)
                    if value is None:
                        args = atom.args
                        if not args:
                            value = self._look(atom)
                        elif len(args) == 2:
                            value = OPAQUE[atom.op](self(args[0]), self(args[1]))
                        else:
                            value = OPAQUE[atom.op](*map(self, args))
                        known[atom] = value
                    coef *= value
                total += coef
            known[expr] = total
        return total


def _times(a: Bound, b: Bound) -> Bound:
    return 0 if a == 0 or b == 0 else a * b


def _whole_multiples(x: Atom, y: Atom, lo: Bound, hi: Bound) -> tuple[Bound, Bound]:
    """Bounds of x * y within [lo, hi], closer where one is e // d and the other d: no further from 0 than e, or from e than d."""
    if x.op != "floordiv" and y.op != "floordiv":
        return lo, hi
    quotient, divisor = (x, y) if x.op == "floordiv" and x.args[1].atom is y else (y, x)
    if quotient.op != "floordiv" or quotient.args[1].atom is not divisor:
        return lo, hi
    low, high = quotient.args[0].bounds()
    if low >= 0 and divisor.lo >= 0:
        return max(lo, 0), min(hi, high)
    most = max(abs(low), abs(high)) + max(abs(divisor.lo), abs(divisor.hi))
    return max(lo, -most), min(hi, most)


OPAQUE: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b if b else 0,  # guarded by whoever builds it: b != 0 is a fact
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
    "select": lambda c, a, b: a if c else b,
    "eq": lambda a, b: int(a == b),
    "lt": lambda a, b: int(a < b),
    "le": lambda a, b: int(a <= b),
}

_exprs: dict[tuple[int, tuple[tuple[tuple[Atom, ...], int], ...]], Expr] = {}
_atoms: dict[tuple, Atom] = {}
_constants: dict[int, Expr] = {}
_sums: dict[tuple[Expr, Expr], Expr] = {}  # memo of `add`, `sub`, `mul`: planning builds the same few again and again
_differences: dict[tuple[Expr, Expr], Expr] = {}
_products: dict[tuple[Expr, Expr], Expr] = {}
_order = count()  # a total order of atoms, stable within one planning


def _order_of(term: tuple[tuple[Atom, ...], int]) -> list[int]:
    return [atom.order for atom in term[0]]


def _intern(constant: int, terms: dict[tuple[Atom, ...], int]) -> Expr:
    items = [*terms.items()] if all(terms.values()) else [term for term in terms.items() if term[1]]
    if len(items) > 1:
        items.sort(key=_order_of)
    return _interned(constant, tuple(items))


def _interned(constant: int, terms: tuple[tuple[tuple[Atom, ...], int], ...]) -> Expr:
    """The one expression of these terms, which are in order; no coefficient is 0."""
    key = (constant, terms)
    found = _exprs.get(key)
    if found is None:
        if not constant and len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
            found = terms[0][0][0].expr  # an atom that outlives a trimming keeps its expression
        found = _exprs[key] = found or Expr(constant, terms)
    return found


def trim_interned(limit: int = 20_000) -> None:
    """Forget interned expressions past `limit` (some 20 MB of them): plans made before stay valid. Only between plannings,
    never during one."""
    if len(_exprs) > limit or len(_atoms) > limit:
        for table in (_exprs, _atoms, _sums, _differences, _products, _constants):
            table.clear()
        for expr in (ZERO, ONE, MINUS_ONE):
            _constants[expr.const] = _exprs[expr.const, ()] = expr


def const(value: int) -> Expr:
    """The constant `value`."""
    found = _constants.get(value)
    if found is None:
        found = _constants[value] = _interned(int(value), ())
    return found


ZERO, ONE, MINUS_ONE = const(0), const(1), const(-1)  # one object each for as long as the process lives


def as_expr(value: Expr | int) -> Expr:
    """`value` as an Expr."""
    return value if value.__class__ is Expr else const(value)  # type: ignore[arg-type]


def _atom(op: str, name: object, args: tuple[Expr, ...], lo: Bound, hi: Bound) -> Atom:
    key = (op, name, args)
    found = _atoms.get(key)
    if found is None:
        found = _atoms[key] = Atom(op, name, args, lo, hi, next(_order))
    return found


def atom_expr(atom: Atom) -> Expr:
    """The expression that is one atom."""
    found = atom.expr
    if found is None:
        found = atom.expr = _interned(0, (((atom,), 1),))
    return found


def symbol(name: str, lo: Bound = 0, hi: Bound = 2**47) -> Expr:
    """An entry symbol, such as `x.shape[0]`; extents are bounded by the address space."""
    key = ("sym", name, lo, hi)  # the same name with other bounds, in another plan, is another symbol
    found = _atoms.get(key)
    if found is None:
        found = _atoms[key] = Atom("sym", name, (), lo, hi, next(_order))
    return atom_expr(found)


def register(name: object, lo: Bound = -inf, hi: Bound = inf) -> Expr:
    """A runtime integer register: a loop variable or a value read from an array."""
    return atom_expr(Atom("reg", name, (), lo, hi, next(_order)))


def add(a: Expr, b: Expr) -> Expr:
    """a + b."""
    if not a.terms and not a.const:
        return b
    if not b.terms and not b.const:
        return a
    found = _sums.get((a, b))
    if found is None:
        terms = dict(a.terms)
        for product, coef in b.terms:
            terms[product] = terms.get(product, 0) + coef
        found = _sums[a, b] = _intern(a.const + b.const, terms)
    return found


def sub(a: Expr, b: Expr) -> Expr:
    """a - b."""
    if not b.terms and not b.const:
        return a
    if a is b:
        return ZERO
    found = _differences.get((a, b))
    if found is None:
        terms = dict(a.terms)
        for product, coef in b.terms:
            terms[product] = terms.get(product, 0) - coef
        found = _differences[a, b] = _intern(a.const - b.const, terms)
    return found


def mul(a: Expr, b: Expr) -> Expr:
    """a * b, multiplied out."""
    if a.const == 1 and not a.terms:
        return b
    if b.const == 1 and not b.terms:
        return a
    found = _products.get((a, b))
    if found is None:
        found = _products[a, b] = _multiply(a, b)
    return found


def _multiply(a: Expr, b: Expr) -> Expr:
    if not a.terms or not b.terms:
        factor, other = (a.const, b) if not a.terms else (b.const, a)
        return _interned(factor * other.const, tuple([(p, c * factor) for p, c in other.terms])) if factor else ZERO
    if len(a.terms) * len(b.terms) > _MAX_TERMS:
        raise OverflowError("extent expression grows without bound")
    terms: dict[tuple[Atom, ...], int] = {}
    for p, c in (*a.terms, ((), a.const)):
        for q, d in (*b.terms, ((), b.const)):
            if c and d:
                product = tuple(sorted(p + q, key=_atom_order)) if p and q else p or q
                terms[product] = terms.get(product, 0) + c * d
    return _intern(terms.pop((), 0), terms)


def _atom_order(atom: Atom) -> int:
    return atom.order


def _opaque(op: str, args: tuple[Expr, ...], lo: Bound, hi: Bound) -> Expr:
    for x in args:
        if x.terms:
            return atom_expr(_atom(op, None, args, lo, hi))
    return const(OPAQUE[op](*[x.const for x in args]))


def floordiv(a: Expr | int, b: Expr | int) -> Expr:
    """a // b with Python's rounding; exact division stays a sum of products. b must not be 0 (a fact of the caller)."""
    a, b = as_expr(a), as_expr(b)
    d = b.value
    if d == 1:
        return a
    if d and a.const % d == 0 and all(c % d == 0 for _, c in a.terms):
        return _interned(a.const // d, tuple([(p, c // d) for p, c in a.terms]))
    if a is b and b.bounds()[0] > 0:
        return const(1)
    if not b.const and len(b.terms) == 1 and b.bounds()[0] > 0:  # (k * n) // n
        (product, coef), = b.terms
        out: dict[tuple[Atom, ...], int] = {}
        for p, c in a.terms:
            rest = list(p)
            if c % coef or not _take(rest, product):
                break
            out[tuple(rest)] = out.get(tuple(rest), 0) + c // coef
        else:
            if not a.const:
                return _intern(out.pop((), 0), out)
    (alo, ahi), blo = a.bounds(), b.bounds()[0]
    lo: Bound = -inf
    hi: Bound = inf
    if blo > 0:
        lo = int(alo) // d if d and alo != -inf else 0 if alo >= 0 else alo
        if ahi != inf:
            hi = int(ahi) // d if d else int(ahi) // int(blo) if ahi >= 0 else -1
    return _opaque("floordiv", (a, b), lo, hi)


def _take(atoms: list[Atom], product: tuple[Atom, ...]) -> bool:
    """Remove a product's atoms from a list; False when one is missing."""
    for atom in product:
        if atom not in atoms:
            return False
        atoms.remove(atom)
    return True


def mod(a: Expr | int, b: Expr | int) -> Expr:
    """a % b with Python's sign. b must not be 0 (a fact of the caller)."""
    a, b = as_expr(a), as_expr(b)
    d = b.value
    if d and a.const % d == 0 and all(c % d == 0 for _, c in a.terms):
        return const(0)
    blo, bhi = b.bounds()
    lo: Bound = 0 if blo > 0 else -inf
    hi: Bound = bhi - 1 if blo > 0 else inf
    if d and a.bounds()[0] >= 0 and a.bounds()[1] < d:
        return a
    return _opaque("mod", (a, b), lo, hi)


def _difference(a: Expr, b: Expr) -> tuple[Bound, Bound]:
    """Bounds of a - b, which is made only where it may be simpler than the two."""
    if a.atoms.isdisjoint(b.atoms):
        (alo, ahi), (blo, bhi) = a._bounds or a.bounds(), b._bounds or b.bounds()
        return alo - bhi, ahi - blo
    return sub(a, b).bounds()


def emin(a: Expr | int, b: Expr | int) -> Expr:
    """min(a, b)."""
    a, b = as_expr(a), as_expr(b)
    lo, hi = _difference(a, b)
    if hi <= 0:
        return a
    if lo >= 0:
        return b
    (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
    return _opaque("min", (a, b), min(alo, blo), min(ahi, bhi))


def emax(a: Expr | int, b: Expr | int) -> Expr:
    """max(a, b)."""
    a, b = as_expr(a), as_expr(b)
    lo, hi = _difference(a, b)
    if hi <= 0:
        return b
    if lo >= 0:
        return a
    (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
    return _opaque("max", (a, b), max(alo, blo), max(ahi, bhi))


def compare(op: str, a: Expr | int, b: Expr | int) -> Expr:
    """0 or 1: a OP b for op in 'eq', 'lt', 'le'."""
    args = (as_expr(a), as_expr(b))
    known = _atoms.get((op, None, args))
    return _opaque(op, args, 0, 1) if known is None else known.expr or atom_expr(known)


def select(cond: Expr, a: Expr | int, b: Expr | int) -> Expr:
    """a if cond else b."""
    a, b = as_expr(a), as_expr(b)
    if a is b:
        return a
    if cond.value is not None:
        return a if cond.value else b
    (alo, ahi), (blo, bhi) = a.bounds(), b.bounds()
    return _opaque("select", (cond, a, b), min(alo, blo), max(ahi, bhi))


def _make(op: str, *args: Expr) -> Expr:
    if op in ("eq", "lt", "le"):
        return compare(op, *args)
    build: dict[str, Callable[..., Expr]] = {"floordiv": floordiv, "mod": mod, "min": emin, "max": emax, "select": select}
    return build[op](*args)


def is_equal(a: Expr | int, b: Expr | int) -> bool | None:
    """True or False when proved, None when it must be asked."""
    a, b = as_expr(a), as_expr(b)
    if a is b:
        return True
    return prove_equal(a, b)


def prove_equal(a: Expr, b: Expr) -> bool | None:
    """`is_equal` of two expressions that are not the same object."""
    lo, hi = _difference(a, b)
    if lo > 0 or hi < 0:
        return False
    return True if lo == hi == 0 else None


def is_less_equal(a: Expr | int, b: Expr | int) -> bool | None:
    """Whether a <= b: True or False when proved, None when it must be asked."""
    lo, hi = _difference(as_expr(a), as_expr(b))
    return True if hi <= 0 else False if lo > 0 else None
