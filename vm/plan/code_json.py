"""The dispatcher's half of a `Code` as plain data: what a call needs beside the kernel itself.

`dispatch_spec(code)` yields a dictionary of JSON-able values (JIT and bundle go through the same one); kernels and tape
hold the rest. Form:

    {"name": str, "n_regs": int,
     "consts":  [[reg, value], ...]          value: int, or float as "f:<hex>"; only registers that are named below
     "types":   {"<reg>": "i64"|"i32"|"bool"|"f32"|"f64"|"ptr"}      the same registers
     "leaves":  [[row, ptr, [extent regs], [stride regs], scalar], ...]
     "arena":   reg,
     "outputs": [[memory dtype, [extent regs], ptr reg, early 0|1], ...]
     "packs":   [[row, dtype, k, n, offset, row_stride, col_stride], ...]
     "result":  {"kind": ..., fields of ResultSpec that are not their default; "value" and "keys" encoded; "read_only": true
                of a view through which NumPy refuses to write}
     "trap_texts": [[trap number, position, text], ...]    of a program's own `raise`; absent: none
     "calls":   [{"kernel": id, "position": n, "tuple": 0|1, "args": [...], "results": [...]}, ...]    call-outs; absent: none
                operands and results hold the fields of CallOperand and CallOutcome that are not their default
     "optional_packs": true: the kernels read an operand as it is when its pack is NULL (absent: false),
     "symbols": {name: reg}, "guards": [text, ...], "steps": number of nests, products and call-outs in the body}

A register of -1 means "none". Values (constants of results, dict keys) are encoded by `encode_value`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...templates.tapecode import TRAPS
from .code import Call, CallOperand, CallOutcome, CallSite, Code, ContractCode, For, If, NestCode, ResultSpec, While
from .encoded import encode_value


def dispatch_spec(code: Code) -> dict[str, Any]:
    """The dispatcher's half of a lowered plan, in the form of the module's docstring."""
    used = {code.arena_bytes, *code.symbols.values()}
    for leaf in code.leaves:
        used.update((leaf.ptr, leaf.scalar, *leaf.extents, *leaf.strides))
    for output in code.outputs:
        used.update((output.ptr, *output.shape))
    used.update(_result_registers(code.result))
    for site in code.calls:
        used.update(_call_registers(site))
    used.discard(-1)
    more: dict[str, Any] = {"calls": [call_spec(site) for site in code.calls]} if code.calls else {}
    if code.trap_texts:
        more["trap_texts"] = [[TRAPS[kind], position, text] for kind, position, text in code.trap_texts]
    return {
        "name": code.name,
        "n_regs": len(code.types),
        "consts": [[reg, _number(value)] for reg, value in sorted(code.consts.items()) if reg in used],
        "types": {str(reg): code.types[reg] for reg in sorted(used)},
        "leaves": [[leaf.row, leaf.ptr, list(leaf.extents), list(leaf.strides), leaf.scalar] for leaf in code.leaves],
        "arena": code.arena_bytes,
        "outputs": [[out.dtype, list(out.shape), out.ptr, int(out.early)] for out in code.outputs],
        "optional_packs": True,
        "packs": [[p.row, p.dtype, p.k, p.n, p.offset, p.row_stride, p.col_stride] for p in code.packs],
        "result": _result(code.result),
        "symbols": dict(code.symbols),
        "guards": list(code.guards),
        "steps": count_steps(code.body),
        **more,
    }


def count_steps(body: tuple) -> int:
    """Nests, products and call-outs in a body, each counted once however often a loop runs it."""
    total = 0
    for instr in body:
        if isinstance(instr, (NestCode, ContractCode, Call)):
            total += 1
        elif isinstance(instr, (For, While)):
            total += count_steps(instr.body)
        elif isinstance(instr, If):
            total += count_steps(instr.then) + count_steps(instr.orelse)
    return total


def _number(value: int | float) -> object:
    return f"f:{value.hex()}" if isinstance(value, float) else int(value)


def _result_registers(spec: ResultSpec) -> Iterator[int]:
    yield from (spec.offset, spec.reg, *spec.shape, *spec.strides)
    for item in spec.items:
        yield from _result_registers(item)


def _call_registers(site: CallSite) -> Iterator[int]:
    pending = list(site.args)
    while pending:
        arg = pending.pop()
        pending.extend(arg.items)
        if arg.ref is not None:
            yield from (arg.ref.base, arg.ref.offset, *arg.ref.strides, *arg.shape)
        yield from (arg.reg, arg.imag)
    for result in site.results:
        yield from (*result.shape, result.reg, result.imag)


def call_spec(site: CallSite) -> dict[str, Any]:
    """One item of "calls"."""
    return {"kernel": site.kernel, "position": site.position, "tuple": int(site.is_tuple),
            "args": [_operand(arg) for arg in site.args], "results": [_outcome(result) for result in site.results]}


def _operand(arg: CallOperand) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": arg.kind}
    if arg.ref is not None:
        out |= {"dtype": arg.dtype, "base": arg.ref.base, "offset": arg.ref.offset, "shape": list(arg.shape),
                "strides": list(arg.ref.strides), "written": int(arg.is_written)}
    elif arg.kind in ("scalar", "complex"):
        out |= {"dtype": arg.dtype, "python": arg.python, "native": arg.native, "reg": arg.reg, "imag": arg.imag}
    elif arg.kind == "const":
        out["value"] = encode_value(arg.value)
    else:
        out["items"] = [_operand(item) for item in arg.items]
    return out


def _outcome(result: CallOutcome) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": result.kind}
    if result.kind == "array":
        out |= {"dtype": result.dtype, "output": result.output, "shape": list(result.shape),
                "known": list(map(int, result.is_known))}
    elif result.kind != "ignored":
        out |= {"dtype": result.dtype, "python": result.python, "native": result.native, "reg": result.reg,
                "imag": result.imag}
    return out


def _result(spec: ResultSpec) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": spec.kind}
    if spec.kind == "new":
        out["output"] = spec.output
    elif spec.kind == "view":
        out |= {"output": spec.output, "row": spec.row, "offset": spec.offset, "shape": list(spec.shape),
                "strides": list(spec.strides), "dtype": spec.dtype}
        if spec.is_read_only:
            out["read_only"] = True
    elif spec.kind == "arg":
        out["row"] = spec.row
    elif spec.kind == "scalar":
        out |= {"reg": spec.reg, "dtype": spec.dtype, "python": spec.python}
    elif spec.kind == "const":
        out["value"] = encode_value(spec.value)
    else:
        if spec.kind == "choice":
            out["reg"] = spec.reg
        elif spec.kind == "complex":
            out |= {"dtype": spec.dtype, "python": spec.python}
        out["items"] = [_result(item) for item in spec.items]
        if spec.kind == "dict":
            out["keys"] = [encode_value(key) for key in spec.keys]
    return out
