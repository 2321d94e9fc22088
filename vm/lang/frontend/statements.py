"""Statements: assignment, branches, loops, returns, and what is refused."""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from ....templates.registry import BY_NAME
from ..bytecode import UNBOUND
from ..opcodes import BUILD_KINDS
from . import codes
from .emitter import DEAD
from .inline import Inlining
from .names import MISSING, fold, is_static
from .scope import Closure, Loop, assigned_in
from .texts import as_f_string

_INPLACE: dict[type, int] = {
    ast.Add: BY_NAME["op.add"].id, ast.Sub: BY_NAME["op.sub"].id, ast.Mult: BY_NAME["op.mul"].id,
    ast.Div: BY_NAME["op.truediv"].id, ast.FloorDiv: BY_NAME["op.floordiv"].id, ast.Mod: BY_NAME["op.mod"].id,
    ast.Pow: BY_NAME["op.pow"].id, ast.LShift: BY_NAME["op.lshift"].id, ast.RShift: BY_NAME["op.rshift"].id,
    ast.BitAnd: BY_NAME["op.and"].id, ast.BitOr: BY_NAME["op.or"].id, ast.BitXor: BY_NAME["op.xor"].id,
    ast.MatMult: BY_NAME["op.matmul"].id,
}
_REFUSED: dict[str, str] = {
    "Try": "try", "TryStar": "try", "ClassDef": "class", "Nonlocal": "nonlocal", "AsyncFunctionDef": "async",
    "AsyncFor": "async", "AsyncWith": "async", "Match": "match", "TypeAlias": "class",
}


def _breaks(node: ast.AST) -> bool:
    """Whether a loop's own body leaves it with `break`."""
    def found(body: Sequence[ast.stmt]) -> bool:
        return any(isinstance(s, ast.Break) or (isinstance(s, (ast.If, ast.With)) and (
            found(s.body) or found(getattr(s, "orelse", [])))) for s in body)
    return found(getattr(node, "body", None) or []) if isinstance(node, ast.For) else False


class Statements(Inlining):
    """Compiles statements."""

    def statements(self, body: Sequence[ast.stmt]) -> None:
        """Compile statements up to the first that does not fall through; what follows it can never run."""
        for statement in body:
            if self.assigned == DEAD:
                return
            handler = self.STATEMENTS.get(statement.__class__)
            if handler is None:
                self.refuse(_REFUSED[statement.__class__.__name__], statement)
            handler(self, statement)

    # --- assignment

    def _assign(self, node: ast.Assign) -> None:
        targets = node.targets
        if len(targets) == 1:
            self._assign_one(targets[0], node.value, node)
            return
        register = self.expr(node.value)
        for target in targets:
            self.store(target, register, node)

    def _annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._assign_one(node.target, node.value, node)

    def _assign_one(self, target: ast.expr, value: ast.expr, node: ast.stmt) -> None:
        cls = target.__class__
        if cls is ast.Name:
            name = target.id  # type: ignore[attr-defined]
            if value.__class__ in (ast.Name, ast.Attribute, ast.Lambda) and self._bind_static(name, value):
                return
            register = self.frame.registers.get(name, -1)
            if register < 0:
                register = self.frame.registers[name] = self.new_register()
            self.expr(value, register)
            return
        if isinstance(target, (ast.Tuple, ast.List)):
            value = self.mapped(value) or value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) \
                and len(target.elts) == len(value.elts) \
                and not any(e.__class__ is ast.Starred for e in (*target.elts, *value.elts)):
            self._assign_pairs(target.elts, value.elts, node)
            return
        self.store(target, self.expr(value), node)

    def _bind_static(self, name: str, value: ast.expr) -> bool:
        """`act = np.tanh`, `f = lambda x: ...`: a name for something known, if it is its only assignment."""
        static = self.static(value)
        if static is MISSING:
            return False
        if self.frame.names.counts.get(name) != 1 or name in self.frame.registers:
            return False
        self.frame.statics[name] = static
        return True

    def _assign_pairs(self, targets: list[ast.expr], values: list[ast.expr], node: ast.stmt) -> None:
        """`a, b = x, y`: all values first, then the stores; a local that is overwritten is copied first."""
        written = {t.id for t in targets if isinstance(t, ast.Name)}
        registers = []
        for value in values:
            register = self.expr(value)
            if isinstance(value, ast.Name) and value.id in written:
                register = self.value(value, codes.MOVE, -1, register)
            registers.append(register)
        for target, register in zip(targets, registers, strict=True):
            self.store(target, register, node)

    def store(self, target: ast.expr, register: int, node: ast.AST) -> None:
        """Assign a register's value to a target."""
        cls = target.__class__
        if cls is ast.Name:
            self.move(node, self.local(target), register)
        elif cls is ast.Subscript:
            base = self.expr(target.value)  # type: ignore[attr-defined]
            index = self.index(target.slice)  # type: ignore[attr-defined]
            self.emit(node, codes.STORE_TENSOR, base, index, register)
        elif cls is ast.Tuple or cls is ast.List:
            self._unpack(target, register, node)
        elif cls is ast.Attribute:
            if self.static(target.value) is not MISSING:  # type: ignore[attr-defined]
                self.refuse("attribute-store", target)  # of a module or class
            base = self.expr(target.value)  # type: ignore[attr-defined]
            if target.attr != "shape":  # type: ignore[attr-defined]
                self._set_attribute(target, base, register)  # type: ignore[arg-type]
                return
            self.kernel(node, BY_NAME["arr.set_shape"].id, [base, register])
        else:
            self.refuse("star-args", target)

    def _set_attribute(self, target: ast.Attribute, base: int, register: int) -> None:
        name = self.mangled(target.attr)
        if name.startswith("__"):
            self.refuse("attribute-store", target)
        self.stored.setdefault(name, (target, self.frame))
        self.kernel(target, BY_NAME["py.set_attribute"].id, [base, self.const(target, name), register])

    def local(self, target: ast.expr) -> int:
        """The register of a name that is assigned in this frame."""
        name = target.id  # type: ignore[attr-defined]
        if name in self.frame.statics:
            self.refuse("function-value", target, f"'{name}' names a function here and a value elsewhere")
        register = self.frame.registers.get(name, -1)
        if register < 0:
            register = self.frame.registers[name] = self.new_register()
        return register

    def _unpack(self, target: ast.expr, register: int, node: ast.AST) -> None:
        items = target.elts  # type: ignore[attr-defined]
        star = next((i for i, item in enumerate(items) if item.__class__ is ast.Starred), -1)
        if star >= 0:
            self._unpack_starred(items, star, register, node)
            return
        registers = []
        later = []
        for item in items:
            if item.__class__ is ast.Name:
                registers.append(self.local(item))
            else:
                registers.append(self.new_register())
                later.append((item, registers[-1]))
        self.emit(node, codes.UNPACK, register, len(registers), *registers)
        for r in registers:
            self.assigned |= 1 << r
        for item, r in later:
            self.store(item, r, node)

    def _unpack_starred(self, items: list[ast.expr], star: int, register: int, node: ast.AST) -> None:
        """`first, *rest = x`: items from both ends, and a list of what is between."""
        after = len(items) - star - 1
        whole = self.kernel(node, BY_NAME["py.tuple"].id, [register])
        length = self.kernel(node, BY_NAME["py.len"].id, [whole])
        at = self.emit(node, codes.IF_TENSOR_GT, self.const(node, star + after), length, 0)
        before = self.assigned
        shown = self.kernel(node, BY_NAME["py.format"].id, [length, self.const(node, ""), self.const(node, "")])
        text = self.const(node, f"not enough values to unpack (expected at least {star + after}, got ")
        parts = self.value(node, codes.BUILD, -1, 0, 3, text, shown, self.const(node, ")"))
        message = self.kernel(node, BY_NAME["py.text"].id, [parts])
        error = self.kernel(node, BY_NAME["py.raise"].id, [self.const(node, "ValueError"), message])
        self.emit(node, codes.RETURN, error)
        self.patch(at)
        self.assigned = before
        for place, item in enumerate(items):
            if place == star:
                none = self.const(node, None)
                stop = self.const(node, -after) if after else none
                index = self.value(node, codes.BUILD, -1, BUILD_KINDS.index("slice"), 3, self.const(node, star), stop, none)
                middle = self.value(node, codes.VIEW_TENSOR, -1, whole, index)
                self.store(item.value, self.kernel(node, BY_NAME["py.list"].id, [middle]), node)  # type: ignore[attr-defined]
                continue
            index = self.const(node, place if place < star else place - len(items))
            self.store(item, self.value(node, codes.VIEW_TENSOR, -1, whole, index), node)

    def _augmented(self, node: ast.AugAssign) -> None:
        target, kernel = node.target, _INPLACE[node.op.__class__]
        if target.__class__ is ast.Name:
            register = self.local(target)
            self.read_local(self.frame, register)
            value = self.expr(node.value)
            self.value(node, codes.INPLACE_TENSOR, register, register, value, kernel)
            return
        if isinstance(target, ast.Attribute) and self.static(target.value) is not MISSING:
            self.refuse("attribute-store", target)
        base = self.expr(target.value)  # type: ignore[union-attr]
        if isinstance(target, ast.Attribute):
            item = self.value(target, codes.LOAD_ATTR, -1, base, self.const_index(self.mangled(target.attr)))
            value = self.expr(node.value)
            self.value(node, codes.INPLACE_TENSOR, item, item, value, kernel)
            self._set_attribute(target, base, item)
            return
        index = self.index(target.slice)  # type: ignore[union-attr]
        item = self.value(target, codes.VIEW_TENSOR, -1, base, index)
        value = self.expr(node.value)
        self.value(node, codes.INPLACE_TENSOR, item, item, value, kernel)
        self.emit(node, codes.STORE_TENSOR, base, index, item)

    def _delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if not isinstance(target, ast.Name):
                self.refuse("delete", target)
            register = self.local(target)
            self.read_local(self.frame, register)
            self.value(target, codes.MOVE, -1, register)  # deleting reads: it may raise UnboundLocalError
            self.value(target, codes.LOAD_CONST, register, self.const_index(UNBOUND))
            self.deleted.add(register)

    # --- branches

    def _if(self, node: ast.If) -> None:
        self.branch(node.test, lambda: self.statements(node.body),
                    (lambda: self.statements(node.orelse)) if node.orelse else None)

    def branch(self, test: ast.expr, then: Callable[[], None], orelse: Callable[[], None] | None) -> None:
        """Compile an if; a literal test takes its side."""
        known = self.known(test)
        if known is not MISSING:
            if known:
                then()
            elif orelse is not None:
                orelse()
            return
        at = self.test(test)
        before = self.assigned
        then()
        after_then, self.assigned = self.assigned, before
        if orelse is None or after_then == DEAD:
            self.patch(at)
            if orelse is not None:
                orelse()
            self.assigned &= after_then
            return
        jump = self.emit(test, codes.JUMP, 0)
        self.patch(at)
        orelse()
        if len(self.code) == jump + 1:  # nothing to skip
            self.code.pop()
            self.patch(at)
        else:
            self.patch(jump)
        self.assigned &= after_then

    # --- loops

    def _while(self, node: ast.While) -> None:
        known = fold(node.test)
        if known is not MISSING and not known:
            return
        loop = Loop()
        loop.is_endless = known is not MISSING
        head = self.emit(node, codes.LOOP_WHILE, 0)
        tests: list[int] = []
        masks: list[int] = []
        if known is MISSING:
            self._loop_tests(node.test, tests, masks)
        self._loop_body(head, loop, lambda: self.statements(node.body), node)
        for at in tests:
            self.patch(at)
        self.assigned = DEAD
        for mask in (*masks, *loop.exits):
            self.assigned &= mask
        self._after_loop(node, loop)

    def _loop_tests(self, test: ast.expr, tests: list[int], masks: list[int]) -> None:
        """The exits at the top of a while loop: one for each part of an `and`."""
        if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
            for part in test.values:
                self._loop_tests(part, tests, masks)
            return
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.NotEq):
            a = self.expr(test.left)
            b = self.expr(test.comparators[0])
            tests.append(self.emit(test, codes.LOOP_UNTIL_TENSOR_EQ, a, b, 0))
        else:
            tests.append(self.emit(test, codes.LOOP_TEST, self.expr(test), 0))
        masks.append(self.assigned)

    def _loop_body(self, head: int, loop: Loop, body: Callable[[], None], node: ast.AST) -> None:
        """A loop's body, its LOOP_NEXT, and the patches that need both."""
        self.frame.loops.append(loop)
        body()
        self.frame.loops.pop()
        for at in loop.continues:
            self.patch(at)
        self.close_loop(node, head, loop)

    def _after_loop(self, node: ast.AST, loop: Loop) -> None:
        """Go on leaving when a return left this loop through its flag."""
        if not loop.flagged or self.is_dead:
            return
        block, outer = self.frame.returns, self.frame.loops[-1]
        assert block is not None
        if outer is not block.loop:
            outer.flagged = True
        if len(loop.exits) == loop.flagged_exits and loop.is_endless:
            self.leave(node, outer)
            return
        at = self.emit(node, codes.IF_TRUE, block.flag, 0)
        before = self.assigned
        self.leave(node, outer)
        self.patch(at)
        self.assigned = before

    def _for(self, node: ast.For) -> None:
        rebound = assigned_in([node])
        self.for_loop(node.iter, node.target, lambda: self.statements(node.body), node, None, rebound)

    def for_loop(self, iterable: ast.expr, target: ast.expr, body: Callable[[], None], node: ast.AST,
                 own_scope: dict[str, int] | None = None, rebound: Mapping[str, int] | None = None) -> None:
        """Compile `for target in iterable`. own_scope: where shadowed registers are kept (comprehensions)."""
        if isinstance(target, ast.Tuple) and self._is_ndindex(iterable, target) and not _breaks(node):
            self._ndindex_loops(iterable, target, body, node, own_scope)  # type: ignore[arg-type]
            return
        head_op, operands = self._iteration(iterable, rebound or {})
        if own_scope is not None:
            self._shadow(target, own_scope)
        variable = self.local(target) if isinstance(target, ast.Name) else self.new_register()

        def inside() -> None:
            if not isinstance(target, ast.Name):
                self.store(target, variable, target)
            body()

        self._loop_over(head_op, operands, variable, inside, node)

    def _loop_over(self, head_op: int, operands: list[int], variable: int, body: Callable[[], None], node: ast.AST) -> None:
        """A loop whose head assigns a register."""
        before = self.assigned
        head = self.emit(node, head_op, variable, *operands, 0)
        self.assigned |= 1 << variable
        loop = Loop()
        self._loop_body(head, loop, body, node)
        self.assigned = before
        self._after_loop(node, loop)

    def _is_ndindex(self, iterable: ast.expr, target: ast.Tuple) -> bool:
        """`np.ndindex(...)` whose number of extents is that of the names they go to."""
        if not isinstance(iterable, ast.Call) or iterable.keywords or self.static(iterable.func) is not np.ndindex:
            return False
        args, names = iterable.args, len(target.elts)
        starred = any(isinstance(a, ast.Starred) for a in args) or any(isinstance(e, ast.Starred) for e in target.elts)
        if len(args) == 1 and names > 1:  # a shape
            return not isinstance(args[0], ast.Starred) or isinstance(args[0].value, ast.Attribute)
        return len(args) == names > 1 and not starred

    def _ndindex_loops(self, iterable: ast.Call, target: ast.Tuple, body: Callable[[], None], node: ast.AST,
                       own_scope: dict[str, int] | None) -> None:
        """Nested loops over the extents; the names get their values where the body begins."""
        count = len(target.elts)
        if len(iterable.args) == count:
            extents = [self.value(a, codes.MOVE, -1, self.expr(a)) for a in iterable.args]
            for extent in extents:
                at = self.emit(iterable, codes.IF_TENSOR_GT, self.const(iterable, 0), extent, 0)
                before = self.assigned
                text = self.const(iterable, "negative dimensions are not allowed")
                error = self.kernel(iterable, BY_NAME["py.raise"].id, [self.const(iterable, "ValueError"), text])
                self.emit(iterable, codes.RETURN, error)
                self.patch(at)
                self.assigned = before
        else:
            shape = iterable.args[0].value if isinstance(iterable.args[0], ast.Starred) else iterable.args[0]
            extents = [self.new_register() for _ in range(count)]
            self.emit(iterable, codes.UNPACK, self.expr(shape), count, *extents)
            for register in extents:
                self.assigned |= 1 << register
        if own_scope is not None:
            self._shadow(target, own_scope)
        operands = [[self.const(iterable, 0), extent, self.const(iterable, 1)] for extent in extents]
        indices: list[int] = []

        def level() -> None:
            if len(indices) == count:
                for item, index in zip(target.elts, indices, strict=True):
                    self.store(item, index, target)
                body()
                return
            indices.append(self.new_register())
            self._loop_over(codes.LOOP_RANGE, operands[len(indices) - 1], indices[-1], level, node)

        level()

    def _iteration(self, iterable: ast.expr, rebound: Mapping[str, int]) -> tuple[int, list[int]]:
        """(opcode, operands between variable and exit) of a for loop's head; what the body rebinds is copied."""
        if isinstance(iterable, ast.Call):
            called = self.static(iterable.func)
            if called is range:
                return codes.LOOP_RANGE, self._steady(iterable.args, self.range_parts(iterable), rebound)
            if called is reversed and len(iterable.args) == 1 and isinstance(iterable.args[0], ast.Call) \
                    and len(iterable.args[0].args) == 1 and not iterable.args[0].keywords \
                    and self.static(iterable.args[0].func) is range:
                return codes.LOOP_RANGE, self._reversed_range(iterable.args[0])
        if isinstance(iterable, ast.GeneratorExp):
            self.refuse("generator", iterable)
        return codes.LOOP_EACH, self._steady([iterable], [self.expr(iterable)], rebound)

    def _reversed_range(self, node: ast.Call) -> list[int]:
        """start, stop, step of `reversed(range(n))`."""
        stop = self.expr(node.args[0])
        start = self.value(node, codes.BINARY_SUB_TENSOR, -1, stop, self.const(node, 1))
        return [start, self.const(node, -1), self.const(node, -1)]

    def _steady(self, nodes: Sequence[ast.expr], registers: list[int], rebound: Mapping[str, int]) -> list[int]:
        changing = {self.frame.registers.get(n.id, -1) for n in nodes if isinstance(n, ast.Name) and n.id in rebound}
        return [self.value(nodes[0], codes.MOVE, -1, r) if r in changing else r for r in registers]

    def _shadow(self, target: ast.expr, saved: dict[str, int]) -> None:
        """Give the names of a comprehension's target registers of their own."""
        for name in assigned_in([ast.Assign([target], ast.Constant(None))]):
            if name not in saved:
                saved[name] = self.frame.registers.get(name, -1)
            self.frame.registers[name] = self.new_register()

    def _break(self, node: ast.Break) -> None:
        self.leave(node, self.frame.loops[-1])

    def _continue(self, node: ast.Continue) -> None:
        self.frame.loops[-1].continues.append(self.emit(node, codes.CONTINUE, 0))
        self.assigned = DEAD

    # --- leaving

    def _return(self, node: ast.Return) -> None:
        block = self.frame.returns
        value = node.value
        if isinstance(value, (ast.Constant, ast.JoinedStr)) and isinstance(getattr(value, "value", ""), str):
            self.refuse("string", value)
        if block is None:
            register = self.const(node, None) if value is None else self.expr(value)
            if not self.is_dead:
                self.emit(node, codes.RETURN, register)
            self.assigned = DEAD
            return
        if value is None:
            self.const(node, None, block.result)
        else:
            self.expr(value, block.result)
        if self.is_dead:
            return
        innermost = self.frame.loops[-1]
        if innermost is not block.loop:
            if block.flag < 0:
                block.flag = self.new_register()
                self.insert(self.frame.entry, 0x8000, node, self.frame, codes.LOAD_CONST, block.flag,
                            self.const_index(False))
                # no analysis sees that the flag is set only where the result is
                self.insert(self.frame.entry, 0x8001, node, self.frame, codes.LOAD_CONST, block.result,
                            self.const_index(UNBOUND))
            self.const(node, True, block.flag)
            innermost.flagged = True
            innermost.flagged_exits += 1
        self.leave(node, innermost)

    def _raise(self, node: ast.Raise) -> None:
        error = node.exc
        if error is None or (node.cause is not None and not (
                isinstance(node.cause, ast.Constant) and node.cause.value is None)):
            self.refuse("raise", node)
        arguments: list[ast.expr] = []
        if isinstance(error, ast.Call):
            if error.keywords or len(error.args) > 1:
                self.refuse("raise", node)
            arguments, error = error.args, error.func
        kind = self.static(error)
        name = getattr(kind, "__name__", "")
        if not (isinstance(kind, type) and issubclass(kind, Exception) and getattr(builtins, name, None) is kind):
            self.refuse("raise", node)
        operands = [self.const(node, name)]
        if arguments:
            operands.append(self.text(arguments[0]))
        register = self.kernel(node, BY_NAME["py.raise"].id, operands)
        self.emit(node, codes.RETURN, register)  # never reached: the kernel raises
        self.assigned = DEAD

    def text(self, node: ast.expr) -> int:
        """A message or key: a constant, or an f-string over values, also as `"...".format(...)` or a sum of texts."""
        node = as_f_string(node, lambda called: self.static(called) is str) or node
        if not isinstance(node, ast.JoinedStr):
            return self.expr(node)
        start = len(self.code)
        parts = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(self.expr(part))
                continue
            spec = self.text(part.format_spec) if part.format_spec is not None else self.const(part, "")
            conversion = self.const(part, chr(part.conversion) if part.conversion > 0 else "")
            parts.append(self.kernel(part, BY_NAME["py.format"].id, [self.expr(part.value), spec, conversion]))
        packed = self.value(node, codes.BUILD, -1, 0, len(parts), *parts)
        for at in range(start, len(self.code)):  # Python 3.11 has no columns inside f-strings
            op, args, _, frame, dtype, symbol = self.code[at]
            self.code[at] = (op, args, node, frame, dtype, symbol)
        return self.kernel(node, BY_NAME["py.text"].id, [packed])

    def _assert(self, node: ast.Assert) -> None:
        if node.msg is None or isinstance(node.msg, ast.Constant):
            known = self.known(node.test)
            if known is MISSING or not known:
                operands = [self.expr(node.test)]
                if node.msg is not None:
                    operands.append(self.expr(node.msg))
                self.kernel(node, BY_NAME["py.assert"].id, operands)
            return

        def fail() -> None:
            operands = [self.const(node, "AssertionError")]
            if node.msg is not None:
                operands.append(self.text(node.msg))
            register = self.kernel(node, BY_NAME["py.raise"].id, operands)
            self.emit(node, codes.RETURN, register)
            self.assigned = DEAD

        failed = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
        self.branch(failed, fail, None)

    # --- the rest

    def _expression(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.expr(node.value)

    def _nothing(self, node: ast.stmt) -> None:
        return

    def _define(self, node: ast.FunctionDef) -> None:
        for decorator in node.decorator_list:
            called = decorator.func if isinstance(decorator, ast.Call) else decorator
            found = self.static(called)
            if not (getattr(found, "__module__", "") or "").startswith(__name__.partition(".vm.")[0] + "."):
                self.refuse("decorator", decorator)
        if self.frame.names.counts.get(node.name) != 1:
            self.refuse("function-value", node, f"'{node.name}' is defined and assigned in several places")
        self.frame.statics[node.name] = Closure(node, self.frame)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        module: Any
        for alias in node.names:
            bound = alias.asname or alias.name.partition(".")[0]
            if isinstance(node, ast.ImportFrom):
                module = sys.modules.get(node.module or "") if not node.level else None
                found = getattr(module, alias.name, MISSING) if module is not None else MISSING
                if not is_static(found):
                    found = MISSING
            else:
                full = alias.name if alias.asname else alias.name.partition(".")[0]
                found = sys.modules.get(full, MISSING) if alias.name in sys.modules else MISSING
            if found is MISSING or self.frame.names.counts.get(bound) != 1:
                self.refuse("import", node)
            self.frame.statics[bound] = found

    def _global(self, node: ast.Global) -> None:
        if any(name in self.frame.names.counts for name in node.names):
            self.refuse("global", node)

    def _with(self, node: ast.With) -> None:
        """np.errstate(...="ignore") is silent in compiled code anyway; no other context is entered."""
        for item in node.items:
            call = item.context_expr
            if not (isinstance(call, ast.Call) and self.static(call.func) is np.errstate and not call.args
                    and item.optional_vars is None
                    and all(isinstance(k.value, ast.Constant) and k.value.value in ("ignore", "warn")
                            for k in call.keywords)):
                self.refuse("with", item.context_expr)
        self.statements(node.body)

    STATEMENTS: ClassVar[dict[type, Callable[[Any, Any], None]]] = {
        ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Expr: _expression,
        ast.If: _if, ast.While: _while, ast.For: _for, ast.Break: _break, ast.Continue: _continue,
        ast.Return: _return, ast.Raise: _raise, ast.Assert: _assert, ast.Pass: _nothing, ast.Delete: _delete,
        ast.FunctionDef: _define, ast.Import: _import, ast.ImportFrom: _import, ast.Global: _global, ast.With: _with,
    }

