"""Expressions -> registers: operators, subscripts, displays, comprehensions (names are in `names.py`).

Every handler takes (node, dst) and returns the register of the value; with dst >= 0 that is dst. An instruction writes
dst last, after all operands are read, so that dst may be a local that the expression reads; handlers that write it on
several paths evaluate into a fresh register first.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, ClassVar

from ....templates.registry import BY_NAME, MATMUL
from ...bindings import called_key
from ..opcodes import BUILD_KINDS, COMPARE_OPS
from . import codes
from .names import MISSING, NUMPY_INDEXERS, Names, fold
from .texts import as_f_string

_TUPLE, _LIST, _SLICE, _DICT = (BUILD_KINDS.index(k) for k in ("tuple", "list", "slice", "dict"))

_BINARY_OPCODES: dict[type, int] = {
    ast.Add: codes.BINARY_ADD_TENSOR, ast.Sub: codes.BINARY_SUB_TENSOR, ast.Mult: codes.BINARY_MUL_TENSOR,
    ast.Div: codes.BINARY_DIV_TENSOR,
}
_BINARY_KERNELS: dict[type, int] = {
    ast.FloorDiv: BY_NAME["op.floordiv"].id, ast.Mod: BY_NAME["op.mod"].id, ast.Pow: BY_NAME["op.pow"].id,
    ast.LShift: BY_NAME["op.lshift"].id, ast.RShift: BY_NAME["op.rshift"].id, ast.BitAnd: BY_NAME["op.and"].id,
    ast.BitOr: BY_NAME["op.or"].id, ast.BitXor: BY_NAME["op.xor"].id, ast.MatMult: MATMUL,
}
_COMPARISONS: dict[type, int] = {
    cls: COMPARE_OPS.index(text) for cls, text in (
        (ast.Eq, "=="), (ast.NotEq, "!="), (ast.Lt, "<"), (ast.LtE, "<="), (ast.Gt, ">"), (ast.GtE, ">="),
        (ast.Is, "is"), (ast.IsNot, "is not"), (ast.In, "in"), (ast.NotIn, "not in"))
}
_NOT, _POS = BY_NAME["op.not"].id, BY_NAME["op.pos"].id



class Expressions(Names):
    """Compiles expressions; calls come from the next layer."""

    def call(self, node: ast.Call, dst: int) -> int:
        """Compile a call."""
        raise NotImplementedError

    def expr(self, node: ast.expr, dst: int = -1) -> int:
        """The register of an expression's value; dst when that is given."""
        handler = self.EXPRESSIONS.get(node.__class__)
        if handler is None:
            self.refuse("f-string", node)
        return handler(self, node, dst)

    # --- constants and operators

    def _constant(self, node: ast.Constant, dst: int) -> int:
        if node.value.__class__ is bytes:
            self.refuse("bytes", node)
        return self.const(node, node.value, dst)

    def _binary(self, node: ast.BinOp, dst: int) -> int:
        left, right, cls = node.left, node.right, node.op.__class__
        if left.__class__ is ast.Constant or right.__class__ is ast.Constant:
            folded = fold(node)
            if folded is not MISSING:
                return self.const(node, folded, dst)
            self._refuse_text(left)
            self._refuse_text(right)
        a = self.expr(left)
        b = self.expr(right)
        opcode = _BINARY_OPCODES.get(cls)
        if opcode is not None:
            return self.value(node, opcode, dst, a, b)
        return self.kernel(node, _BINARY_KERNELS[cls], [a, b], dst)

    def _refuse_text(self, node: ast.expr) -> None:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            self.refuse("string", node)

    def _unary(self, node: ast.UnaryOp, dst: int) -> int:
        folded = fold(node)
        if folded is not MISSING:
            return self.const(node, folded, dst)
        a = self.expr(node.operand)
        cls = node.op.__class__
        if cls is ast.USub:
            return self.value(node, codes.UNARY_NEG_TENSOR, dst, a)
        if cls is ast.Invert:
            return self.value(node, codes.UNARY_NOT_TENSOR, dst, a)
        return self.kernel(node, _NOT if cls is ast.Not else _POS, [a], dst)

    def _compare(self, node: ast.Compare, dst: int) -> int:
        if len(node.ops) == 1:
            register = self._compare_member(node, dst)
            if register >= 0:
                return register
        a = self.expr(node.left)
        if len(node.ops) == 1:
            b = self.expr(node.comparators[0])
            return self.value(node, codes.COMPARE_TENSOR, dst, a, b, _COMPARISONS[node.ops[0].__class__])
        result = self.new_register()  # a < b < c is `a < b and b < c` with b evaluated once
        exits = []
        masks = []
        for at, (op, right) in enumerate(zip(node.ops, node.comparators, strict=True)):
            b = self.expr(right)
            self.value(node, codes.COMPARE_TENSOR, result, a, b, _COMPARISONS[op.__class__])
            a = b
            if at < len(node.ops) - 1:
                exits.append(self.emit(node, codes.IF_TRUE, result, 0))
                masks.append(self.assigned)
        for at in reversed(exits):
            self.patch(at)
        for mask in masks:
            self.assigned &= mask
        return result if dst < 0 else self.move(node, dst, result)

    def _compare_member(self, node: ast.Compare, dst: int) -> int:
        """`x is Kind.NAME`, and `==` where the class has no equality of its own: a test of x's class, then of its name."""
        op, sides = node.ops[0].__class__, (node.left, node.comparators[0])
        if op not in (ast.Is, ast.IsNot, ast.Eq, ast.NotEq):
            return -1
        at = next((i for i in (1, 0) if sides[i].__class__ is ast.Attribute and self.enum_member(sides[i]) is not MISSING), -1)
        if at < 0:
            return -1
        member = self.enum_member(sides[at])
        if op in (ast.Eq, ast.NotEq) and type(member).__eq__ is not object.__eq__:
            return -1
        other, result = self.expr(sides[1 - at]), self.new_register()
        none = self.const(node, None)
        test = self.kernel(node, BY_NAME["py.calls"].id, [other, none, none, self.const(node, called_key(member))])
        branch, before = self.emit(node, codes.IF_TRUE, test, 0), self.assigned
        name = self.value(node, codes.LOAD_ATTR, -1, other, self.const_index("_name_"))
        self.value(node, codes.COMPARE_TENSOR, result, name, self.const(node, member.name), _COMPARISONS[ast.Eq])
        jump, after, self.assigned = self.emit(node, codes.JUMP, 0), self.assigned, before
        self.patch(branch)
        self.const(node, False, result)
        self.patch(jump)
        self.assigned &= after
        if op in (ast.IsNot, ast.NotEq):
            return self.kernel(node, _NOT, [result], dst)
        return result if dst < 0 else self.move(node, dst, result)

    def _bool(self, node: ast.BoolOp, dst: int) -> int:
        """`a and b`: the value of a where it decides, else that of b."""
        result = self.new_register()
        is_and = node.op.__class__ is ast.And
        tests = []
        masks = []
        last = len(node.values) - 1
        for at, item in enumerate(node.values):
            self.expr(item, result)
            if at == last:
                break
            test = result if is_and else self.kernel(node, _NOT, [result])
            tests.append(self.emit(node, codes.IF_TRUE, test, 0))
            masks.append(self.assigned)
        for at in reversed(tests):
            self.patch(at)
        for mask in masks:
            self.assigned &= mask
        return result if dst < 0 else self.move(node, dst, result)

    def test(self, node: ast.expr) -> int:
        """Emit the branch of an `if`; the index of its instruction, to be patched with the else target."""
        if node.__class__ is ast.Compare and len(node.ops) == 1 \
                and node.ops[0].__class__ is ast.Gt:
            a = self.expr(node.left)
            b = self.expr(node.comparators[0])
            return self.emit(node, codes.IF_TENSOR_GT, a, b, 0)
        return self.emit(node, codes.IF_TRUE, self.expr(node), 0)

    def _conditional(self, node: ast.IfExp, dst: int) -> int:
        known = self.known(node.test)
        if known is not MISSING:
            return self.expr(node.body if known else node.orelse, dst)
        result = self.new_register()
        branch = self.test(node.test)
        before = self.assigned
        self.expr(node.body, result)
        after_then, self.assigned = self.assigned, before
        jump = self.emit(node, codes.JUMP, 0)
        self.patch(branch)
        self.expr(node.orelse, result)
        self.patch(jump)
        self.assigned &= after_then
        return result if dst < 0 else self.move(node, dst, result)

    def _walrus(self, node: ast.NamedExpr, dst: int) -> int:
        if not self.copy_loads:
            raise NeedsCopies
        name = node.target.id
        register = self.frame.registers.get(name, -1)
        if register < 0:
            register = self.frame.registers[name] = self.new_register()
        self.expr(node.value, register)
        return self.value(node, codes.MOVE, dst, register)

    # --- subscripts

    def _subscript(self, node: ast.Subscript, dst: int) -> int:
        base = node.value
        if base.__class__ is ast.Attribute and base.attr == "shape":
            axis = fold(node.slice)
            if axis.__class__ is int and -0x8000 <= axis < 0x8000 \
                    and self.static(base.value) is MISSING:
                return self._shape_ref(node, base.value, axis, dst)
        if base.__class__ is ast.Attribute:
            root = self.static(base.value)
            if root is not MISSING and isinstance(root, ModuleType):
                value = getattr(root, base.attr, None)
                for name, indexer in zip(("np.mgrid", "np.ogrid", "np.r_", "np.c_"), NUMPY_INDEXERS, strict=True):
                    if value is indexer:
                        return self.kernel(node, BY_NAME[name].id, [self.index(node.slice)], dst)
        source = self.expr(base)
        return self.value(node, codes.VIEW_TENSOR, dst, source, self.index(node.slice))

    def _shape_ref(self, node: ast.Subscript, array: ast.expr, axis: int, dst: int) -> int:
        source = self.expr(array)
        register = self.value(node, codes.TENSOR_SHAPE_REF, dst, source, axis)
        name = self.param_symbols.get(source)
        if name is not None and axis >= 0:
            self.hint(symbol=f"{name}.shape[{axis}]")
        return register

    def index(self, node: ast.expr) -> int:
        """The register of a subscript's index: slices, tuples of them, or any value."""
        cls = node.__class__
        if cls is ast.Slice:
            parts = [self.const(node, None) if part is None else self.expr(part)
                     for part in (node.lower, node.upper, node.step)]  # type: ignore[attr-defined]
            return self.value(node, codes.BUILD, -1, _SLICE, 3, *parts)
        if cls is ast.Tuple:
            folded = fold(node)
            if folded is not MISSING:
                return self.const(node, folded)
            if not any(item.__class__ is ast.Starred for item in node.elts):  # type: ignore[attr-defined]
                items = [self.index(item) for item in node.elts]  # type: ignore[attr-defined]
                return self.value(node, codes.BUILD, -1, _TUPLE, len(items), *items)
        if cls is ast.Constant and node.value.__class__ is str:  # type: ignore[attr-defined]
            return self.const(node, node.value)  # type: ignore[attr-defined]
        if cls in (ast.JoinedStr, ast.BinOp, ast.Call):
            key = as_f_string(node, lambda called: self.static(called) is str)
            if key is not None:
                return self.text(key)
        return self.expr(node)

    def text(self, node: ast.expr) -> int:
        """The register of a constant text or an f-string."""
        raise NotImplementedError

    # --- displays

    def _tuple(self, node: ast.Tuple, dst: int) -> int:
        folded = fold(node)
        if folded is not MISSING:
            return self.const(node, folded, dst)
        return self._display(node, node.elts, _TUPLE, dst)

    def _list(self, node: ast.List, dst: int) -> int:
        return self._display(node, node.elts, _LIST, dst)

    def _display(self, node: ast.expr, elements: list[ast.expr], kind: int, dst: int) -> int:
        if any(item.__class__ is ast.Starred for item in elements):
            return self._starred_display(node, elements, kind, dst)
        items = [self.expr(item) for item in elements]
        register = self.value(node, codes.BUILD, dst, kind, len(items), *items)
        if dst < 0 and kind == _TUPLE:
            self.tuples.add(register)
        return register

    def _starred_display(self, node: ast.expr, elements: list[ast.expr], kind: int, dst: int) -> int:
        """`(*a, b)`: the sum of tuples."""
        maker = BY_NAME["py.tuple" if kind == _TUPLE else "py.list"].id
        total = -1
        run: list[int] = []

        def flush() -> None:
            nonlocal total, run
            if run:
                piece = self.value(node, codes.BUILD, -1, kind, len(run), *run)
                total = piece if total < 0 else self.value(node, codes.BINARY_ADD_TENSOR, -1, total, piece)
                run = []

        for item in elements:
            if isinstance(item, ast.Starred):
                flush()
                piece = self.kernel(item, maker, [self.expr(item.value)])
                total = piece if total < 0 else self.value(node, codes.BINARY_ADD_TENSOR, -1, total, piece)
            else:
                run.append(self.expr(item))
        flush()
        return total if dst < 0 else self.move(node, dst, total)

    def _dict(self, node: ast.Dict, dst: int) -> int:
        items: list[int] = []
        if None in node.keys:
            return self._unpacked_dict(node, list(zip(node.keys, node.values, strict=True)), dst)
        for key, item in zip(node.keys, node.values, strict=True):
            items.append(self.index(key))  # type: ignore[arg-type]
            items.append(self.expr(item))
        return self.value(node, codes.BUILD, dst, _DICT, len(items), *items)

    def _unpacked_dict(self, node: ast.expr, pairs: list[tuple[ast.expr | None, ast.expr]], dst: int) -> int:
        """`{**a, "b": c}`: an empty dict that is filled in order."""
        result = self.value(node, codes.BUILD, -1, _DICT, 0)
        for key, item in pairs:
            if key is None:
                self.kernel(node, BY_NAME["py.dict_update"].id, [result, self.expr(item)])
            else:
                at = self.index(key)
                self.emit(node, codes.STORE_TENSOR, result, at, self.expr(item))
        return result if dst < 0 else self.move(node, dst, result)

    def _f_string(self, node: ast.JoinedStr, dst: int) -> int:
        self.refuse("f-string", node)

    def _lambda(self, node: ast.Lambda, dst: int) -> int:
        self.refuse("function-value", node, "a lambda cannot be a value at run time")

    def _starred(self, node: ast.Starred, dst: int) -> int:
        self.refuse("star-args", node)

    def _yield(self, node: ast.expr, dst: int) -> int:
        self.refuse("yield", node)

    def _await(self, node: ast.expr, dst: int) -> int:
        self.refuse("async", node)

    def _set(self, node: ast.expr, dst: int) -> int:
        self.refuse("set", node)

    def _generator(self, node: ast.expr, dst: int) -> int:
        self.refuse("generator", node)

    # --- comprehensions: loops that append

    def _list_comp(self, node: ast.ListComp | ast.GeneratorExp, dst: int) -> int:
        result = self.value(node, codes.BUILD, -1, _LIST, 0)

        def append() -> None:
            item = self.expr(node.elt)
            self.kernel(node, BY_NAME["py.list_append"].id, [result, item])

        self._comprehension(node, list(node.generators), append)
        return result if dst < 0 else self.move(node, dst, result)

    def _dict_comp(self, node: ast.DictComp, dst: int) -> int:
        result = self.value(node, codes.BUILD, -1, _DICT, 0)

        def store() -> None:
            key = self.expr(node.key)
            item = self.expr(node.value)
            self.emit(node, codes.STORE_TENSOR, result, key, item)

        self._comprehension(node, list(node.generators), store)
        return result if dst < 0 else self.move(node, dst, result)

    def _comprehension(self, node: ast.expr, generators: list[ast.comprehension], body: Callable[[], None]) -> None:
        """Nested loops over the generators; their variables live in a scope of their own."""
        frame = self.frame
        saved: dict[str, int] = {}

        def level(at: int) -> None:
            if at == len(generators):
                body()
                return
            generator = generators[at]
            if generator.is_async:
                self.refuse("async", node)

            def inside() -> None:
                conditions(generator.ifs, at)

            self.for_loop(generator.iter, generator.target, inside, node, own_scope=saved)

        def conditions(tests: list[ast.expr], at: int) -> None:
            if not tests:
                level(at + 1)
                return
            branch = self.test(tests[0])
            before = self.assigned
            conditions(tests[1:], at)
            self.patch(branch)
            self.assigned &= before

        level(0)
        for name, register in saved.items():
            if register < 0:
                frame.registers.pop(name, None)
            else:
                frame.registers[name] = register

    def for_loop(self, iterable: ast.expr, target: ast.expr, body: Callable[[], None], node: ast.AST,
                 own_scope: dict[str, int] | None = None, rebound: Mapping[str, int] | None = None) -> None:
        """Compile `for target in iterable`."""
        raise NotImplementedError

    EXPRESSIONS: ClassVar[dict[type, Callable[[Any, Any, int], int]]] = {
        ast.Name: Names._name, ast.Constant: _constant, ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _compare,
        ast.BoolOp: _bool, ast.IfExp: _conditional, ast.Attribute: Names._attribute, ast.Subscript: _subscript,
        ast.Call: lambda self, node, dst: self.call(node, dst), ast.Tuple: _tuple, ast.List: _list, ast.Dict: _dict,
        ast.ListComp: _list_comp, ast.DictComp: _dict_comp, ast.NamedExpr: _walrus, ast.JoinedStr: _f_string,
        ast.Lambda: _lambda, ast.Starred: _starred, ast.Set: _set, ast.SetComp: _set, ast.GeneratorExp: _generator,
        ast.Yield: _yield, ast.YieldFrom: _yield, ast.Await: _await,
        ast.Slice: lambda self, node, dst: self.index(node),
    }


class NeedsCopies(Exception):
    """A `:=` was met: the program is compiled again with operands copied, because it may rebind one of them."""
