"""Random functions over small integers: nested branches and loops, early exits, helpers, locals that may be unassigned.

`source(seed)` gives the text of a module with helpers `h0`, `h1`, ... and a function `f(a, b)`. Loops are bounded by
counters, so that every program ends.
"""

from __future__ import annotations

import random

NAMES = ["u", "v", "w", "x"]


class Writer:
    """Writes one function."""

    def __init__(self, rng: random.Random, helpers: list[str], params: list[str], in_helper: bool) -> None:
        self.rng, self.helpers, self.params, self.in_helper = rng, helpers, params, in_helper
        self.lines: list[str] = []
        self.counter = 0
        self.known = list(params)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def name(self) -> str:
        # mostly names that are assigned somewhere, sometimes any
        return self.rng.choice(self.known if self.rng.random() < 0.93 else NAMES + self.params)

    def expr(self, size: int = 2) -> str:
        rng = self.rng
        kind = rng.random()
        if size <= 0 or kind < 0.35:
            return rng.choice([self.name(), self.name(), str(rng.randint(-3, 9))])
        if kind < 0.6:
            return f"({self.expr(size - 1)} {rng.choice(['+', '-', '&', '|', '^'])} {self.expr(size - 1)})"
        if kind < 0.65:
            return f"({self.expr(size - 1)} * {self.expr(size - 1)} % 101)"  # numbers stay small
        if kind < 0.72:
            return f"({self.expr(size - 1)} {rng.choice(['//', '%'])} {rng.randint(1, 5)})"
        if kind < 0.78:
            return f"({self.expr(size - 1)} if {self.test(size - 1)} else {self.expr(size - 1)})"
        if kind < 0.84:
            return f"({self.expr(size - 1)} {rng.choice(['and', 'or'])} {self.expr(size - 1)})"
        if kind < 0.88:
            return f"sum([i * {self.name()} for i in range({rng.randint(0, 3)}) if i != {rng.randint(0, 2)}])"
        if kind < 0.91:
            return f"max({self.expr(size - 1)}, {self.expr(size - 1)})"
        if self.helpers:
            helper = rng.choice(self.helpers)
            first, second = self.expr(size - 1), self.expr(size - 1)
            return f"{helper}({first}, {second})" if rng.random() < 0.7 else f"{helper}({first}, b={second})"
        return self.name()

    def test(self, size: int = 1) -> str:
        rng = self.rng
        kind = rng.random()
        if kind < 0.6:
            return f"{self.expr(size)} {rng.choice(['>', '<', '==', '!=', '>=', '<='])} {self.expr(size)}"
        if kind < 0.7:
            return f"not {self.expr(size)}"
        if kind < 0.85:
            return f"{self.test(0)} {rng.choice(['and', 'or'])} {self.test(0)}"
        if kind < 0.9:
            return f"{self.expr(0)} < {self.expr(0)} <= {self.expr(0)}"
        return self.expr(size)

    def assign(self, depth: int) -> None:
        rng = self.rng
        target = rng.choice(NAMES + (self.params if rng.random() < 0.3 else []))
        kind = rng.random()
        if kind < 0.2 and target in self.known:
            self.put(depth, f"{target} {rng.choice(['+=', '-=', '^=', '%='])} {self.expr()}")
        elif kind < 0.3:
            other = rng.choice(NAMES)
            self.put(depth, f"{target}, {other} = {self.expr()}, {self.expr()}")
            self.known.append(other)
        elif kind < 0.34:
            self.put(depth, f"{target} = {rng.choice(NAMES)} = {self.expr()}")
        elif kind < 0.36:
            self.put(depth, f"del {self.name()}")
            return
        elif kind < 0.4:
            self.put(depth, f"{target} = {self.name()} + ({rng.choice(NAMES)} := {self.expr(1)})")
        else:
            self.put(depth, f"{target} = {self.expr()}")
        self.known.append(target)

    def block(self, depth: int, budget: int, in_loop: bool) -> None:
        rng = self.rng
        for _ in range(rng.randint(1, 3)):
            kind = rng.random()
            if budget <= 0 or kind < 0.45:
                self.assign(depth)
            elif kind < 0.65:
                self.put(depth, f"if {self.test()}:")
                self.block(depth + 1, budget - 1, in_loop)
                if rng.random() < 0.3:
                    self.put(depth, f"elif {self.test()}:")
                    self.block(depth + 1, budget - 1, in_loop)
                if rng.random() < 0.5:
                    self.put(depth, "else:")
                    self.block(depth + 1, budget - 1, in_loop)
            elif kind < 0.78:
                var = rng.choice(["i", "j", *NAMES])
                start = rng.choice(["", "1, ", f"{rng.randint(-2, 2)}, "])
                self.put(depth, f"for {var} in range({start}{rng.randint(0, 4)}):")
                self.known.append(var)
                self.block(depth + 1, budget - 1, True)
            elif kind < 0.84:
                self.put(depth, f"for {rng.choice(NAMES)} in ({self.expr(1)}, {self.expr(1)}):")
                self.block(depth + 1, budget - 1, True)
            elif kind < 0.92:
                self.counter += 1
                count = f"n{self.counter}"
                self.put(depth, f"{count} = 0")
                endless = rng.random() < 0.3
                limit = f"{count} < {rng.randint(1, 4)}"
                self.put(depth, "while True:" if endless else f"while {limit} and ({self.test()}):")
                self.put(depth + 1, f"{count} += 1")
                if endless:
                    self.put(depth + 1, f"if {count} > {rng.randint(1, 4)}:")
                    self.put(depth + 2, "break" if rng.random() < 0.6 else f"return {self.expr()}")
                self.block(depth + 1, budget - 1, True)
            elif in_loop and kind < 0.96:
                self.put(depth, rng.choice(["break", "continue"]))
            elif kind < 0.99:
                self.put(depth, f"return {self.expr()}")
            else:
                self.put(depth, "raise ValueError('stop')")

    def function(self, name: str) -> list[str]:
        self.put(0, f"def {name}({', '.join(self.params)}):")
        for _ in range(self.rng.randint(1, 2)):
            self.assign(1)
        self.block(1, 3, False)
        if self.rng.random() < 0.8:
            self.put(1, f"return {self.expr()}" if self.in_helper or self.rng.random() < 0.5
                     else f"return {self.name()}, {self.name()}, {self.expr()}")
        return self.lines


def source(seed: int) -> str:
    """The text of a random module."""
    rng = random.Random(seed)
    lines: list[str] = []
    helpers: list[str] = []
    for number in range(rng.randint(0, 3)):
        lines += [*Writer(rng, list(helpers), ["a", "b"], True).function(f"h{number}"), "", ""]
        helpers.append(f"h{number}")
    lines += Writer(rng, helpers, ["a", "b"], False).function("f")
    return "\n".join(lines) + "\n"
