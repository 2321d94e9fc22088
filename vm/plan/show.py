"""Plans and register code as text: for dumps (`PREBAKE_DUMP=plan`), for `explain`, and for tests that read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields

from ...templates.registry import BY_ID
from . import code as c
from .extents import Expr
from .steps import (
    AllocStep,
    Buffer,
    CallArg,
    CallStep,
    Contract,
    ForStep,
    IfStep,
    LoadStep,
    Nest,
    NestInput,
    Operand,
    Plan,
    Result,
    ScalarOpStep,
    ScalarReg,
    SetStep,
    Step,
    StoreStep,
    TrapStep,
    View,
    WhileStep,
)


def show_plan(plan: Plan) -> str:
    """A plan as text: facts, steps (buffers numbered in order of appearance), result, passes."""
    return "\n".join(_PlanText(plan).lines()) + "\n"


def show_code(code: c.Code) -> str:
    """Register code as text: registers are r0, r1, ...; constants are written as values."""
    return "\n".join(_CodeText(code).lines()) + "\n"


def result_shapes(plan: Plan) -> str:
    """Shapes of what the plan returns, for the extents that it was made for: '(32, 10)'. '?': known after the run."""
    def extent(expr: Expr) -> str:
        return str(expr.evaluate(lambda atom: plan.sample[str(atom.name)])) if expr.is_entry else "?"

    def shown(node: Result) -> str:
        if node.view is not None:
            extents = [extent(expr) for expr in node.view.shape]
            return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"
        if node.kind in ("tuple", "list", "dict"):
            brackets = {"tuple": "()", "list": "[]", "dict": "{}"}[node.kind]
            return brackets[0] + ", ".join(map(shown, node.items)) + brackets[1]
        if node.kind == "arg":
            return str(plan.signature.rows[node.row].path)
        return {"const": repr(node.value)[:40]}.get(node.kind, "a scalar")

    try:
        return shown(plan.result)
    except (KeyError, ArithmeticError):
        return "?"


class _PlanText:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.names: dict[Buffer | ScalarReg, str] = {}
        self.counts: dict[str, int] = {}
        self.long: dict[Expr, str] = {}  # names of expressions that would drown the rest

    def lines(self) -> Iterable[str]:
        yield f"plan {self.plan.name}"
        for fact in self.plan.facts:
            yield f"  fact {fact.text}"
        steps = list(self.steps(self.plan.steps, "  "))
        for expr, name in self.long.items():
            yield f"  {name} = {expr!r}"
        yield from steps
        yield f"  return {self.result(self.plan.result)}"
        for rule, notes in sorted(self.plan.fired.items()):
            for note in notes:
                yield f"  {rule}: {note}"
        for name, elapsed_ms, note in self.plan.log:
            yield f"  pass {name:<8} {elapsed_ms:7.3f} ms  {note}".rstrip()

    def buffer(self, buffer: Buffer) -> str:
        """x for an argument, t0 for a temporary, out0 for a result."""
        name = self.names.get(buffer)
        if name is None:
            prefix = {"temp": "t", "out": "out"}.get(buffer.kind, "arg")
            if buffer.kind == "arg" and buffer.name:
                name = buffer.name
            else:
                number = self.counts[prefix] = self.counts.get(prefix, -1) + 1
                name = f"{prefix}{number}"
            self.names[buffer] = name
        return name

    def scalar(self, reg: ScalarReg) -> str:
        """%0, %1, ... or the argument's own path."""
        if reg.row >= 0:
            return reg.name
        name = self.names.get(reg)
        if name is None:
            number = self.counts["%"] = self.counts.get("%", -1) + 1
            name = self.names[reg] = f"%{reg.name or 's'}{number}"
        return name

    def operand(self, operand: Operand | None) -> str:
        if isinstance(operand, ScalarReg):
            return self.scalar(operand)
        return self.expr(operand) if isinstance(operand, Expr) else repr(operand and operand.value)

    def expr(self, expr: Expr) -> str:
        """The expression, or its name when it is long."""
        text = repr(expr)
        if len(text) <= 48:
            return text
        return self.long.setdefault(expr, f"e{len(self.long)}")

    def exprs(self, exprs: Iterable[Expr]) -> str:
        return ", ".join(map(self.expr, exprs))

    def view(self, view: View, shape: bool = True) -> str:
        text = self.buffer(view.buffer)
        if view.offset.value != 0:
            text += f"+{self.expr(view.offset)}"
        if shape:
            text += f"[{self.exprs(view.shape)}]"
        return text + f" strides ({self.exprs(view.strides)})"

    def steps(self, steps: list[Step], pad: str) -> Iterable[str]:
        for step in steps:
            yield from self.step(step, pad)

    def step(self, step: Step, pad: str) -> Iterable[str]:
        if isinstance(step, Nest):
            yield from self.nest(step, pad)
        elif isinstance(step, Contract):
            m, n, k = map(self.expr, (step.m, step.n, step.k))
            yield (f"{pad}product {step.dtype} batch [{self.exprs(step.batch)}] m {m} n {n} k {k}"
                   f"{f' in {step.rounding}' if step.rounding else ''}")
            parts = [("a", step.a), ("b", step.b), ("bias", step.bias), ("plus", step.residual),
                     ("out", step.out)]
            for name, view in parts:
                if view is not None:
                    yield f"{pad}  {name:<4} {self.view(view)}"
            if step.act != "none":
                yield f"{pad}  then {step.act}"
        elif isinstance(step, CallStep):
            yield f"{pad}call {BY_ID[step.kernel].name} at {step.position}"
            yield from (f"{pad}  with {self.argument(arg)}" for arg in step.args)
            for made in step.results:
                what = self.view(made.view) if made.view is not None else ", ".join(map(self.scalar, made.registers()))
                yield f"{pad}  gives {what or 'nothing'} : {made.python or made.dtype}"
        elif isinstance(step, ForStep):
            bounds = self.exprs((step.start, step.stop, step.step))
            yield f"{pad}for {self.operand(step.var.expr)} in range({bounds})"
            yield from self.steps(step.body, pad + "  ")
        elif isinstance(step, WhileStep):
            yield f"{pad}while"
            yield from self.steps(step.body, pad + "  ")
        elif isinstance(step, IfStep):
            yield f"{pad}if {self.operand(step.cond)}"
            yield from self.steps(step.then, pad + "  ")
            if step.orelse:
                yield f"{pad}else"
                yield from self.steps(step.orelse, pad + "  ")
        elif isinstance(step, ScalarOpStep):
            args = ", ".join(map(self.operand, step.args))
            yield f"{pad}{self.scalar(step.dst)} = {step.op}.{step.operand_dtype}({args}) : {step.dst.dtype}"
        elif isinstance(step, LoadStep):
            yield f"{pad}{self.scalar(step.dst)} = load {self.view(step.view)} : {step.dst.dtype}"
        elif isinstance(step, StoreStep):
            yield f"{pad}store {self.view(step.view)} = {self.operand(step.value)}"
        elif isinstance(step, SetStep):
            yield f"{pad}{self.scalar(step.dst)} = {self.operand(step.value)}"
        elif isinstance(step, TrapStep):
            cond = "" if step.cond is None else f" when {self.operand(step.cond)}"
            yield f"{pad}trap {step.code}{cond} at {step.position}"
        elif isinstance(step, AllocStep):
            yield f"{pad}allocate {self.buffer(step.buffer)}"
        else:
            yield f"{pad}{type(step).__name__.removesuffix('Step').lower()}"

    def argument(self, arg: CallArg) -> str:
        """An operand of a call-out."""
        if arg.view is not None:
            return f"{self.view(arg.view)} : {arg.view.dtype}" + (", written" if arg.is_written else "")
        if arg.operand is not None:
            return ", ".join(self.operand(part) for part in (arg.operand, arg.imag) if part is not None)
        return f"{arg.kind}({', '.join(map(self.argument, arg.items))})" if arg.items else repr(arg.value)

    def nest(self, nest: Nest, pad: str) -> Iterable[str]:
        yield f"{pad}nest [{self.exprs(nest.axes)}]"
        for i, item in enumerate(nest.inputs):
            yield f"{pad}  s{i} = {self.input(item)} : {item.dtype}"
        n = len(nest.inputs)
        for i, op in enumerate(nest.ops):
            args = ", ".join(f"s{a}" for a in op.args)
            if op.view is not None:
                args = self.view(op.view, False) + "".join(f", s{s} of {e!r} by {t!r}" for s, e, t in op.indexes)
            yield f"{pad}  s{n + i} = {op.op}.{op.operand_dtype}({args}) : {op.dtype}"
        for out in nest.outs:
            over = [i for i in range(len(nest.axes)) if out.reduced >> i & 1]
            how = "" if out.reduce == "store" else f" {out.reduce} over {over}"
            where = "" if out.mask < 0 else f" where s{out.mask}"
            where += "".join(f" at s{s} of {e!r} by {t!r}" for s, e, t in out.indexes)
            yield f"{pad}  {self.view(out.view, False)} : {out.view.dtype} ={how} s{out.slot}{where}"

    def input(self, item: NestInput) -> str:
        if item.view is not None:
            return f"{item.view.dtype} {self.view(item.view, False)}"
        return f"index {item.axis}" if item.kind == "iota" else self.operand(item.operand)

    def result(self, result: Result) -> str:
        if result.kind in ("tuple", "list", "dict", "complex", "choice"):
            items = [self.result(item) for item in result.items]
            if result.kind == "dict":
                items = [f"{key!r}: {item}" for key, item in zip(result.keys, items, strict=True)]
            if result.kind == "choice":
                return f"choice {self.operand(result.operand)} of {', '.join(items)}"
            return f"{result.kind}({', '.join(items)})"
        if result.view is not None:
            return f"{result.kind} {self.view(result.view)}"
        if result.kind == "arg":
            return f"arg row {result.row}"
        return repr(result.value) if result.kind == "const" else f"{result.python or result.dtype} " + self.operand(
            result.operand)


class _CodeText:
    def __init__(self, code: c.Code) -> None:
        self.code = code

    def lines(self) -> Iterable[str]:
        code = self.code
        yield f"code {code.name}: {len(code.types)} registers, arena {self.reg(code.arena_bytes)} bytes"
        for leaf in code.leaves:
            parts = [f"ptr r{leaf.ptr}" if leaf.ptr >= 0 else "", f"extents {self.regs(leaf.extents)}" if leaf.extents
                     else "", f"strides {self.regs(leaf.strides)}" if leaf.strides else "",
                     f"scalar r{leaf.scalar}" if leaf.scalar >= 0 else ""]
            yield f"  row {leaf.row}: {', '.join(filter(None, parts))}"
        for i, pack in enumerate(code.packs):
            yield f"  pack {i}: row {pack.row} {pack.dtype} {pack.k} x {pack.n} offset {pack.offset}"
        for i, output in enumerate(code.outputs):
            when = "early" if output.early else "late"
            yield f"  output {i}: {output.dtype} {self.regs(output.shape)} at r{output.ptr}, {when}"
        yield "bind"
        yield from self.body(code.bind, "  ", iter(code.guards))
        yield "body"
        yield from self.body(code.body, "  ", iter(()))
        yield f"return {self.result(code.result)}"

    def reg(self, reg: int) -> str:
        """A register, or its value when it is a constant; '-' for none."""
        if reg < 0:
            return "-"
        value = self.code.consts.get(reg)
        return f"r{reg}" if value is None else repr(value)

    def regs(self, regs: Iterable[int]) -> str:
        return f"[{', '.join(map(self.reg, regs))}]"

    def ref(self, ref: c.Ref) -> str:
        base = "arena" if ref.base == c.ARENA else f"r{ref.base}"
        offset = "" if ref.offset < 0 else f"+{self.reg(ref.offset)}"
        return f"{base}{offset} strides {self.regs(ref.strides)}"

    def body(self, body: tuple[c.Instr, ...], pad: str, guards: Iterable[str]) -> Iterable[str]:
        texts = iter(guards)
        for instr in body:
            if isinstance(instr, c.NestCode):
                yield from self.nest(instr, pad)
            elif isinstance(instr, c.ContractCode):
                yield (f"{pad}product {instr.dtype} batch {self.regs(instr.batch)} m {self.reg(instr.m)} "
                       f"n {self.reg(instr.n)} k {self.reg(instr.k)} act {instr.act} pack {instr.pack}"
                       f"{f' in {instr.rounding}' if instr.rounding else ''}")
                for name, ref in (("a", instr.a), ("b", instr.b), ("bias", instr.bias),
                                  ("plus", instr.residual), ("out", instr.out)):
                    if ref is not None:
                        yield f"{pad}  {name:<4} {self.ref(ref)}"
            elif isinstance(instr, c.For):
                yield (f"{pad}for r{instr.var} in range({self.reg(instr.start)}, {self.reg(instr.stop)}, "
                       f"{self.reg(instr.step)})")
                yield from self.body(instr.body, pad + "  ", ())
            elif isinstance(instr, c.While):
                yield f"{pad}while"
                yield from self.body(instr.body, pad + "  ", ())
            elif isinstance(instr, c.If):
                yield f"{pad}if {self.reg(instr.cond)}"
                yield from self.body(instr.then, pad + "  ", ())
                if instr.orelse:
                    yield f"{pad}else"
                    yield from self.body(instr.orelse, pad + "  ", ())
            elif isinstance(instr, c.Int):
                extra = f" if {self.reg(instr.c)}" if instr.c >= 0 else ""
                yield f"{pad}r{instr.dst} = {instr.op} {self.reg(instr.a)}, {self.reg(instr.b)}{extra}"
            elif isinstance(instr, c.Guard):
                yield f"{pad}guard {self.reg(instr.a)}  # {next(texts, '')}"
            else:
                yield pad + self.plain(instr)

    def plain(self, instr: c.Instr) -> str:
        """Any other instruction, field by field."""
        parts = []
        for item in fields(instr):
            value = getattr(instr, item.name)
            if isinstance(value, tuple):
                parts.append(self.regs(value))
            elif isinstance(value, int) and item.name not in ("output", "position"):
                parts.append(f"r{value}" if item.name == "dst" else self.reg(value))
            else:
                parts.append(str(value))
        return " ".join([type(instr).__name__.lower(), *parts])

    def nest(self, nest: c.NestCode, pad: str) -> Iterable[str]:
        yield f"{pad}nest {self.regs(nest.axes)}"
        for i, item in enumerate(nest.inputs):
            what = (f"{item.memory} {self.ref(item.ref)}" if item.ref is not None
                    else f"index {item.axis}" if item.kind == "iota" else self.reg(item.reg))
            yield f"{pad}  s{i} = {what} : {item.dtype}"
        n = len(nest.inputs)
        for i, op in enumerate(nest.ops):
            args = ", ".join(f"s{a}" for a in op.args)
            if op.ref is not None:
                args = self.ref(op.ref) + "".join(f", s{s} of {self.reg(e)} by {self.reg(t)}" for s, e, t in op.indexes)
            yield f"{pad}  s{n + i} = {op.op}.{op.operand_dtype}({args}) : {op.dtype}"
        for out in nest.outs:
            over = [i for i in range(len(nest.axes)) if out.reduced >> i & 1]
            how = "" if out.reduce == "store" else f" {out.reduce} over {over}"
            where = "" if out.mask < 0 else f" where s{out.mask}"
            where += "".join(f" at s{s} of {self.reg(e)} by {self.reg(t)}" for s, e, t in out.indexes)
            yield f"{pad}  {self.ref(out.ref)} : {out.memory} ={how} s{out.slot}{where}"

    def result(self, spec: c.ResultSpec) -> str:
        if spec.kind == "choice":
            return f"choice {self.reg(spec.reg)} of {', '.join(map(self.result, spec.items))}"
        if spec.kind in ("tuple", "list", "dict", "complex"):
            return f"{spec.kind}({', '.join(map(self.result, spec.items))})"
        if spec.kind == "new":
            return f"output {spec.output} {self.regs(spec.shape)}"
        if spec.kind == "view":
            base = f"output {spec.output}" if spec.output >= 0 else f"row {spec.row}"
            return f"view of {base} +{self.reg(spec.offset)} {self.regs(spec.shape)} strides {self.regs(spec.strides)}"
        if spec.kind == "scalar":
            return f"{spec.python or spec.dtype} {self.reg(spec.reg)}"
        return f"row {spec.row}" if spec.kind == "arg" else repr(spec.value)



