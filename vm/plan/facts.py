"""Questions about extents: answered by algebra, by what is known already, or from the extents at hand (then a fact)."""

from __future__ import annotations

from math import inf
from typing import Any

from .extents import Atom, Bound, Evaluator, Expr, as_expr, atom_expr, compare, const, emax, floordiv, prove_equal, register, sub
from .planner_errors import PlanRefused
from .steps import Fact

_INT_LIMIT = 2**62  # integer registers must stay clear of 64-bit overflow


class Facts:
    """What a plan relies on. sample: values of entry symbols, for questions that algebra cannot answer."""

    def __init__(self, sample: dict[Any, int]) -> None:
        self.sample = sample
        self.value_at_hand = Evaluator(lambda atom: sample[atom.name])  # raises KeyError for symbols without a value
        self.asked: list[Fact] = []
        self._known: dict[Expr, bool] = {}
        self._normal: dict[Expr, Expr] = {}  # memo of `norm`, of what it changes
        self._lowest: dict[Expr, Bound] = {}  # of `lower_bound`
        self._compared: dict[tuple[Expr, Expr], bool] = {}  # of `compare`, of normal expressions: what is proved stays so
        self._open: dict[tuple[Expr, Expr], Expr] = {}  # the others, and the question that decides each
        self._normal_tuples: set[tuple[Expr, ...]] = set()  # those that `is_normal` found to be so
        self.equal: dict[Atom, Expr] = {}  # symbols that facts proved equal to something simpler
        self._replaced: set[Atom] = set()  # the same symbols
        self.low: dict[Atom, int] = {}  # lower bounds of symbols that facts proved
        self.bounds_of: dict[Atom, tuple[Expr | None, Expr | None]] = {}  # loop variables: inclusive symbolic bounds

    def new_register(self, name: str, lo: Expr | int | None = None, hi: Expr | int | None = None) -> Expr:
        """A runtime integer with inclusive bounds (None: unknown)."""
        low, high = (None if b is None else as_expr(b) for b in (lo, hi))
        expr = register(name, -inf if low is None else low.bounds()[0], inf if high is None else high.bounds()[1])
        self.bounds_of[expr.terms[0][0][0]] = (low, high)
        return expr

    def norm(self, expr: Expr) -> Expr:
        """The expression under known equalities."""
        if expr.atoms.isdisjoint(self._replaced):
            return expr
        found = self._normal.get(expr)
        if found is None:
            found = self._normal[expr] = expr.substitute(self.equal)
        return found

    def is_normal(self, exprs: tuple[Expr, ...]) -> bool:
        """Whether `norm` would change none of them."""
        if exprs not in self._normal_tuples:
            replaced = self._replaced
            for expr in exprs:
                if not expr.atoms.isdisjoint(replaced):
                    return False
            self._normal_tuples.add(exprs)
        return True

    def ask(self, question: Expr) -> bool:
        """Whether `question` is non-zero; decided from the sample and recorded when algebra does not know."""
        return self._ask_normal(self.norm(question))

    def _ask_normal(self, question: Expr) -> bool:
        if question.value is not None:
            return bool(question.value)
        lo, hi = question.bounds()
        if lo > 0 or hi < 0:
            return True
        known = self._known.get(question)
        if known is None:
            if not question.is_entry:
                raise PlanRefused(f"{question!r} is known only while the program runs", kind="runtime-extent")
            try:
                known = bool(self.value_at_hand(question))
            except KeyError as error:
                raise PlanRefused(f"no extent at hand for {error}", kind="signature") from None
            self._known[question] = known
            self.asked.append(Fact(question, known, f"{question!r}" if known else f"not {question!r}"))
            if known:
                self._learn(question)
        return known

    def _learn(self, question: Expr) -> None:
        known = question.atom
        if known is None:
            return
        if known.op in ("le", "lt"):
            low, high = known.args
            self._learn_bound(low, high, strict=known.op == "lt")
        elif known.op == "eq":
            a, b = known.args
            for atom, value in ((a.atom, b), (b.atom, a)):
                if atom is not None and atom.op == "sym" and atom not in value.atoms:
                    self._learn_equal(atom, value)
                    return
            self._learn_difference(sub(a, b))

    def _learn_difference(self, zero: Expr) -> None:
        """Of two symbols that differ by a number, as where x[2:] and y[2:] are equally long, one is left."""
        if len(zero.terms) != 2:
            return
        (left, p), (right, q) = zero.terms
        if len(left) == len(right) == 1 and p == -q and abs(p) == 1 and left[0].op == right[0].op == "sym":
            shift = zero.const * p  # left + shift == right
            if shift > 0 or (shift == 0 and left[0].order < right[0].order):
                self._learn_equal(right[0], atom_expr(left[0]) + shift)
            else:
                self._learn_equal(left[0], atom_expr(right[0]) - shift)

    def _learn_equal(self, atom: Atom, value: Expr) -> None:
        """From now on a normal expression holds `value` where it held the symbol."""
        for expr in [expr for expr, normal in self._normal.items() if atom in normal.atoms]:
            del self._normal[expr]
        for other, known in self.equal.items():
            if atom in known.atoms:
                self.equal[other] = known.substitute({atom: value})
        self.equal[atom] = value
        self._replaced.add(atom)
        self._normal_tuples.clear()
        if self.bounds_of:
            self._lowest.clear()
            self._open.clear()

    def _learn_bound(self, a: Expr, b: Expr, strict: bool) -> None:
        """a <= b is known: where b - a is one symbol and a number, the symbol's lower bound."""
        difference = b - a
        if len(difference.terms) == 1:
            (product, coef), = difference.terms
            if len(product) == 1 and coef > 0 and product[0].op == "sym":
                low = -((difference.const - strict) // coef)  # coef * sym + const >= strict
                self.low[product[0]] = max(self.low.get(product[0], low), low)
                self._lowest.clear()
                self._open.clear()

    def is_equal(self, a: Expr | int, b: Expr | int) -> bool | None:
        """a == b when proved either way under what is known."""
        found = self.compare(a, b)
        return found if isinstance(found, bool) else None

    def ask_equal(self, a: Expr | int, b: Expr | int) -> bool:
        """a == b; recorded when it must be asked."""
        found = self.compare(a, b)
        return found if isinstance(found, bool) else self._ask_normal(found)

    def can_equal(self, a: Expr | int, b: Expr | int) -> bool:
        """a == b: proved, or asked where both are known at entry; False otherwise."""
        found = self.compare(a, b)
        return found if isinstance(found, bool) else found.is_entry and self._ask_normal(found)

    def compare(self, a: Expr | int, b: Expr | int) -> bool | Expr:
        """Whether a == b where that is proved; else the question that decides it, in normal form."""
        if a is b:
            return True
        x, y = as_expr(a), as_expr(b)
        replaced = self._replaced
        if not x.atoms.isdisjoint(replaced):
            x = self.norm(x)
        if not y.atoms.isdisjoint(replaced):
            y = self.norm(y)
        if x is y:
            return True
        if not x.terms and not y.terms:
            return False  # constants are interned
        pair = (x, y)
        known = self._compared.get(pair)
        if known is not None:
            return known
        question = self._open.get(pair)
        if question is None:
            known = self._prove(x, y)
            if known is None:
                question = self._open[pair] = equality(*_apart(x, y))
        if question is not None:
            known = self._known.get(question)
            if known is None:
                return question
        assert known is not None
        self._compared[pair] = known
        return known

    def _prove(self, x: Expr, y: Expr) -> bool | None:
        """Whether two normal expressions are equal, as far as bounds tell."""
        known = prove_equal(x, y)
        if known is None and not (x.is_entry and y.is_entry and x.atoms.isdisjoint(self.low)
                                  and y.atoms.isdisjoint(self.low)) and (
                self.lower_bound(sub(x, y)) > 0 or self.lower_bound(sub(y, x)) > 0):
            known = False
        return known

    def is_less_equal(self, a: Expr | int, b: Expr | int) -> bool | None:
        """a <= b when proved either way.

        Where a loop variable stands in the way, its symbolic bounds may leave a question about entry extents that is
        sufficient for a <= b; when the extents at hand satisfy it, it is asked.
        """
        low, high = self.norm(as_expr(a)), self.norm(as_expr(b))
        if low.bounds()[1] <= high.bounds()[0]:
            return True
        difference = high - low
        if self.lower_bound(difference) >= 0:
            return True
        if self.lower_bound(-difference) > 0:
            return False
        if not difference.is_entry:
            for sign, answer in ((difference, True), (-difference - 1, False)):
                least = self._least_entry(sign)
                if least is not None and least.terms and self._holds(least) and self.ask(compare("le", 0, least)):
                    return answer
        return None

    def _least_entry(self, expr: Expr) -> Expr | None:
        """An entry expression that is never above `expr`."""
        for _ in range(6):
            if expr.is_entry:
                return expr
            expr, changed = self._push(expr, upper=False)
            if not changed:
                return None
        return expr if expr.is_entry else None

    def _holds(self, expr: Expr) -> bool:
        """Whether expr >= 0 for the extents at hand."""
        try:
            return self.value_at_hand(expr) >= 0
        except KeyError:
            return False

    def ask_less_equal(self, a: Expr | int, b: Expr | int) -> bool:
        """a <= b; recorded when it must be asked."""
        known = self.is_less_equal(a, b)
        return self.ask(compare("le", a, b)) if known is None else known

    def value_of(self, expr: Expr) -> int:
        """The value of an entry expression, pinned by a fact."""
        expr = self.norm(expr)
        if expr.value is not None:
            return expr.value
        if not expr.is_entry:
            raise PlanRefused(f"{expr!r} is known only while the program runs", kind="runtime-extent")
        try:
            value = self.value_at_hand(expr)
        except KeyError as error:
            raise PlanRefused(f"no extent at hand for {error}", kind="signature") from None
        self.ask(equality(expr, const(value)))
        return value

    def lower_bound(self, expr: Expr) -> Bound:
        """A proved lower bound, loop variables' symbolic bounds included."""
        if not expr.terms:
            return expr.const
        found = self._lowest.get(expr)
        if found is None:
            found = self._lowest[expr] = self._find_lower_bound(expr)
        return found

    def _find_lower_bound(self, expr: Expr) -> Bound:
        best = max(expr.bounds()[0], self._tight(expr))
        for _ in range(0 if expr.is_entry else 4):
            expr, changed = self._push(expr, upper=False)
            best = max(best, expr.bounds()[0], self._tight(expr))
            if not changed:
                break
        return best

    def _tight(self, expr: Expr) -> Bound:
        """Lower bound with what facts say about symbols."""
        if expr.atoms.isdisjoint(self.low):
            return -inf
        total: Bound = expr.const
        for product, coef in expr.terms:
            if coef > 0 and all([atom.lo >= 0 for atom in product]):
                least: Bound = coef
                for atom in product:
                    low = max(atom.lo, self.low.get(atom, 0))
                    least = least * low if low else 0
                total += least
            elif len(product) == 1:
                total += coef * (product[0].hi if coef < 0 else product[0].lo)
            else:
                return -inf
        return total

    def upper_entry(self, expr: Expr) -> Expr | None:
        """An entry expression that is never below `expr`, or None: the size of what changes inside a loop."""
        if expr.is_entry:
            return expr
        for _ in range(6):
            if expr.is_entry:
                return expr
            expr, changed = self._push(expr, upper=True)
            if not changed:
                return None
        return expr if expr.is_entry else None

    def _push(self, expr: Expr, upper: bool) -> tuple[Expr, bool]:
        """Replace each runtime atom of a product by the bound that is on the safe side."""
        expr = self.norm(expr)
        total, changed = const(expr.const), False
        for product, coef in expr.terms:
            term = const(coef)
            rest_nonnegative = all(a.lo >= 0 for a in product)
            for atom in product:
                new = atom_expr(atom)
                if not new.is_entry and (len(product) == 1 or rest_nonnegative):
                    want_high = (coef > 0) == upper
                    bound = self._atom_bound(atom, want_high)
                    if bound is not None:
                        new, changed = bound, True
                term = term * new
            total = total + term
        return total, changed

    def _atom_bound(self, atom: Atom, high: bool) -> Expr | None:
        if atom.op == "reg":
            bound = self.bounds_of.get(atom, (None, None))[1 if high else 0]
            return bound
        if atom.op == "min" and high:
            a, b = atom.args
            return a if a.is_entry else b
        if atom.op == "max" and not high:
            a, b = atom.args
            return a if a.is_entry else b
        if atom.op == "max" and high:
            first, second = (self.upper_entry(x) for x in atom.args)
            if first is not None and second is not None:
                return emax(first, second)
        if atom.op == "floordiv" and high and atom.args[1].value and atom.args[1].value > 0:
            first = self.upper_entry(atom.args[0])
            if first is not None:
                return floordiv(first, atom.args[1])
        limit = atom.hi if high else atom.lo
        return const(int(limit)) if limit not in (inf, -inf) and abs(limit) < 2**31 else None

    def check_int(self, expr: Expr) -> Expr:
        """The expression, refused when a 64-bit register could overflow where Python would not."""
        if not expr.is_entry and not (expr.atom is not None and expr.atom.op == "reg"):  # a register's own value fits
            lo, hi = expr.bounds()
            if lo < -_INT_LIMIT or hi > _INT_LIMIT:
                low, high = self.lower_bound(expr), -self.lower_bound(-expr)
                if low < -_INT_LIMIT or high > _INT_LIMIT:
                    raise PlanRefused(f"the integer {expr!r} may pass 64 bits", kind="big-int")
        return expr


def _apart(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Two sides that are equal exactly when a and b are: what both share, a loop variable say, is left out."""
    if a.is_entry and b.is_entry:
        return a, b
    difference = sub(a, b)
    if not difference.is_entry:
        return a, b
    left, right = const(0), const(0)
    for product, coef in difference.terms:
        term = const(abs(coef))
        for atom in product:
            term = term * atom_expr(atom)
        if coef > 0:
            left = left + term
        else:
            right = right + term
    return left, right - difference.const


def equality(a: Expr, b: Expr) -> Expr:
    """a == b in one canonical order, so that a question is asked once."""
    if not a.terms or not b.terms:
        is_reversed = not a.terms and (bool(b.terms) or a.const < b.const)
    else:
        is_reversed = a.sort_key() < b.sort_key()
    return compare("eq", b, a) if is_reversed else compare("eq", a, b)
