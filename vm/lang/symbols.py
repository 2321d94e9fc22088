"""The symbol table: texts over extents, interned; entry 0 is `?`, "unknown".

A symbol is an integer expression over names that can be read at call entry (`x.shape[0]`, `n + 1`,
`self.layers[0].w.shape[1] // 2`), a tuple of them (the shape of a whole tensor, `(x.shape[0], 4)`, `?` where one extent
is unknown), or a relation (`b == x.shape[0]`), which also defines a bare name. Parsing is bounded in length and depth,
so texts may come from anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

UNKNOWN = "?"
MAX_LENGTH = 400
MAX_TABLE = 1 << 18  # characters in all
MAX_DEPTH = 40
FUNCTIONS = frozenset({"min", "max", "abs", "len", "prod"})

_TOKEN = re.compile(r"\s*(?:(?P<int>\d+)|(?P<name>[^\W\d]\w*)|(?P<str>'[^'\\\n]*'|\"[^\"\\\n]*\")"
                    r"|(?P<op>\.\.\.|//|\*\*|==|[-+*%()\[\],.?]))")
# by far the most frequent form: one read of an extent
_EXTENT = re.compile(r"([^\W\d]\w*)(?:\.[^\W\d]\w*|\[-?\d+\])*")


class SymbolError(ValueError):
    """A text that is no symbol; says why."""


@lru_cache(maxsize=4096)
def symbol_roots(text: str) -> frozenset[str]:
    """The names that a symbol starts from: {'x', 'w'} for `x.shape[0] + w.shape[1]`. Raises SymbolError."""
    if text == UNKNOWN:
        return frozenset()
    simple = _EXTENT.fullmatch(text)
    if simple is not None and len(text) <= MAX_LENGTH:
        return frozenset((simple.group(1),))
    parser = _Parser(text)
    parser.relation()
    return frozenset(parser.roots)


def defined_names(symbols: Iterable[str]) -> frozenset[str]:
    """The bare names that relations define: {'b'} for `b == x.shape[0]`."""
    names = set()
    for text in symbols:
        left, equals, right = text.partition("==")
        if equals:
            names |= {side.strip() for side in (left, right) if side.strip().isidentifier()}
    return frozenset(names)


class _Parser:
    """Recursive descent over the tokens of one symbol; collects root names."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_LENGTH:
            raise SymbolError(f"longer than {MAX_LENGTH} characters")
        self.tokens: list[tuple[str, str]] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                if not text[at:].strip():
                    break
                raise SymbolError(f"{text[at:].strip()[:1]!r} has no meaning in a symbol")
            self.tokens.append((match.lastgroup or "", match.group(match.lastgroup or 0)))
            at = match.end()
        self.tokens.append(("end", "the end"))
        self.at = self.depth = 0
        self.roots: set[str] = set()

    def accept(self, *texts: str) -> str:
        kind, text = self.tokens[self.at]
        if kind == "op" and text in texts:
            self.at += 1
            return text
        return ""

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise SymbolError(f"{text!r} expected before {self.tokens[self.at][1]!r}")

    def relation(self) -> None:
        self.sum()
        if self.accept("=="):
            self.sum()
        if self.tokens[self.at][0] != "end":
            raise SymbolError(f"{self.tokens[self.at][1]!r} is one word too many")

    def sum(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise SymbolError(f"nested deeper than {MAX_DEPTH}")
        self.unary()
        while self.accept("+", "-", "*", "//", "%", "**"):
            self.unary()
        self.depth -= 1

    def unary(self) -> None:
        while self.accept("-", "+"):
            pass
        self.postfix()

    def postfix(self) -> None:
        self.atom()
        while True:
            if self.accept("."):
                self.name()
            elif self.accept("["):
                self.accept("-")
                if self.tokens[self.at][0] not in ("int", "str", "name"):
                    raise SymbolError(f"an index is a number, a name or a key, not {self.tokens[self.at][1]!r}")
                self.at += 1
                self.expect("]")
            else:
                return

    def name(self) -> str:
        kind, text = self.tokens[self.at]
        if kind != "name":
            raise SymbolError(f"a name is expected before {text!r}")
        self.at += 1
        return text

    def atom(self) -> None:
        kind, text = self.tokens[self.at]
        if kind == "int":
            self.at += 1
        elif kind == "name":
            self.at += 1
            if not self.accept("("):
                self.roots.add(text)
                return
            if text not in FUNCTIONS:
                raise SymbolError(f"{text}() is no function of symbols ({', '.join(sorted(FUNCTIONS))})")
            self.items(")")
        elif self.accept("("):
            self.items(")")
        elif self.accept("["):
            self.items("]")
        elif not self.accept("?", "..."):
            raise SymbolError(f"an extent is expected before {text!r}")

    def items(self, close: str) -> None:
        while not self.accept(close):
            self.sum()
            if not self.accept(","):
                self.expect(close)
                return
