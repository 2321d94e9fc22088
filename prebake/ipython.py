"""The IPython and Jupyter extension: `%load_ext prebake`, then `%%prebake` at the head of a cell.

`%%prebake` decorates the cell's functions with `jit`, runs the cell, and shows each function's bytecode, the plans that
calls made, and how its calls were served. `%prebake f g` shows the same of functions that are there. IPython itself is
never imported: the shell that loads the extension is handed in.
"""

from __future__ import annotations

import ast
from typing import Any

SHOWN = ("bytecode", "plan", "hits")
_USAGE = "%%prebake [--fallback] [bytecode] [plan] [hits]   or   %prebake FUNCTION ... [bytecode] [plan] [hits]"


def load_ipython_extension(shell: Any) -> None:
    """Called by `%load_ext prebake`."""
    def prebake(line: str, cell: str | None = None) -> None:
        words = line.split()
        shown = [word for word in SHOWN if word in words] or list(SHOWN)
        others = [word for word in words if word not in SHOWN and word != "--fallback"]
        if cell is None:
            _show_all(shell, others, shown)
        elif others:
            print(f"%%prebake does not know {others[0]!r}: {_USAGE}")
        else:
            run_cell(shell, cell, shown, "python" if "--fallback" in words else "error")

    prebake.__doc__ = f"Compile a cell's functions and show bytecode, plans and hits.\n\n{_USAGE}\n" \
                      "--fallback: functions that prebake refuses run in Python."
    shell.register_magic_function(prebake, magic_kind="line_cell", magic_name="prebake")


def unload_ipython_extension(shell: Any) -> None:
    """Called by `%unload_ext prebake`."""
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("prebake", None)


def run_cell(shell: Any, cell: str, shown: list[str], fallback: str = "error") -> None:
    """Run a cell with its functions decorated; show them unless the cell failed."""
    decorate = _Decorate(fallback)
    shell.ast_transformers.append(decorate)
    try:
        result = shell.run_cell(cell, store_history=False)
    finally:
        shell.ast_transformers.remove(decorate)
    if result.success:
        _show_all(shell, decorate.names, shown)


class _Decorate(ast.NodeTransformer):
    """Adds `jit` to the functions of a cell that have no decorator; `names` are all its functions."""

    def __init__(self, fallback: str) -> None:
        self.fallback = fallback
        self.names: list[str] = []

    def visit_Module(self, node: ast.Module) -> ast.Module:
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef):
                if statement.name not in self.names:
                    self.names.append(statement.name)
                if not statement.decorator_list:
                    jit = ast.parse(f"__import__({__package__!r}).jit(fallback={self.fallback!r})", mode="eval").body
                    for part in ast.walk(jit):
                        ast.copy_location(part, statement)
                    statement.decorator_list.append(jit)
        return node


def _show_all(shell: Any, names: list[str], shown: list[str]) -> None:
    from .vm.run.dispatch import JitFunction

    for name in names:
        function = shell.user_ns.get(name)
        if isinstance(function, JitFunction):
            print(report(function, shown))
        else:
            print(f"{name}: {'no such name' if function is None else 'not a function of prebake'}")


def report(function: Any, shown: list[str]) -> str:
    """Bytecode, plans and hits of a decorated function as text."""
    from .vm.errors import PrebakeError
    from .vm.plan.show import show_plan

    lines = [f"=== {function.name}"]
    try:
        program = function.bytecode
    except PrebakeError as error:
        return "\n".join([*lines, str(error)])
    if "bytecode" in shown:
        lines += ["--- bytecode", program.disassemble().rstrip()]
    prebuilt, planned = function._entries()
    if "plan" in shown:
        lines += [f"--- prebuilt: {', '.join(entry.kernel_names)}" for entry in prebuilt]
        lines += [f"--- plan {i + 1} of {len(planned)}\n{show_plan(entry.note).rstrip()}"
                  for i, entry in enumerate(planned)]
        if not prebuilt and not planned:
            lines.append("--- no plan yet: call the function, then `%prebake " + function.__name__ + "`")
    if "hits" in shown:
        counts = function.stats()
        served = ", ".join(f"{name} {counts[name]}" for name in ("prebuilt", "jit", "interpreter", "python"))
        lines.append(f"--- hits: {counts['calls']} calls, {served}; {counts['kernels_launched']} kernels launched")
        lines += [f"    not prebuilt {row['count']} times: {row['reason']} {row['shape']}" for row in counts["misses"]]
    return "\n".join(lines)
