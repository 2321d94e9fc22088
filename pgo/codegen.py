"""Code + bucket -> C: a `bind` and a `run` function a kernel, with the calling convention of pb_abi.h.

What the bucket fixes becomes a literal, so that the C compiler folds the integer program; ranged symbols stay run-time
extents with known bounds. `bind` writes what the dispatcher and `run` read back into the frame. Nests become functions
of their own (codegen_nest.py), shared by all kernels of a module.

A bucket says: symbol -> (lo, hi), inclusive. Symbols that a Code does not use are of no interest here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..templates.scalars import GUARDED
from ..vm.errors import InternalError, PlanError
from ..vm.plan.code import (
    ARENA,
    Alloc,
    Break,
    Call,
    Cast,
    Code,
    Continue,
    ContractCode,
    Exit,
    For,
    Guard,
    If,
    Instr,
    Int,
    Load,
    Move,
    NestCode,
    Ref,
    Reg,
    ResultSpec,
    Scalar,
    Store,
    Trap,
    While,
)
from .c_text import C_TYPES, cast, literal, load, store
from .codegen_nest import NestFunction, print_nest, split_nest
from .known import Known, assigned, entry_known

_MEMBER = {"i64": "i", "i32": "i", "bool": "i", "f32": "f", "f64": "d", "ptr": "p"}
_INFIX = {"add": "+", "sub": "-", "mul": "*", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "and": "&&", "or": "||"}

Bounds = Mapping[str, tuple[int, int]]


@dataclass(frozen=True)
class Kernel:
    """One kernel of a module: its C name stem (see `kernel_name`), the code, and the bucket's bounds by symbol."""

    name: str
    code: Code
    bounds: Bounds


@dataclass
class Module:
    """The C text of a bundle under construction: nest functions shared by kernels, then the kernels."""

    nests: dict[str, str] = field(default_factory=dict)  # function text without name -> name
    hot: set[str] = field(default_factory=set)  # names called inside loops: may be inlined
    kernels: list[tuple[str, str]] = field(default_factory=list)  # (name stem, text)
    has_products: bool = False
    has_copies: bool = False

    def add(self, kernel: Kernel) -> None:
        """Print a kernel. Raises PlanError when a fact of its plan is false everywhere in the bucket."""
        self.kernels.append((kernel.name, _KernelPrinter(self, kernel).run()))

    def nest(self, function: NestFunction, is_hot: bool) -> str:
        """Name of the module's function with this text."""
        self.has_copies |= function.is_copy
        params = ", ".join(f"{_declare(type_name, f'a{i}')}" for i, (*_, type_name) in enumerate(function.params))
        text = f"({params or 'void'}) {{\n{function.body}    return 0;\n}}\n"
        name = self.nests.get(text)
        if name is None:
            name = self.nests[text] = f"pb_nest_{function.label}_{_short_digest(text)}"
        if is_hot:
            self.hot.add(name)
        return name

    def text(self) -> str:
        """The C source: includes, nests, kernels, table."""
        bodies = [*self.nests, *(text for _, text in self.kernels)]
        parts = [*_uses(bodies), '#include "pb_abi.h"', '#include "pb_bundle.h"']
        if self.has_products:
            parts.append('#include "pb_bundle_product.h"')
        if self.has_copies:
            parts.append('#include "pb_copy.h"')
        for text, name in self.nests.items():
            attribute = "static inline" if name in self.hot else "static PB_APART"
            parts.append(f"{attribute} int {name}{text}")
        parts.extend(text for _, text in self.kernels)
        rows = "".join(f'    {{"{name}", {name}_bind, {name}_run}},\n' for name, _ in self.kernels)
        parts.append(f"static const pb_kernel pb_kernels[] = {{\n{rows or '    {0},'}}};\n")
        parts.append(_TABLE % (_PACKING if self.has_products else '"none", NULL, NULL', len(self.kernels)))
        return "\n".join(parts)


def _uses(bodies: list[str]) -> list[str]:
    """Definitions that ask pb_guarded.h for the operations which occur, and no others."""
    used = [name for name in GUARDED if any(f"pb_{name}_f" in body or f"pb_v_{name}_f" in body for body in bodies)]
    return ["#define PB_ONLY_USED", *(f"#define PB_USE_{name}" for name in used)]


# PB_LEVEL and PB_RECORDS are macros that the build defines: the CPU level, the digest of the manifest's functions.
_TABLE = """static const pb_kernel_table pb_bundle_table = {
    {PB_ABI_VERSION, PB_LEVEL, %s},
    %d,
    pb_kernels,
    PB_RECORDS,
};
static const void *const pb_bundle_address = &pb_bundle_table;
"""
_PACKING = "PB_PACK_LAYOUT, pb_bundle_pack_bytes, pb_bundle_pack"
PRODUCT_BODY = '#define PB_BUNDLE_PRODUCT_BODY\n#include "pb_bundle_product.h"\n'  # an object of its own


def kernel_name(qualname: str, plan: int, bucket: int) -> str:
    """C name stem of a kernel: `pb_models_risk__score_p0_b3`; letters that C does not allow become `_`."""
    return f"pb_{re.sub(r'[^0-9A-Za-z_]', '_', qualname.replace(':', '__'))}_p{plan}_b{bucket}"


def _short_digest(text: str) -> str:
    from _blake2 import blake2b

    return blake2b(text.encode(), digest_size=5).hexdigest()


def _declare(type_name: str, name: str) -> str:
    ctype = C_TYPES[type_name]
    return f"{ctype}{name}" if ctype.endswith("*") else f"{ctype} {name}"


def result_registers(spec: ResultSpec) -> Iterable[Reg]:
    """Registers that the dispatcher reads when the body has ended."""
    yield from (r for r in (spec.offset, spec.reg, *spec.shape, *spec.strides) if r >= 0)
    for item in spec.items:
        yield from result_registers(item)


class _KernelPrinter:
    def __init__(self, module: Module, kernel: Kernel) -> None:
        self.module, self.kernel, self.code = module, kernel, kernel.code
        self.types = kernel.code.types
        self.known: Known = entry_known(kernel.code, kernel.bounds)
        self.lines: list[str] = []
        self.depth = 1
        self.used: set[Reg] = set()  # locals of the function being printed
        self.loops = 0
        self.n_loops = 0
        self.bind_assigned = set(assigned(self.code.bind))
        self.body_assigned = set(assigned(self.code.body)) | set(self._allocated(self.code.body))
        # non-integer constants print as literals; a constant register that is assigned is a variable
        self.fixed = {r: literal(v, self.types[r]) for r, v in self.code.consts.items()
                      if r not in self.bind_assigned and r not in self.body_assigned and self.types[r] != "ptr"}

    def _allocated(self, body: Sequence[Instr]) -> Iterable[Reg]:
        for instr in body:
            if isinstance(instr, Alloc):
                yield self.code.outputs[instr.output].ptr
            elif isinstance(instr, (For, While)):
                yield from self._allocated(instr.body)
            elif isinstance(instr, If):
                yield from self._allocated(instr.then)
                yield from self._allocated(instr.orelse)

    def run(self) -> str:
        code, name = self.code, self.kernel.name
        bind_lines, bind_used = self._function(code.bind)
        body_lines, body_used = self._function(code.body)  # goes on with what bind has found out
        read_by_dispatcher = {code.arena_bytes, *result_registers(code.result)}
        for output in code.outputs:
            read_by_dispatcher.update(output.shape)
        written_back = sorted(r for r in self.bind_assigned if r in body_used or r in read_by_dispatcher)
        out = [f"/* {code.name} {bucket_text(self.kernel.bounds)} */",
               f"static int {name}_bind(const void *plan, pb_frame *frame) {{",
               "    pb_reg *const R = frame->r;", "    (void)plan;", "    (void)R;"]
        out += self._bucket_checks()
        out += [f"    {_declare(self.types[r], self.local(r))} = {self._initial(r, self.bind_assigned)};"
                for r in sorted(bind_used | set(written_back))]
        out += bind_lines
        out += [f"    {self._frame(r)} = {self.local(r)};" for r in written_back]
        out += ["    return 0;", "}", f"static int {name}_run(const void *plan, pb_frame *frame) {{",
                "    pb_reg *const R = frame->r;", "    (void)plan;", "    (void)R;"]
        entry = set(self.bind_assigned)
        for leaf in code.leaves:
            entry.update((leaf.ptr, leaf.scalar, *leaf.extents, *leaf.strides))
        results = sorted(r for r in set(result_registers(code.result)) & self.body_assigned)
        out += [f"    {_declare(self.types[r], self.local(r))} = {self._initial(r, self.body_assigned - entry)};"
                for r in sorted(body_used | set(results))]
        out += [*body_lines, "    goto done;", "done:"]
        out += [f"    {self._frame(r)} = {self.local(r)};" for r in results]
        out += ["    return 0;", "}", ""]
        return "\n".join(out)

    def _function(self, body: Sequence[Instr]) -> tuple[list[str], set[Reg]]:
        self.lines, self.used, self.guard = [], set(), 0
        self._instructions(body)
        return self.lines, self.used

    def _initial(self, reg: Reg, locals_: set[Reg]) -> str:
        """What a local starts with: a constant, zero (it is assigned before it is read), or the frame's value."""
        if reg in self.code.consts:
            return literal(self.code.consts[reg], self.types[reg]) if self.types[reg] != "ptr" else "0"
        if reg in locals_:
            return "0"
        member = self._frame(reg)
        return f"({C_TYPES[self.types[reg]]}){member}" if self.types[reg] in ("i32", "bool") else member

    def _frame(self, reg: Reg) -> str:
        return f"R[{reg}].{_MEMBER[self.types[reg]]}"

    def _bucket_checks(self) -> list[str]:
        """The dispatcher has looked at the bucket already; a literal must not rest on that alone."""
        lines = []
        outside = len(self.code.guards) + 1
        for symbol in sorted(self.kernel.bounds):
            reg = self.code.symbols.get(symbol)
            if reg is None or reg in self.code.consts:
                continue
            lo, hi = self.kernel.bounds[symbol]
            if lo == hi:
                lines.append(f"    if (R[{reg}].i != {lo}) return {outside}; /* {_comment(symbol)} */")
            else:
                upper = f" || R[{reg}].i > {literal(hi, 'i64')}" if hi < 2**62 else ""
                lines.append(f"    if (R[{reg}].i < {lo}{upper}) return {outside}; /* {_comment(symbol)} */")
        return lines

    # --- operands -----------------------------------------------------------------------------------------------------

    @staticmethod
    def local(reg: Reg) -> str:
        return f"r{reg}"

    def constant(self, reg: Reg) -> str | None:
        """The literal of a register that is one number here, or None."""
        fixed = self.fixed.get(reg)
        if fixed is not None:
            return fixed
        if self.types[reg] in ("i64", "i32", "bool"):
            value = self.known.constant(reg)
            if value is not None:
                return literal(value, "i64")
        return None

    def use(self, reg: Reg) -> str:
        """C text of a register's value."""
        fixed = self.constant(reg)
        if fixed is not None:
            return fixed
        self.used.add(reg)
        return self.local(reg)

    def set(self, reg: Reg, value: str) -> None:
        self.used.add(reg)
        self.line(f"{self.local(reg)} = {value};")

    def line(self, text: str) -> None:
        if text.startswith("}"):
            self.depth -= 1
        self.lines.append("    " * self.depth + text)
        if text.endswith("{"):
            self.depth += 1

    def address(self, base: Reg, offset: Reg) -> str:
        if offset < 0 or self.constant(offset) == "0":
            return self.use(base)
        return f"{self.use(base)} + {self.use(offset)}"

    # --- instructions -------------------------------------------------------------------------------------------------

    def _instructions(self, body: Sequence[Instr]) -> None:
        for instr in body:
            _PRINT[type(instr)](self, instr)

    def int_(self, instr: Int) -> None:
        self.known.assign(instr)
        known = self.known.constant(instr.dst)
        if known is not None:
            if instr.dst in self.bind_assigned or instr.dst in self.body_assigned:
                self.set(instr.dst, literal(known, "i64"))
            return
        a, b = self.use(instr.a), self.use(instr.b)
        if instr.op in _INFIX:
            text = f"{a} {_INFIX[instr.op]} {b}"
        elif instr.op == "select":
            text = f"{self.use(instr.c)} ? {a} : {b}"
        elif instr.op in ("min", "max"):
            text = f"{a} {'<' if instr.op == 'min' else '>'} {b} ? {a} : {b}"
        elif instr.op in ("floordiv", "mod"):
            divisor = self.known.constant(instr.b)
            if divisor is not None and divisor > 0 and self.known[instr.a].bounds()[0] >= 0:
                text = f"{a} {'/' if instr.op == 'floordiv' else '%'} {b}"
            else:
                text = f"pb_int_{instr.op}({a}, {b})"
        else:
            raise InternalError(f"unknown integer operation {instr.op!r}")
        self.set(instr.dst, text)

    def guard_(self, instr: Guard) -> None:
        self.guard += 1
        value = self.known.constant(instr.a)
        if value is None:
            self.line(f"if (!{self.use(instr.a)}) return {self.guard};")
        elif not value:
            text = self.code.guards[self.guard - 1] if self.guard <= len(self.code.guards) else "a fact"
            raise PlanError(f"bucket {bucket_text(self.kernel.bounds)} of '{self.code.name}': the plan relies on "
                            f"'{text}', which is false everywhere in it")

    def scalar(self, instr: Scalar) -> None:
        args = ", ".join(self.use(a) for a in instr.args)
        self.known.forget((instr.dst,))
        self.set(instr.dst, args if instr.op == "mov" else f"pb_{instr.op}_{instr.dtype}({args})")

    def cast_(self, instr: Cast) -> None:
        value = self.use(instr.src)
        self.known.forget((instr.dst,))
        self.set(instr.dst, cast(instr.frm, instr.to, value))

    def load_(self, instr: Load) -> None:
        where = self.address(instr.base, instr.offset)
        self.known.forget((instr.dst,))
        self.set(instr.dst, load(instr.memory, instr.dtype, f"pb_at_{instr.memory}({where})"))

    def store_(self, instr: Store) -> None:
        where = self.address(instr.base, instr.offset)
        self.line(f"pb_at_{instr.memory}({where}) = {store(instr.dtype, instr.memory, self.use(instr.src))};")

    def move(self, instr: Move) -> None:
        value = self.use(instr.src)
        to, frm = self.types[instr.dst], self.types[instr.src]
        if to in ("i64", "i32", "bool") and frm in ("i64", "i32", "bool"):
            self.known.move(instr.dst, instr.src)
        if to != frm:
            value = f"({C_TYPES[to]}){'(intptr_t)' if 'ptr' in (to, frm) else ''}{value}"
            if frm == "ptr":
                self.known.forget((instr.dst,))
        self.set(instr.dst, value)

    def trap(self, instr: Trap) -> None:
        stop = f"return pb_stop(frame, PB_TRAP_{instr.code}, {instr.position});"
        if instr.cond < 0:
            self.line(stop)
            return
        fixed = self.known.constant(instr.cond) if self.types[instr.cond] in ("i64", "i32", "bool") else None
        if fixed is None:
            self.line(f"if (__builtin_expect(!!{self.use(instr.cond)}, 0)) {stop}")
        elif fixed:
            self.line(stop)

    def alloc(self, instr: Alloc) -> None:
        output = self.code.outputs[instr.output]
        for reg in output.shape:
            self.line(f"{self._frame(reg)} = {self.use(reg)};")
        self.set(output.ptr, f"frame->alloc(frame, {instr.output})")
        self.line(f"if (!{self.local(output.ptr)}) return pb_stop(frame, PB_TRAP_MEMORY, 0);")
        self.line(f"{self._frame(output.ptr)} = {self.local(output.ptr)};")

    def call(self, instr: Call) -> None:
        """Registers live in locals here and in the frame there."""
        for reg in instr.reads:
            self.line(f"{self._frame(reg)} = {self.use(reg)};")
        self.line(f"if (frame->call(frame, {instr.site})) return 1;")
        self.known.forget(instr.writes)
        for reg in instr.writes:
            value = self._frame(reg)
            self.set(reg, f"({C_TYPES[self.types[reg]]}){value}" if self.types[reg] in ("i32", "bool") else value)

    def for_(self, instr: For) -> None:
        inside = set(assigned(instr.body)) | {instr.var}
        start, stop, step = self.use(instr.start), self.use(instr.stop), self.use(instr.step)
        stride = self.known.constant(instr.step)
        least, most = self.known[instr.step].bounds()
        low, high = self.known[instr.start].bounds()[0], self.known[instr.stop].bounds()[1]
        top, bottom = self.known[instr.start].bounds()[1], self.known[instr.stop].bounds()[0]
        n = self.n_loops
        self.n_loops += 1
        self.line("{")
        self.line(f"const int64_t e{n} = {stop}, s{n} = {step};")
        test = f"c{n} < e{n}" if least > 0 else f"c{n} > e{n}" if most < 0 else \
            f"s{n} > 0 ? c{n} < e{n} : c{n} > e{n}"
        if "?" not in test and any(isinstance(i, (NestCode, ContractCode, For, While)) for i in instr.body):
            self.lines.append("PB_ROLLED")  # its trips are long: copies of them only cost compile time
        self.line(f"for (int64_t c{n} = {start}; {test}; c{n} += s{n}) {{")
        self.known.forget(inside)
        if least > 0 and low <= high - 1:
            self.known.set_range(instr.var, low, high - 1)
        elif most < 0 and bottom + 1 <= top:
            self.known.set_range(instr.var, bottom + 1, top)
        self.set(instr.var, f"c{n}")
        self._loop_body(instr.body, is_hot=stride is not None and abs(stride) <= 8)  # longer trips are blocks
        self.line("}")
        self.line("}")
        self.known.forget(inside)

    def while_(self, instr: While) -> None:
        inside = set(assigned(instr.body))
        self.known.forget(inside)
        self.line("for (;;) {")
        self._loop_body(instr.body)
        self.line("}")
        self.known.forget(inside)

    def _loop_body(self, body: Sequence[Instr], is_hot: bool = True) -> None:
        """The instructions of a loop; in a hot one (many short trips) nests may be inlined."""
        self.loops += is_hot
        self._instructions(body)
        self.loops -= is_hot

    def if_(self, instr: If) -> None:
        fixed = self.known.constant(instr.cond) if self.types[instr.cond] in ("i64", "i32", "bool") else None
        if fixed is not None:
            self._instructions(instr.then if fixed else instr.orelse)
            return
        inside = {*assigned(instr.then), *assigned(instr.orelse)}
        self.line(f"if ({self.use(instr.cond)}) {{")
        before = self.known.copy()
        self._instructions(instr.then)
        self.known = before
        if instr.orelse:
            before = self.known.copy()
            self.line("} else {")
            self._instructions(instr.orelse)
            self.known = before
        self.line("}")
        self.known.forget(inside)

    def break_(self, instr: Break) -> None:
        self.line("break;")

    def continue_(self, instr: Continue) -> None:
        self.line("continue;")

    def exit_(self, instr: Exit) -> None:
        self.line("goto done;")

    def nest(self, instr: NestCode) -> None:
        for part in split_nest(instr):
            function = print_nest(part, self.known, self.types, self.constant)
            name = self.module.nest(function, is_hot=self.loops > 0)
            values = (self.address(reg, offset) for reg, offset, _ in function.params)
            call = f"{name}({', '.join(values)})"
            if not function.positions:
                self.line(f"{call};")
                continue
            positions = ", ".join(map(str, function.positions))
            self.line("{")
            self.line(f"static const int32_t at[] = {{{positions}}};")
            self.line(f"const int n = {call};")
            self.line("if (n) return pb_stop(frame, PB_TRAP_INDEX, at[n - 1]);")
            self.line("}")

    def contract(self, instr: ContractCode) -> None:
        self.module.has_products = True
        nbatch = len(instr.batch)

        def batch_strides(ref: Ref) -> str:
            return "{" + ", ".join(self.use(s) for s in ref.strides[:nbatch]) + "}"

        self.line("{")
        self.line("pb_product_args p = {0};")
        if nbatch:
            extents = ", ".join(self.use(r) for r in instr.batch)
            self.line(f"const int64_t batch[] = {{{extents}}}, a_bs[] = {batch_strides(instr.a)}, "
                      f"b_bs[] = {batch_strides(instr.b)}, c_bs[] = {batch_strides(instr.out)};")
            self.line("p.batch = batch, p.a_bs = a_bs, p.b_bs = b_bs, p.c_bs = c_bs;")
        self.line(f"p.dtype = {instr.product_dtype}, p.nbatch = {nbatch}, "
                  f"p.act = {1 if instr.act == 'relu' else 0};")
        if instr.pack >= 0:  # without a pack (weights that may change) the operand is read as it is
            self.line(f"p.pack = frame->packs[{instr.pack}], p.has_pack = p.pack != 0;")
        self.line(f"p.m = {self.use(instr.m)}, p.n = {self.use(instr.n)}, p.k = {self.use(instr.k)};")
        for name, ref in (("a", instr.a), ("b", instr.b), ("c", instr.out)):
            rs, cs = (self.use(s) for s in ref.strides[nbatch:])
            self.line(f"p.{name} = {self.address(ref.base, ref.offset)}, p.{name}_rs = {rs}, p.{name}_cs = {cs};")
        if instr.bias is not None:
            self.line(f"p.bias = {self.address(instr.bias.base, instr.bias.offset)}, "
                      f"p.bias_s = {self.use(instr.bias.strides[0])};")
        if instr.residual is not None:
            plus = instr.residual
            rs, cs = (self.use(s) for s in plus.strides[nbatch:])
            if nbatch:
                self.line(f"const int64_t residual_bs[] = {batch_strides(plus)};")
                self.line("p.residual_bs = residual_bs;")
            self.line(f"p.residual = {self.address(plus.base, plus.offset)}, p.residual_rs = {rs}, p.residual_cs = {cs};")
        self.line("pb_bundle_product(&p);")
        self.line("}")


_PRINT: dict[type, Callable[[_KernelPrinter, Any], None]] = {
    Int: _KernelPrinter.int_, Guard: _KernelPrinter.guard_, Scalar: _KernelPrinter.scalar, Cast: _KernelPrinter.cast_,
    Load: _KernelPrinter.load_, Store: _KernelPrinter.store_, Move: _KernelPrinter.move, Trap: _KernelPrinter.trap,
    Alloc: _KernelPrinter.alloc, For: _KernelPrinter.for_, While: _KernelPrinter.while_, If: _KernelPrinter.if_,
    Break: _KernelPrinter.break_, Continue: _KernelPrinter.continue_, Exit: _KernelPrinter.exit_,
    NestCode: _KernelPrinter.nest, ContractCode: _KernelPrinter.contract, Call: _KernelPrinter.call,
}


def bucket_text(bounds: Bounds) -> str:
    """A bucket for people: `{x.shape[0]: [1, 32], x.shape[1]: 128}`."""
    items = []
    for symbol in sorted(bounds):
        lo, hi = bounds[symbol]
        span = str(lo) if lo == hi else f"[{lo}, {'inf' if hi >= 2**62 else hi}]"
        items.append(f"{_comment(symbol)}: {span}")
    return "{" + ", ".join(items) + "}"


def _comment(text: str) -> str:
    """Text that cannot end a C comment or a Python string."""
    return re.sub(r'[^\x20-\x7e]|\*/|"|\\', "_", text)


__all__ = ["ARENA", "PRODUCT_BODY", "Bounds", "Kernel", "Module", "bucket_text", "kernel_name", "result_registers"]
