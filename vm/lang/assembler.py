"""Text back to a Program: the reader of the form that `asm.py` writes and describes."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..dtypes import CODES, dtype_from_name
from ..errors import AssemblyError
from .asm import PREFIX
from .bytecode import UNBOUND, Binding, Capture, Instruction, Param, Position, Program, SourceFunction
from .codec import MAX_TUPLE_DEPTH
from .opcodes import BY_NAME, COMPARE_OPS, Row
from .symbols import UNKNOWN

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(rf"\s*({_STRING}|[(),]|[^\s(),\"]+)")
_INSTRUCTION = re.compile(
    r"(?:0x(?P<index>[0-9A-Fa-f]+)\s+)?(?P<name>[A-Z_][A-Z0-9_]*)(?P<operands>[^:@;]*)"
    r"(?::\s+(?P<dtype>\S+)\s+s(?P<shape>\d+)\s*)?(?:@(?P<function>\d+):(?P<line>\d+):(?P<column>\d+)-(?P<end>\d+)\s*)?")
_LABEL = re.compile(r"(\w+):")
_OPERAND = re.compile(r"[()]|[^\s()]+")


def assemble(text: str) -> Program:
    """The program that `text` describes, not verified. Raises AssemblyError with the line number."""
    return _Assembler(text).program()


class _Assembler:
    """Line by line; labels are resolved at the end."""

    def __init__(self, text: str) -> None:
        self.source = text
        self.number = 0
        self.name, self.n_regs = "", -1
        self.params: list[Param] = []
        self.symbols: list[str] = [UNKNOWN]
        self.constants: list[object] = []
        self.captures: list[Capture] = []
        self.bindings: list[Binding] = []
        self.kernels: tuple[int, ...] | None = None
        self.functions: list[list[Any]] = []
        self.code: list[tuple[int, list[int | str], int, int, int]] = []  # ..., line of the text
        self.positions: list[Position] = []
        self.labels: dict[str, int] = {}

    def fail(self, what: str) -> NoReturn:
        raise AssemblyError(f"line {self.number}: {what}")

    def program(self) -> Program:
        for raw in self.source.split("\n"):
            self.number += 1
            line = raw.strip()
            if not line or line.startswith(";"):
                continue
            label = _LABEL.fullmatch(line)
            if label is not None:
                self.labels[label.group(1)] = len(self.code)
            elif line.startswith("."):
                self.directive(line)
            else:
                self.instruction(line)
        code = [Instruction(op, self.resolved(words, number), dtype, shape)
                for op, words, dtype, shape, number in self.code]
        if self.kernels is None:
            self.kernels = tuple(sorted(_kernels_named(code)))
        functions = tuple([SourceFunction(module, qualname, digest, file, first, tuple(lines))
                           for module, qualname, digest, file, first, lines in self.functions])
        return Program(self.name, tuple(self.params), max(self.n_regs, 0), tuple(self.symbols), tuple(self.constants),
                       tuple(self.captures), self.kernels, tuple(code), tuple(self.positions), functions,
                       tuple(self.bindings))

    def resolved(self, words: list[int | str], number: int) -> tuple[int, ...]:
        result = []
        for word in words:
            if isinstance(word, str):
                if word not in self.labels:
                    self.number = number
                    self.fail(f"no label {word!r}")
                word = self.labels[word]
            result.append(word)
        return tuple(result)

    # --- directives

    def directive(self, line: str) -> None:
        name, _, rest = line.partition(" ")
        read = _DIRECTIVES.get(name)
        if read is None:
            self.fail(f"unknown directive {name}; known: {', '.join(sorted(_DIRECTIVES))}")
        tokens = self.tokens(rest)
        try:
            read(self, tokens)
        except (LookupError, ValueError, TypeError, ImportError, OverflowError) as error:
            self.fail(f"{name}: {error or 'something is missing'}")
        if tokens:
            self.fail(f"{name}: {tokens[0]!r} is one word too many")

    def tokens(self, text: str) -> list[str]:
        found, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                self.fail(f"a string that does not end: {text[at:].strip()[:20]}")
            found.append(match.group(1))
            at = match.end()
        return found

    def text(self, tokens: list[str]) -> str:
        token = tokens.pop(0)
        if not token.startswith('"'):
            self.fail(f"a quoted text is expected, not {token}")
        return ast.literal_eval(token)

    def d_msbc(self, tokens: list[str]) -> None:
        if tokens.pop(0) != "1":
            self.fail("this assembler reads text of version 1")

    def d_program(self, tokens: list[str]) -> None:
        self.name = self.text(tokens)

    def d_registers(self, tokens: list[str]) -> None:
        self.n_regs = int(tokens.pop(0))

    def d_param(self, tokens: list[str]) -> None:
        name, options = tokens.pop(0), {"default": -1, "kind": 0}
        while tokens:
            key, _, value = tokens.pop(0).partition("=")
            if key not in options:
                self.fail(f"unknown option {key}; known: {', '.join(options)}")
            options[key] = int(value)
        self.params.append(Param(name, options["default"], options["kind"]))

    def d_symbol(self, tokens: list[str]) -> None:
        self.symbols.append(self.text(tokens))

    def d_const(self, tokens: list[str]) -> None:
        self.constants.append(self.constant(tokens, 0))

    def d_kernels(self, tokens: list[str]) -> None:
        self.kernels = tuple(int(token, 0) for token in tokens)
        tokens.clear()

    def d_capture(self, tokens: list[str]) -> None:
        self.captures.append(Capture(tokens.pop(0), self.text(tokens), self.text(tokens)))

    def d_binding(self, tokens: list[str]) -> None:
        self.bindings.append(Binding(tokens.pop(0), self.text(tokens), self.text(tokens), self.text(tokens)))

    def d_function(self, tokens: list[str]) -> None:
        texts = [self.text(tokens) for _ in range(4)]
        self.functions.append([*texts, int(tokens.pop(0)), []])

    def d_line(self, tokens: list[str]) -> None:
        if not self.functions:
            self.fail("a .line belongs to the .function above it")
        self.functions[-1][-1].append(self.text(tokens))

    def constant(self, tokens: list[str], depth: int) -> object:
        kind = tokens.pop(0)
        if kind in _NAMED:
            return _NAMED[kind]
        if kind == "bool":
            return {"True": True, "False": False}[tokens.pop(0)]
        if kind == "int":
            return int(tokens.pop(0), 0)
        if kind == "float":
            return _read_float(tokens.pop(0))
        if kind == "complex":
            return complex(_read_float(tokens.pop(0)), _read_float(tokens.pop(0)))
        if kind == "str":
            return self.text(tokens)
        if kind == "dtype":
            return dtype_from_name(tokens.pop(0))
        if kind == "tuple" and depth < MAX_TUPLE_DEPTH and tokens.pop(0) == "(":
            items = []
            while tokens[0] != ")":
                items.append(self.constant(tokens, depth + 1))
                if tokens[0] == ",":
                    tokens.pop(0)
            tokens.pop(0)
            return tuple(items)
        self.fail(f"{kind} is no kind of constant")

    # --- instructions

    def instruction(self, line: str) -> None:
        match = _INSTRUCTION.match(line)
        if match is None or (match.end() < len(line) and not line[match.end():].startswith(";")):
            self.fail(f"neither an instruction nor a directive: {line[:40]}")
        part = match.groupdict()
        if part["index"] is not None and int(part["index"], 16) != len(self.code):
            self.fail(f"index 0x{part['index']}, this is instruction 0x{len(self.code):02X}")
        row = BY_NAME.get(part["name"])
        if row is not None:
            op = row.code
        elif re.fullmatch(r"OP_[0-9A-F]{2}", part["name"]):
            op = int(part["name"][3:], 16)
        else:
            self.fail(f"unknown instruction {part['name']}")
        words = self.operands(row, _OPERAND.findall(part["operands"]))
        self.code.append((op, words, self.hint(part["dtype"]), int(part["shape"] or 0), self.number))
        if part["line"] is not None:
            position = Position(*(int(part[key]) for key in ("function", "line", "column", "end")))
        else:
            position = Position(0, self.functions[0][4] if self.functions else 0, 1, 1)
        self.positions.append(position)

    def hint(self, text: str | None) -> int:
        if text is None or text == "?":
            return 0
        if text in CODES:
            return CODES[text]
        try:
            return int(text, 0)
        except ValueError:
            self.fail(f"unknown dtype hint {text}")

    def operands(self, row: Row | None, tokens: list[str]) -> list[int | str]:
        words: list[int | str] = []
        kinds = [kind for _, kind in row.operands] if row is not None else []
        for position, kind in enumerate(kinds):
            if not tokens:
                return words
            if kind in ("srcs", "dsts") and tokens[0] == "(":
                close = tokens.index(")") if ")" in tokens else self.fail("a parenthesis is not closed")
                inner = tokens[1:close]
                words.append(len(inner))
                words += [self.word("src", token) for token in inner]
                del tokens[:close + 1]
            else:
                token = tokens.pop(0)
                if kind == "imm" and row is not None and row.operands[position][0] == "op" and token in COMPARE_OPS:
                    words.append(COMPARE_OPS.index(token))
                else:
                    words.append(self.word(kind, token))
        return words + [self.word("imm", token) for token in tokens]

    def word(self, kind: str, token: str) -> int | str:
        prefix = PREFIX.get(kind, "")
        digits = token.removeprefix(prefix)
        try:
            return int(digits, 0)
        except ValueError:
            if kind == "target" and token.isidentifier():
                return token
            self.fail(f"{token!r} is no operand of kind {kind}")


def _kernels_named(code: list[Instruction]) -> set[int]:
    named = set()
    for ins in code:
        for name, position in _KERNEL_OPERANDS:
            if ins.op == BY_NAME[name].code and len(ins.args) > position:
                named.add(ins.args[position])
    return named


_KERNEL_OPERANDS = [(row.name, i) for row in BY_NAME.values() for i, (_, kind) in enumerate(row.operands)
                    if kind == "kernel"]
_NAMED: dict[str, object] = {"None": None, "Ellipsis": ..., "UNBOUND": UNBOUND}
_DIRECTIVES: dict[str, Callable[[_Assembler, list[str]], None]] = {
    ".msbc": _Assembler.d_msbc, ".program": _Assembler.d_program, ".registers": _Assembler.d_registers,
    ".param": _Assembler.d_param, ".symbol": _Assembler.d_symbol, ".const": _Assembler.d_const,
    ".kernels": _Assembler.d_kernels, ".capture": _Assembler.d_capture, ".binding": _Assembler.d_binding,
    ".function": _Assembler.d_function,
    ".line": _Assembler.d_line,
}


def _read_float(text: str) -> float:
    if text.startswith("bits:"):
        return float(np.uint64(int(text[5:], 16)).view(np.float64))
    return float(text)
