"""Random NumPy programs: Python source of a function `f` and arguments for it, from a seed.

The grammar is what NumPy's users write, not what any compiler here reads: expressions over arrays and scalars, in-place
operations, slice stores, helper functions, branches on shapes and values, loops, early returns, tuples, containers of
parameters, module constants. A program is generated against the values it computes: each statement runs while it is
drawn, so that most programs are valid; a few are meant to raise. The same seed gives the same program.
"""

from __future__ import annotations

import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
from generator_arguments import (
    Arguments,
    ArrayRecipe,
    Layer,
    copy_arguments,
    draw_array,
    draw_extent,
    draw_scalar,
    draw_tree,
)
from generator_expressions import (
    EQUAL,
    EXACT,
    NEAR,
    Dropped,
    Expressions,
    Node,
    fits,
    is_array,
    is_bool,
    is_float,
    is_int,
    is_number,
)
from generator_statements import Statements

MAX_TRIPS = 6
_NAMES = ("x", "y", "z", "u", "v")
_INDENT = "    "
_FROM_ITSELF = ((1, "{0}[::-1]", EXACT), (1, "{0} + 1", EXACT), (1, "2 * {0}", EXACT), (1, "{0}.sum()", NEAR))


@dataclass
class Program:
    """A random program. source defines `f`; grade: how exactly results may be compared (generator_expressions)."""

    seed: int
    source: str
    arguments: Arguments
    grade: int
    parameters: list[str] = field(default_factory=list)

    def build(self, variant: int = 0) -> list[Any]:
        """New arguments: variant 0 has the extents the program was generated with, others new extents and values."""
        if variant == 0:
            return self.arguments.build(self.seed)
        rnd = random.Random(f"{self.seed}/{variant}")
        return self.arguments.build(self.seed * 1000 + variant, self.arguments.other_dims(rnd))


class _Ended(Exception):
    """The program returned, or raised on purpose, in the line just written."""


class Generator(Statements):
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.seed, self.rnd = seed, random.Random(seed)
        self.arguments = Arguments()
        self.scope: dict[str, Any] = {"np": np, "__name__": f"program_{seed}"}
        self.module: list[str] = ["import numpy as np", ""]
        self.env: dict[str, Any] = {}
        self.ex = Expressions(self.rnd, self.env, self.scope)
        self.grade, self.counter, self.depth = EXACT, 0, 0
        self.fixed: set[str] = set()       # loop variables and bounds: never assigned
        self.containers: list[str] = []

    # --- the frame

    def program(self) -> Program:
        """The program of this seed."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._parameters()
            self._constants()
            for name, value in zip(self.arguments.recipes, self.arguments.build(self.seed), strict=True):
                self.env[name] = value
            body = self._unpack_shape()
            try:
                body += self._block(self.rnd.randint(2, 8))
                body += self._return()
            except _Ended as ended:
                body += ended.args[0]
        names = list(self.arguments.recipes)
        lines = [*self.module, f"def f({', '.join(names)}):", *(_INDENT + line for line in body)]
        return Program(self.seed, "\n".join(lines) + "\n", self.arguments, self.grade, names)

    def _parameters(self) -> None:
        args, rnd = self.arguments, self.rnd
        for name in ("n", "m", "k")[:rnd.choice((1, 2, 2, 3))]:
            args.dims[name] = draw_extent(rnd)
        dims = list(args.dims)
        for name in _NAMES[:rnd.choice((1, 2, 2, 2, 3, 4))]:
            rank = rnd.choices((1, 2, 3, 0), (4, 6, 1.5, 0.3))[0]
            recipe = draw_array(rnd, tuple(rnd.choice(dims) for _ in range(rank)))
            arrays = [n for n, r in args.recipes.items() if isinstance(r, ArrayRecipe) and r.dims and not r.overlaps]
            if arrays and rnd.random() < 0.12:
                other = rnd.choice(arrays)
                base = args.recipes[other]
                assert isinstance(base, ArrayRecipe)
                if base.layout in ("c", "f", "strided", "gaps"):
                    recipe = ArrayRecipe(base.dtype, base.dims, base.layout, base.flavour, other)
            elif arrays and rnd.random() < 0.35:  # like another one: they go together
                base = args.recipes[rnd.choice(arrays)]
                assert isinstance(base, ArrayRecipe)
                recipe = ArrayRecipe(recipe.dtype, base.dims, recipe.layout, recipe.flavour)
            args.recipes[name] = recipe
        if rnd.random() < 0.2:
            args.recipes["idx"] = ArrayRecipe("int64", (rnd.choice(dims),), "c", "small")
        for name in ("a", "b")[:rnd.choice((0, 0, 1, 1, 2))]:
            args.recipes[name] = draw_scalar(rnd)
        if rnd.random() < 0.2:
            args.recipes["params"] = draw_tree(rnd, dims)
            self.containers.append("params")
            self.ex.leaves.append(self._container_leaf)

    def _constants(self) -> None:
        if self.rnd.random() < 0.2:
            self._define("SCALE = " + self.rnd.choice(("0.5", "3", "np.float32(2.0)", "-1.25")))
        if self.rnd.random() < 0.08:
            self._define("TABLE = np.arange(6.0).reshape(2, 3)")
        for name in ("SCALE", "TABLE"):
            if name in self.scope:
                self.ex.leaves.append(partial(self._constant_leaf, name))

    def _constant_leaf(self, name: str) -> Node:
        return Node(name, self.scope[name])

    def _define(self, text: str) -> None:
        exec(text, self.scope)
        self.module += [*text.split("\n"), ""]

    def _unpack_shape(self) -> list[str]:
        arrays = [n for n, v in self.env.items() if is_array(v) and v.ndim == 2]
        if not arrays or self.rnd.random() > 0.25:
            return []
        name = self.rnd.choice(arrays)
        self.env["rows"], self.env["cols"] = self.env[name].shape
        self.fixed |= {"rows", "cols"}
        return [f"rows, cols = {name}.shape"]

    # --- statements

    def _block(self, count: int) -> list[str]:
        lines: list[str] = []
        table: list[tuple[float, Callable[[], list[str]]]] = [
            (8, self._assign), (2, self._assign_scalar), (3, self._augment), (2.5, self._store), (1, self._masked_store),
            (1, self._pair), (1.2, self._helper_call), (0.3, self._mutating_helper), (0.25, self._meant_to_raise),
            (0.5, self._out_argument), *self.more_statements()]  # weight, writer
        if self.depth < 2:
            table += [(2, self._if), (1.6, self._for), (0.6, self._while), (0.4, self._early_return)]
            if self.containers:
                table.append((3, self._over_container))
        for _ in range(count):
            statement = self.rnd.choices([row[1] for row in table], [row[0] for row in table])[0]
            try:
                written = statement()
            except Dropped:
                continue
            except _Ended as ended:
                raise _Ended([*lines, *ended.args[0]]) from None
            self._note(written)
            lines += written
        return lines or self._fallback()

    def _note(self, lines: list[str]) -> None:
        """Keep account of names whose values nothing has read yet: what is read next, and returned."""
        for line in lines:
            bound = re.match(r"\s*(\w+(?:, \w+)*) ([-+*/|&]|//)?= ", line)
            read = re.findall(r"\b[a-z_]\w*", line[bound.end():] if bound and not bound[2] else line)
            self.ex.unread = [name for name in self.ex.unread if name not in read]
            if bound:
                self.ex.unread += [name for name in bound[1].split(", ") if name not in self.ex.unread]

    def _fallback(self) -> list[str]:
        return [f"t = {self._commit('t', Node('1', 1))}"]

    def _commit(self, name: str, node: Node) -> str:
        """Bind a node's value to a name; returns the text to write."""
        if name in self.fixed:
            raise Dropped
        self.env[name] = node.value
        self.ex.grades[name] = node.grade
        self.grade = max(self.grade, node.grade)
        text = node.text
        return text[1:-1] if _is_wrapped(text) else text

    def _name(self) -> str:
        if self.rnd.random() < 0.3:
            kept = {*self.fixed, *self.containers, *self.ex.unread}
            names = [n for n in self.env if n not in kept]
            if names:
                return self.rnd.choice(names)
        self.counter += 1
        return f"{self.rnd.choice('rstwh')}{self.counter}"

    def _assign(self) -> list[str]:
        node = self.ex.array(self.rnd.choice((1, 2, 2, 3)))
        name = self._name()
        return [f"{name} = {self._commit(name, node)}"]

    def _assign_scalar(self) -> list[str]:
        node = self.ex.scalar(2)
        name = self._name()
        return [f"{name} = {self._commit(name, node)}"]

    def _pair(self) -> list[str]:
        first, second = self._name(), self._name()
        if first == second:
            raise Dropped
        if self.rnd.random() < 0.3 and first in self.env and second in self.env:
            one, two = (Node(n, self.env[n], self.ex.grades.get(n, EXACT)) for n in (second, first))
        else:
            one, two = self.ex.array(1), self.ex.array(1)
        return [f"{first}, {second} = {self._commit(first, one)}, {self._commit(second, two)}"]

    def _augment(self) -> list[str]:
        target = self.ex.variable(lambda v: is_array(v) or is_number(v))
        if target.text not in self.env or target.text in self.fixed:
            raise Dropped
        operators = "+= -= *= /=" if is_float(target.value) else "+= -= *= //= |= &="
        value = self.ex.scalar() if self.rnd.random() < 0.4 or not is_array(target.value) else self.ex.array(2)
        operator = self.rnd.choice(operators.split())
        grade = max(value.grade, target.grade)
        grade = NEAR if grade == EQUAL and "/" in operator else grade  # a zero's sign decides a value
        return self._run([f"{target.text} {operator} {value.text}"], grade, {target.text})

    def _store(self) -> list[str]:
        target = self.ex.variable(lambda v: is_array(v) and v.ndim > 0 and v.size > 0)
        if target.text not in self.env:
            raise Dropped
        index = self.rnd.choice((":", "0", "-1", "1:", ":-1", "::2", "::-1", "..., 0", ":, 0", ":, ::-1", "0, :",
                                 "1:-1", f":{target.text}.shape[0] // 2", ":, -1:", "0, 0", "...", "-2",
                                 "1:, 1:", ":3", "[0]"))
        place = f"{target.text}[{index}]"
        try:
            held = self.ex.value_of(place)
        except Exception as error:
            raise Dropped from error
        roll = self.rnd.random()
        if roll < 0.3:
            value = self.ex.scalar()
        elif roll < 0.55:  # the same array on both sides, shifted or turned
            value = self.ex.pick(_FROM_ITSELF, Node(place, held, target.grade))
        elif roll < 0.7:
            value = Node(f"{target.text}[:-1]", None, target.grade)
        else:
            value = self.ex.array(2)
        operator = self.rnd.choice(("=", "=", "=", "+=", "*=", "-="))
        return self._run([f"{place} {operator} {value.text}"], max(value.grade, target.grade), {target.text})

    def _masked_store(self) -> list[str]:
        target = self.ex.variable(lambda v: is_array(v) and v.ndim > 0 and not is_bool(v))
        if target.text not in self.env:
            raise Dropped
        if self.rnd.random() < 0.6:
            index = f"{target.text} {self.rnd.choice('<>')} {self.ex.scalar(0).text}"
        else:
            index = self.ex.variable(lambda v: is_array(v) and is_int(v) and v.ndim == 1).text
        value = self.ex.scalar()
        if self.rnd.random() < 0.4:  # an element for each place
            other = self.ex.variable(lambda v: is_array(v) and not is_bool(v))
            value = Node(f"{other.text}[{index}]", None, other.grade)
        operator = self.rnd.choice(("=", "=", "+=", "*="))
        line = f"{target.text}[{index}] {operator} {value.text}"
        return self._run([line], max(value.grade, target.grade), {target.text})

    def _out_argument(self) -> list[str]:
        target = self.ex.variable(lambda v: is_array(v) and is_float(v) and v.ndim > 0)
        if target.text not in self.env:
            raise Dropped
        function = self.rnd.choice(("np.add", "np.multiply", "np.maximum", "np.subtract"))
        line = f"{function}({self.ex.array(1).text}, {self.ex.scalar(0).text}, out={target.text})"
        return self._run([line], NEAR, {target.text})

    def _run(self, lines: list[str], grade: int, touched: set[str] | None = None,
             hidden: tuple[str, ...] = ()) -> list[str]:
        """Run statements against a copy of the environment; adopt it when they end well, else Dropped. hidden: names that
        the statements bind and that no other statement reads."""
        space = {**self.scope, **copy_arguments(self.env)}
        try:
            exec(compile("\n".join(lines), "<statements>", "exec"), space)
        except Exception as error:
            raise Dropped from error
        known = {*self.scope, "__builtins__", *hidden}
        trial = {name: value for name, value in space.items() if name not in known}
        for value in trial.values():
            if not fits(value) and not isinstance(value, (list, tuple, dict, SimpleNamespace, Layer)):
                raise Dropped
        self.env.clear()
        self.env.update(trial)
        self.grade = max(self.grade, grade)
        # What shares memory with a name shares its exactness: simply all of them.
        if grade > EXACT and touched:
            for name in self.env:
                self.ex.grades[name] = max(self.ex.grades.get(name, EXACT), grade)
        return lines

    # --- control flow

    def _inner(self, count: int, loop_var: str | None = None) -> list[str]:
        """A nested block, indented; the environment is what it leaves."""
        self.depth += 1
        try:
            return [_INDENT + line for line in self._block(count)]
        finally:
            self.depth -= 1

    def _apart(self, count: int, bind: dict[str, Any] | None = None) -> list[str]:
        """A nested block generated against a copy of the environment, which is then dropped."""
        saved, grades = dict(self.env), dict(self.ex.grades)
        trial = copy_arguments(self.env)
        self.env.clear()
        self.env.update(trial)
        self.env.update(bind or {})
        try:
            return self._inner(count)
        except _Ended as ended:
            return [_INDENT + line for line in ended.args[0]]
        finally:
            self.env.clear()
            self.env.update(saved)
            self.ex.grades.clear()
            self.ex.grades.update(grades)

    def _if(self) -> list[str]:
        test = self.ex.test()
        self.grade = max(self.grade, test.grade)
        has_else = self.rnd.random() < 0.5
        count = self.rnd.choice((1, 1, 2))
        if bool(test.value):
            other = self._apart(count) if has_else else []
            try:
                taken = self._inner(count)
            except _Ended as ended:
                raise _Ended([f"if {test.text}:", *(_INDENT + line for line in ended.args[0]),
                              *(["else:", *other] if has_else else [])]) from None
            return [f"if {test.text}:", *taken, *(["else:", *other] if has_else else [])]
        other = self._apart(count)
        if not has_else:
            return [f"if {test.text}:", *other]
        try:
            taken = self._inner(count)
        except _Ended as ended:
            raise _Ended([f"if {test.text}:", *other, "else:", *(_INDENT + line for line in ended.args[0])]) from None
        return [f"if {test.text}:", *other, "else:", *taken]

    def _for(self) -> list[str]:
        var = ("i", "j")[self.depth] if self.depth < 2 else "l"
        if var in self.fixed:
            raise Dropped
        arrays = [n for n, v in self.env.items() if is_array(v) and v.ndim and 0 < len(v) <= MAX_TRIPS]
        spans = ["range(3)", "range(1, 4)", "range(2, -1, -1)", "range(0, 4, 2)", "range(0)"]
        if arrays:
            name = self.rnd.choice(arrays)
            spans += [f"range({name}.shape[0])", f"range(len({name}))", f"range(1, {name}.shape[0])",
                      f"range({name}.shape[0] - 1, -1, -1)"] * 3
        span = self.rnd.choice(spans)
        values = list(self.ex.value_of(span))
        if len(values) > MAX_TRIPS:
            raise Dropped
        head = f"for {var} in {span}:"
        return self._loop(head, {var: values[0] if values else 0}, self._indexed(var, arrays))

    def _indexed(self, var: str, arrays: list[str]) -> list[str]:
        """Statements that use the loop variable, as loops over rows, recurrences and accumulations do."""
        if not arrays or self.rnd.random() < 0.25:
            return []
        name = self.rnd.choice(arrays)
        other = self.rnd.choice(arrays)
        return [self.rnd.choice((
            f"{name}[{var}] = {name}[{var}] * 2", f"{name}[{var}] += {other}[{var} - 1]", f"{name}[{var}] += {var}",
            f"{name}[{var}] = {other}[{var}] - {name}[0]", f"q = {name}[{var}] + {var}", f"q = {name}[:{var}].sum()",
            f"{name}[{var}:] *= 0.5", f"q = {name}[{var}] * {other}[-{var}]", f"{name}[:{var}] -= 1",
        ))]

    def _loop(self, head: str, bind: dict[str, Any], first: list[str], last: tuple[str, ...] = (),
              before: tuple[str, ...] = ()) -> list[str]:
        """A loop whose body is drawn against its first trip and then run whole."""
        names = set(bind)
        self.fixed |= names
        try:
            body = [_INDENT + line for line in first]
            count = self.rnd.choice((1, 1, 2, 3)) if not first else self.rnd.choice((0, 1, 1))
            grade = self.grade
            if count:
                body += self._apart(count, bind)
            if self.rnd.random() < 0.15:
                var = next(iter(bind))
                body.append(f"{_INDENT}if {var} > 1:")
                body.append(_INDENT * 2 + ("break" if last else self.rnd.choice(("break", "continue"))))
                if body[-1].endswith("continue"):
                    body.append(_INDENT + "q = 1.0")
            body += [_INDENT + line for line in last]
            if not body:
                raise Dropped
            accumulator: list[str] = []
            if self.rnd.random() < 0.3:
                name = f"acc{self.counter}"
                self.counter += 1
                value = self.ex.variable(lambda v: is_array(v) or is_number(v)).text
                accumulator = [f"{name} = {self.rnd.choice(('0', '0.0', '1'))}"]
                body.insert(0, f"{_INDENT}{name} = {name} + {value}")
            self.grade = grade
            return self._run([*accumulator, *before, head, *body], NEAR, {"*"})
        finally:
            self.fixed -= names

    def _while(self) -> list[str]:
        self.counter += 1
        name = f"c{self.counter}"
        head = f"while {name} < {self.rnd.choice((2, 3, 4))}:"
        return self._loop(head, {name: 0}, [], (f"{name} += 1",), (f"{name} = 0",))

    def _over_container(self) -> list[str]:
        name = self.rnd.choice(self.containers)
        value = self.env[name]
        if not isinstance(value, (list, tuple)) or not value:
            raise Dropped
        item = value[0]
        arrays = [n for n, v in self.env.items() if is_array(v) and v.ndim == 2 and n not in self.fixed]
        if is_array(item):
            return self._loop(*self.rnd.choice((
                (f"for w in {name}:", {"w": item}, []),
                (f"for i, w in enumerate({name}):", {"w": item, "i": 0}, []),
            )))
        # As models are written: a dense layer for each set of parameters.
        target = self.rnd.choice(arrays) if arrays else "x"
        activation = self.rnd.choice(("np.maximum({}, 0)", "np.tanh({})", "{}"))
        if isinstance(item, dict):
            dense, head, bind = f"{target} @ p['w'] + p['b']", f"for p in {name}:", {"p": item}
        elif isinstance(item, (tuple, list)):
            dense, head, bind = f"{target} @ w + b", f"for w, b in {name}:", {"w": item[0], "b": item[1]}
        else:
            dense, head, bind = f"{target} @ p.w + p.b", f"for p in {name}:", {"p": item}
        if set(bind) & set(self.env):
            raise Dropped
        return self._loop(head, bind, [f"{target} = {activation.format(dense)}"])

    def _container_leaf(self) -> Node | None:
        value, text = self.env.get("params"), "params"
        for _ in range(4):
            if isinstance(value, (list, tuple)) and value:
                at = self.rnd.randrange(-1, len(value))
                value, text = value[at], f"{text}[{at}]"
            elif isinstance(value, dict):
                key = self.rnd.choice(sorted(value))
                value, text = value[key], f"{text}[{key!r}]"
            elif isinstance(value, (SimpleNamespace, Layer)):
                key = self.rnd.choice(sorted(vars(value)))
                value, text = getattr(value, key), f"{text}.{key}"
            else:
                break
        return Node(text, value) if is_array(value) or is_number(value) else None

    def _early_return(self) -> list[str]:
        test = self.ex.test()
        self.grade = max(self.grade, test.grade)
        value = self.ex.array(1)
        self.grade = max(self.grade, value.grade)
        lines = [f"if {test.text}:", f"{_INDENT}return {value.text}"]
        if bool(test.value):
            raise _Ended([*lines, *self._return()])
        return lines

    def _meant_to_raise(self) -> list[str]:
        target = self.ex.variable(lambda v: is_array(v))
        text = self.rnd.choice((
            f"t = {target.text}[100]", f"t = {target.text} @ np.ones(1000)", f"t = {target.text}.reshape(7, 11)",
            f"t = {target.text}[0, 0, 0, 0, 0]", f"t = np.concatenate([{target.text}, np.ones((3, 1, 2))])",
            f"t = {target.text} + np.ones(777)", "t = 1 / 0", f"t = {target.text}.sum(axis=9)", "t = [1, 2][5]",
            f"t = np.max({target.text}[:0])", f"{target.text}[:, 50] = 1", f"t = {target.text}.foo",
        ))
        if self.depth or self.rnd.random() < 0.5:
            raise Dropped
        try:
            exec(text, dict(self.scope), copy_arguments(self.env))
        except Exception:
            raise _Ended([text, *self._return()]) from None
        raise Dropped

    # --- helpers

    def _helper_call(self) -> list[str]:
        """A call of a helper function, new or old, inlined by whoever compiles."""
        known = [name for name in self.scope if name.startswith("helper")]
        if not known or self.rnd.random() < 0.6:
            known = [self._new_helper()]
        name = self.rnd.choice(known)
        arguments = [self.ex.array(1), self.ex.scalar(0) if self.rnd.random() < 0.5 else self.ex.array(1)]
        template = name + self.rnd.choice(("({0}, {1})", "({0}, {1})", "({0}, q={1})", "({0})"))
        if template.endswith("({0})"):
            arguments.pop()
        node = self.ex.apply(template, NEAR, *arguments)
        target = self._name()
        return [f"{target} = {self._commit(target, node)}"]

    def _new_helper(self) -> str:
        self.counter += 1
        name = f"helper{self.counter}"
        saved_env, saved_grades, saved_leaves = dict(self.env), dict(self.ex.grades), list(self.ex.leaves)
        self.env.clear()
        self.ex.leaves.clear()
        first = self.ex.rnd.choice([v for v in saved_env.values() if is_array(v)] or [np.ones(3)])
        self.env.update({"p": copy_arguments(first), "q": 2.0})
        body: list[str] = []
        try:
            if self.rnd.random() < 0.25:
                body.append(f"if {self.ex.test().text}:\n{_INDENT}return p")
            for _ in range(self.rnd.choice((1, 1, 2, 3))):
                node = self.ex.array(2)
                local = self.rnd.choice(("p", "t", "s"))
                body.append(f"{local} = {node.text}")
                self.env[local] = node.value
            result = self.ex.array(2).text
        finally:
            self.env.clear()
            self.env.update(saved_env)
            self.ex.grades.update(saved_grades)
            self.ex.leaves[:] = saved_leaves
        lines = [line for part in body for line in part.split("\n")]
        lines = [f"def {name}(p, q=2.0):", *(_INDENT + line for line in lines), f"{_INDENT}return {result}"]
        self._define("\n".join(lines))
        return name

    def _mutating_helper(self) -> list[str]:
        """A helper that writes into its argument."""
        target = self.ex.variable(lambda v: is_array(v) and is_float(v) and v.ndim > 0)
        if "scale_rows" not in self.scope:
            self._define("def scale_rows(p, by):\n    p *= by\n    p[0] += 1\n    return p")
        name = self._name()
        if name in self.fixed or target.text not in self.env:
            raise Dropped
        by = self.ex.scalar(0)
        line = f"{name} = scale_rows({target.text}, {by.text})"
        return self._run([line], max(by.grade, target.grade), {name, target.text})

    # --- the end

    def _return(self) -> list[str]:
        names = [n for n, v in self.env.items() if (is_array(v) or is_number(v)) and n not in ("i", "j", "l")]
        new = [n for n in names if n not in self.arguments.recipes] or names
        unread = [n for n in self.ex.unread if n in names][-4:]
        roll = self.rnd.random()
        if not names:
            return ["return 1"]
        if roll < 0.85 and unread:
            text = ", ".join(unread)
        elif roll < 0.5:
            text = self.rnd.choice(new)
        elif roll < 0.6:
            text = self.rnd.choice(names)
        elif roll < 0.65:
            text = f"{{'out': {self.rnd.choice(new)}, 'other': {self.rnd.choice(names)}}}"
        elif roll < 0.7:
            text = f"[{self.rnd.choice(new)}, ({self.rnd.choice(names)}, 1.5)]"
        elif roll < 0.8:
            try:
                node = self.ex.array(2)
            except Dropped:
                return [f"return {self.rnd.choice(new)}"]
            self.grade = max(self.grade, node.grade)
            text = node.text
        else:
            text = ", ".join(self.rnd.choice(new if i else names) for i in range(self.rnd.choice((2, 2, 3))))
        return [f"return {text}"]


def _is_wrapped(text: str) -> bool:
    """True when the first parenthesis closes with the last character."""
    if not text.startswith("("):
        return False
    level = 0
    for at, char in enumerate(text):
        level += {"(": 1, ")": -1}.get(char, 0)
        if level == 0:
            return at == len(text) - 1
    return False


def generate(seed: int) -> Program:
    """The random program of a seed."""
    return Generator(seed).program()
