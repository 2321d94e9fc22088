"""Statements of random programs beyond the plain ones: iteration over rows, comprehensions, ping-pong buffers, tests on
values that end a loop, errors raised on purpose in branches, conditional expressions, nested functions, `ufunc.at`.

`Generator` (generators.py) inherits them; each method writes one statement, run when it is drawn, or raises Dropped.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from generator_expressions import EXACT, NEAR, Dropped, Expressions, Node, is_array, is_float, is_number, table

_ROW = table(
    exact="4 {0} * 2; 3 {0} + 1; 2 {0}[::-1]; 2 -{0}; 1 np.abs({0})",
    near="4 {0}.sum(); 2 np.exp(-np.abs({0})); 2 {0}.mean() * 2; 1 {0} / 3; 1 {0} @ {0}",
)
_STENCIL = (
    "{q}[1:-1] = 0.25 * ({p}[:-2] + 2 * {p}[1:-1] + {p}[2:])", "{q}[1:] = {p}[:-1] - {p}[1:]", "{q}[:] = {p} * 0.5 + 1",
    "{q}[...] = {p}[::-1]", "{q}[0] = {p}[-1]", "{q} += {p}", "np.multiply({p}, 2, out={q})",
)


class Statements:
    """What `Generator` knows, and more statements."""

    rnd: random.Random
    env: dict[str, Any]
    scope: dict[str, Any]
    ex: Expressions
    fixed: set[str]
    counter: int
    _run: Callable[..., list[str]]
    _name: Callable[[], str]
    _commit: Callable[[str, Node], str]
    _define: Callable[[str], None]

    def more_statements(self) -> list[tuple[float, Callable[[], list[str]]]]:
        """(weight, writer)."""
        return [(0.8, self._chained), (0.9, self._rows), (0.8, self._comprehension), (0.6, self._ping_pong),
                (0.6, self._while_value), (0.5, self._raise_in_branch), (0.8, self._conditional), (0.5, self._nested),
                (0.4, self._at), (0.4, self._unpack), (0.3, self._accumulate_out), (0.3, self._delete)]

    def _fresh(self, letter: str = "g") -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    def _target(self, least_rank: int = 1, most: int = 6) -> Node:
        node = self.ex.variable(lambda v: is_array(v) and v.ndim >= least_rank and 0 < len(v) <= most)
        if node.text not in self.env or node.text in self.fixed:
            raise Dropped
        return node

    def _chained(self) -> list[str]:
        """`a = b = value`: two names of one object; then one of them changes in place."""
        first, second, node = self._fresh("d"), self._fresh("d"), self.ex.array(2)
        lines = [f"{first} = {second} = {node.text}"]
        if self.rnd.random() < 0.5:
            lines.append(f"{first} {self.rnd.choice(('+=', '*='))} {self.rnd.choice(('1', '2'))}")
        return self._run(lines, node.grade, {first, second})

    def _rows(self) -> list[str]:
        """Iteration over an array's rows, with positions, or beside another one's."""
        x, row, total = self._target(), self._fresh("w"), self._fresh("s")
        node = self.ex.pick(_ROW, Node(row, x.value[0], x.grade))
        other = self.ex.variable(lambda v: is_array(v) and v.ndim >= 1 and 0 < len(v) <= 6)
        head, update = self.rnd.choice((
            (f"for {row} in {x.text}:", f"{total} = {total} + {node.text}"),
            (f"for n, {row} in enumerate({x.text}):", f"{total} = {total} + n * {node.text}"),
            (f"for {row}, m in zip({x.text}, {other.text}):", f"{total} = {total} + {node.text} * m.sum()"),
            (f"for {row} in {x.text}:", f"{row} += 1; {total} += 1"),
            (f"for {row} in {x.text}[::-1]:", f"{total} = {node.text} - {total}"),
        ))
        guard = [f"    if {row}.sum() > 2:", "        break"] if x.value.ndim > 1 and self.rnd.random() < 0.3 else []
        start = f"{total} = {self.rnd.choice(('0', '0.0', '1'))}"
        return self._run([start, head, *guard, *(f"    {line}" for line in update.split("; "))], NEAR, {"*"},
                         hidden=(row, "n", "m"))

    def _comprehension(self) -> list[str]:
        x, row, name = self._target(), self._fresh("w"), self._fresh("s")
        node = self.ex.pick(_ROW, Node(row, x.value[0], x.grade))
        text = self.rnd.choice((
            f"np.stack([{node.text} for {row} in {x.text}])", f"sum([{node.text} for {row} in {x.text}])",
            f"np.array([{x.text}[i].sum() for i in range({x.text}.shape[0])])", f"[{node.text} for {row} in {x.text}][-1]",
            f"sum({x.text}[i] * i for i in range(len({x.text})))",
            f"np.concatenate([np.atleast_1d({row}) for {row} in {x.text}])",
            f"max([float({row}.max()) for {row} in {x.text}])", f"[{x.text}[k] for k in (0, -1)][1]",
        ))
        return self._run([f"{name} = {text}"], NEAR, {name})

    def _ping_pong(self) -> list[str]:
        """Two buffers that change places in each trip."""
        x = self._target(most=2000)
        if not is_float(x.value):
            raise Dropped
        p, q = self._fresh("p"), self._fresh("p")
        start = self.rnd.choice((f"{p}, {q} = {x.text}.copy(), np.zeros_like({x.text})", f"{p}, {q} = {x.text}, {x.text} * 0",
                                 f"{p}, {q} = {x.text}, {x.text} + 1"))
        step = self.rnd.choice(_STENCIL).format(p=p, q=q)
        trips = self.rnd.choice(("3", "4", f"{x.text}.shape[0]", "7"))
        if trips.endswith("]") and len(x.value) > 7:
            raise Dropped
        swap = self.rnd.choice((f"{p}, {q} = {q}, {p}", f"t{p} = {p}\n    {p} = {q}\n    {q} = t{p}"))
        return self._run([start, f"for i in range({trips}):", f"    {step}", *f"    {swap}".split("\n")],
                         NEAR, {"*"}, hidden=("i", f"t{p}"))

    def _while_value(self) -> list[str]:
        """A loop that ends when a value says so."""
        x, name, count = self.ex.variable(lambda v: is_array(v) and is_float(v)), self._fresh("v"), self._fresh("c")
        test = self.rnd.choice((f"np.abs({name}).sum() > 1", f"({name} * {name}).mean() > 0.5", f"{name}.max() > 1"))
        step = self.rnd.choice((f"{name} = {name} * 0.5", f"{name} *= 0.25", f"{name} = np.tanh({name}) / 2",
                                f"{name} = {name} - 0.5"))
        head = self.rnd.choice((f"while {count} < 5 and {test}:", f"while {test} and {count} < 4:"))
        leave = [f"    if not {test}:", "        break"] if self.rnd.random() < 0.2 else []
        return self._run([f"{name}, {count} = {x.text} + 0, 0", head, f"    {step}", f"    {count} += 1", *leave], NEAR, {"*"})

    def _raise_in_branch(self) -> list[str]:
        """An error that this call does not meet; another call may."""
        test = self.ex.test()
        if bool(test.value):
            raise Dropped
        error = self.rnd.choice(("ValueError('bad')", "KeyError", "ArithmeticError(f'bad {1 + 1}')", "IndexError('off')"))
        return self._run([f"if {test.text}:", f"    raise {error}"], test.grade)

    def _conditional(self) -> list[str]:
        """A conditional expression over arrays or scalars of any kinds."""
        test, one, two, name = self.ex.test(), self.ex.array(1), self.ex.array(1), self._fresh("h")
        if self.rnd.random() < 0.3:
            two = self.ex.scalar(0)
        return self._run([f"{name} = {one.text} if {test.text} else {two.text}"], max(test.grade, one.grade, two.grade), {name})

    def _nested(self) -> list[str]:
        """A function inside, or a lambda, that reads a variable of the enclosing one."""
        kept = self.ex.variable(is_number)
        x, name, out = self.ex.variable(is_array), self._fresh("fn"), self._fresh("h")
        body = self.rnd.choice((f"v * 2 + {kept.text}", f"np.where(v > {kept.text}, v, 0)",
                                f"v - {kept.text} if v.ndim > 1 else v"))
        make = [f"{name} = lambda v: {body}"]
        if self.rnd.random() < 0.5:
            make = [f"def {name}(v, by=2):", f"    return ({body}) * by"]
        keyword = ", by=3" if len(make) == 2 and self.rnd.random() < 0.5 else ""
        try:
            value = eval(body, {**self.scope, **self.env, "v": x.value})
        except Exception as error:
            raise Dropped from error
        if not (is_array(value) or is_number(value)):
            raise Dropped
        return self._run([*make, f"{out} = {name}({x.text}{keyword})"], max(kept.grade, x.grade), {out}, hidden=(name,))

    def _at(self) -> list[str]:
        """`np.add.at` with indices that repeat."""
        x = self._target(most=2000)
        index = self.ex.variable(lambda v: is_array(v) and v.dtype.kind in "iu" and v.ndim == 1)
        function = self.rnd.choice(("add", "subtract", "maximum"))
        return self._run([f"np.{function}.at({x.text}, {index.text} % {x.text}.shape[0], {self.rnd.choice(('1', '2', '0'))})"],
                         max(x.grade, EXACT), {x.text})

    def _unpack(self) -> list[str]:
        x = self.ex.variable(lambda v: is_array(v) and v.ndim >= 1 and len(v) in (2, 3))
        names = [self._fresh("e") for _ in x.value]
        return self._run([f"{', '.join(names)} = {x.text}"], x.grade, set(names))

    def _accumulate_out(self) -> list[str]:
        x = self._target(most=2000)
        text = self.rnd.choice((f"np.cumsum({x.text}, axis=0, out={x.text})", f"np.negative({x.text}, out={x.text})",
                                f"np.add({x.text}, 1, out={x.text}, where={x.text} > 0)", f"np.copyto({x.text}, {x.text}[::-1])",
                                f"{x.text}.fill(2)", f"np.clip({x.text}, 0, 3, out={x.text})", f"{x.text}.sort(axis=0)"))
        return self._run([text], NEAR, {x.text})

    def _delete(self) -> list[str]:
        names = [n for n in self.env if n[0] in "rstwh" and n[1:].isdigit() and n not in self.fixed]
        if not names:
            raise Dropped
        name = self.rnd.choice(names)
        if name in self.ex.unread:
            raise Dropped
        return self._run([f"del {name}"], EXACT)
