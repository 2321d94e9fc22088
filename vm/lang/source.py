"""Python source as data: where a function's text is, its syntax tree, and digests that formatting does not change.

Digests are taken over a normal form of the tree (no positions, comments, docstrings, decorators, annotations), equal on
every supported Python version, plus the literal module constants that the function names. `load_source` works
from a live function, `function_digest` from a file's text alone, without importing anything; they agree.
"""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
from _blake2 import blake2b
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from opcode import hasconst, hasjabs, hasjrel, hasname, opmap, opname
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..errors import UnsupportedError

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda

NO_SOURCE_HINT = "keep the function in a file or notebook cell that is readable at run time, or ship a bundle of it"


class FunctionSource:
    """A function's text and tree. Tree positions become file positions by adding `line_shift`.

    module: the defining module ('__main__' is replaced by the file's stem). lines: from the first decorator on.
    """

    __slots__ = ("_digest", "file", "first_line", "is_ascii", "line_shift", "lines", "memo", "module", "node",
                 "path", "qualname", "text")

    def __init__(self, node: FunctionNode, path: str, module: str, qualname: str, first_line: int, lines: Sequence[str],
                 line_shift: int, text: str) -> None:
        self.node, self.path, self.file = node, path, os.path.basename(path)
        self.module, self.qualname = module, qualname
        self.first_line, self.lines, self.line_shift = first_line, tuple(lines), line_shift
        self.text = text
        self.memo: dict[object, Any] = {}  # what the frontend derived from the tree, kept for the next compilation
        self.is_ascii = all(line.isascii() for line in self.lines)
        self._digest = ""

    @property
    def digest(self) -> str:
        """32 hexadecimal digits over the normal form and the literal module constants that it names."""
        if not self._digest:
            self._digest = digest_node(self.node, self.text)
        return self._digest

    def line_text(self, line: int) -> str:
        """The text of a 1-based line of the file, without its end."""
        at = line - self.first_line
        return self.lines[at] if 0 <= at < len(self.lines) else ""


# --- live functions

_MAX_CACHED = 4096
_loaded: dict[int, tuple[CodeType, FunctionSource]] = {}
_joined: dict[str, tuple[list[str], str]] = {}  # path -> lines of linecache, the same as one text


def load_source(fn: FunctionType) -> FunctionSource:
    """The source of a plain Python function, read and parsed once per code object.

    Raises UnsupportedError (kind 'no-source') where there is no text or it is not this function's any more.
    """
    code = fn.__code__
    found = _loaded.get(id(code))
    if found is not None and found[0] is code:
        return found[1]
    path = code.co_filename
    linecache.checkcache(path)  # a module that was edited and imported again
    lines = linecache.getlines(path, fn.__globals__)
    if not lines or code.co_firstlineno > len(lines):
        raise _no_source(fn, "its source is not available")
    known = _joined.get(path)
    if known is None or known[0] is not lines:
        known = _joined[path] = (lines, "".join(lines))
    module = module_name(fn)
    source = _slice_function(code, lines, path, module, fn.__qualname__, known[1]) \
        or _search_file(code, lines, path, module, fn.__qualname__, known[1])
    if source is None or not _is_source_of(source.node, code) or not _says_the_same(source.node, code, fn.__globals__):
        raise _no_source(fn, "the text at its place is not its source; was the file edited after it was imported?",
                         "import it again, or start the process again")
    if len(_loaded) >= _MAX_CACHED:
        _loaded.clear()
    _loaded[id(code)] = (code, source)
    return source


def module_name(fn: FunctionType) -> str:
    """The module of a function; a script's functions carry the script's stem in place of '__main__'."""
    name = fn.__module__ or fn.__globals__.get("__name__") or "__main__"
    if name == "__main__":
        stem = os.path.splitext(os.path.basename(fn.__code__.co_filename))[0]
        return stem if stem.isidentifier() else "__main__"
    return name


def _no_source(fn: FunctionType, why: str, hint: str = NO_SOURCE_HINT) -> UnsupportedError:
    code = fn.__code__
    return UnsupportedError(f"'{fn.__qualname__}' cannot be compiled: {why}", kind="no-source", file=code.co_filename,
                            line=code.co_firstlineno, column=1, hint=hint)


def _slice_function(code: CodeType, lines: list[str], path: str, module: str, qualname: str,
                    text: str) -> FunctionSource | None:
    """The function cut out by its code's line numbers: no parse of the whole file. None when that does not parse."""
    if code.co_name == "<lambda>":
        return None
    first = code.co_firstlineno
    indent = _indent(lines[first - 1])
    end = _last_line(code)
    at = end
    while at < len(lines):
        line = lines[at]
        at += 1
        bare = line.strip()
        if not bare or bare.startswith("#"):
            continue
        if _indent(line) <= indent:
            break
        end = at
    piece = lines[first - 1:end]
    wrapper = "if 1:\n" if indent else ""  # keeps columns and multi-line strings as they are
    try:
        body = ast.parse(wrapper + "".join(piece)).body
        node = body[0].body[0] if indent else body[0]  # type: ignore[attr-defined]
    except (SyntaxError, ValueError, IndexError):
        return None
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    shift = first - (2 if indent else 1)
    return FunctionSource(node, path, module, qualname, first, [line.rstrip("\n") for line in piece], shift, text)


def _last_line(code: CodeType) -> int:
    last = code.co_firstlineno
    for _, end, _, _ in code.co_positions():
        if end is not None and end > last:
            last = end
    for const in code.co_consts:
        if isinstance(const, CodeType):
            last = max(last, _last_line(const))
    return last


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _search_file(code: CodeType, lines: list[str], path: str, module: str, qualname: str,
                 text: str) -> FunctionSource | None:
    """The function found in the parsed file by its first line (lambdas: by the columns of its code too)."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    matches = [node for node in ast.walk(tree)
               if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
               and _first_line(node) == code.co_firstlineno and _is_source_of(node, code)]
    if code.co_name == "<lambda>" and len(matches) > 1:
        spots = {(p[0], p[2]) for p in code.co_positions() if p[0] is not None and p[2]}
        matches = [node for node in matches if any(
            (inner.lineno, inner.col_offset) in spots for inner in ast.walk(node.body)  # type: ignore[arg-type]
            if isinstance(inner, ast.expr))]
    if not matches:
        return None
    node = matches[0]
    first, end = _first_line(node), node.end_lineno or node.lineno
    piece = [line.rstrip("\n") for line in lines[first - 1:end]]
    return FunctionSource(node, path, module, qualname, first, piece, 0, text)


def _first_line(node: FunctionNode) -> int:
    decorators = getattr(node, "decorator_list", None)
    return decorators[0].lineno if decorators else node.lineno


def _is_source_of(node: FunctionNode, code: CodeType) -> bool:
    """Whether name and parameters of the tree are those of the code."""
    name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
    count = code.co_argcount + code.co_kwonlyargcount
    args = node.args
    names = [a.arg for a in (*args.posonlyargs, *args.args, *args.kwonlyargs)]
    mangled = [n if not n.startswith("__") else "" for n in names]
    return name == code.co_name and len(names) == count and all(
        not m or m == v for m, v in zip(mangled, code.co_varnames, strict=False))


def _says_the_same(node: FunctionNode, code: CodeType, variables: Mapping[str, object]) -> bool:
    """Whether a text means the code that runs: the file may have been edited since."""
    try:
        imported = [name for name in code.co_names if type(variables.get(name)) is ModuleType]
        made = compile(_as_module(node, code, imported), "<source>", "exec", flags=code.co_flags & _FUTURES, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return True
    text = next((inner for inner in _codes(made) if inner.co_name == code.co_name and inner.co_flags & _CO_OPTIMIZED
                 and inner.co_firstlineno == _first_line(node)), None)  # of a function, not of a class of its name
    if text is None or _is_equal(text, code):
        return True
    if not any(name[:1] == "@" for part in (code, *_codes(code)) for name in part.co_varnames + part.co_names):
        return False
    # pytest rewrote asserts: constants, names and operators of the text are all there
    (constants, names, operators), (others, known, present) = _content(text), _content(code)
    return constants <= others and names <= known and not operators - present


def _as_module(node: FunctionNode, code: CodeType, imported: Sequence[str]) -> ast.Module:
    """A module in which a function stands as in its own one: in the class that holds it, with the variables that it closes over.

    imported: names of modules, of which attributes are called by other instructions.
    """
    statement: Any = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    path = code.co_qualname.split(".")
    owner = next((part for part, inside in reversed(list(pairwise(path))) if "<locals>" not in (part, inside)), None)
    if owner is not None:
        statement = ast.copy_location(ast.ClassDef(owner, [], [], [statement], []), node)
        statement.type_params = []
    parameters = [ast.copy_location(ast.arg(name), node) for name in code.co_freevars
                  if name != "__class__" or owner is None]
    if parameters:
        given = ast.arguments([], parameters, None, [], [], None, [])
        body = [statement]
        if owner is not None and owner not in code.co_freevars:
            body.insert(0, ast.copy_location(ast.Global([owner]), node))
        statement = ast.copy_location(ast.FunctionDef("around", given, body, []), node)
        statement.type_params = []
    before: list[ast.stmt] = []
    if imported:
        before.append(ast.copy_location(ast.Import([ast.copy_location(ast.alias(name), node) for name in imported]), node))
    parts = (code, *_codes(code))
    if any("super" in part.co_names for part in parts) and not any(_SUPER in part.co_code[::2] for part in parts):
        # a module that mentions `super` outside of classes has it called like any other name
        before.append(ast.copy_location(ast.Expr(ast.copy_location(ast.Name("super", ast.Load()), node)), node))
    return ast.Module([*before, statement], [])


def _is_equal(text: CodeType, code: CodeType) -> bool:
    """Whether two pieces of code are the same but for places, documentation, and how a method is called."""
    if text.co_varnames != code.co_varnames or text.co_freevars != code.co_freevars or text.co_cellvars != code.co_cellvars:
        return False
    is_same = text.co_code == code.co_code and text.co_names == code.co_names and _constants(text) == _constants(code)
    if not is_same and _steps(text) != _steps(code):
        return False
    ours, theirs = ([c for c in part.co_consts if isinstance(c, CodeType)] for part in (text, code))
    return len(ours) == len(theirs) and all(map(_is_equal, ours, theirs))


def _constants(code: CodeType) -> list[object]:
    documented = _has_documentation(code) and isinstance(next(iter(code.co_consts), None), str)
    return [_known(c) for c in code.co_consts[documented:]]


def _known(constant: object) -> object:
    """A constant as something that tells 1 from 1.0 and True, and 0.0 from -0.0."""
    if isinstance(constant, CodeType):
        return CodeType
    return constant if isinstance(constant, frozenset) else repr(constant)


def _steps(code: CodeType) -> list[tuple[str, object]]:
    """The instructions, without what differs between attributes of imported modules and others: kind of call, distances."""
    found: list[tuple[str, object]] = []
    extended = 0
    raw = code.co_code
    for op, low in zip(raw[::2], raw[1::2], strict=True):
        name, argument = opname[op], extended | low
        extended = argument << 8 if name == "EXTENDED_ARG" else 0
        if name in _NO_STEPS:
            continue
        resolved: object = argument
        if name == "STORE_NAME" and code.co_names[argument] == "__firstlineno__":  # of a class, from Python 3.13 on: a place
            found[-1] = ("LOAD_CONST", None)
        if op in _CONSTANT:
            resolved = _known(code.co_consts[argument])
        elif op in _NAMED:
            shift = _FLAG_BITS.get(name, 0)
            resolved = code.co_names[argument >> shift], argument & 2 if name == "LOAD_SUPER_ATTR" else 0
        elif op in _JUMPS:
            resolved = None
        found.append(("LOAD_ATTR" if name == "LOAD_METHOD" else name, resolved))
    return found


def _has_documentation(code: CodeType) -> bool:
    """Whether the first constant, where it is a text, says what a function is for."""
    return bool(code.co_flags & _HAS_DOCSTRING) if sys.version_info >= (3, 13) else code.co_name[:1] != "<"


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _content(code: CodeType) -> tuple[set[str], set[str], Counter[tuple[int, int]]]:
    """Constants (as text), names, and how often each operator stands in some code, functions inside it too."""
    constants: set[str] = set()
    names: set[str] = set()
    operators: Counter[tuple[int, int]] = Counter()
    for part in (code, *_codes(code)):
        documented = _has_documentation(part) and isinstance(next(iter(part.co_consts), None), str)
        places = [] if part.co_flags & _CO_OPTIMIZED else [part.co_firstlineno]  # a class knows where it stands
        constants |= {repr(c) for c in part.co_consts[documented:] if not isinstance(c, CodeType) and c not in places}
        names |= {n for n in (*part.co_names, *part.co_varnames, *part.co_cellvars, *part.co_freevars) if n[:2] != "__"}
        raw = part.co_code
        operators.update((op, argument) for op, argument in zip(raw[::2], raw[1::2], strict=True) if op in _OPERATORS)
    return constants, names, operators


_CO_OPTIMIZED = 0x1
_FUTURES = annotations.compiler_flag
_HAS_DOCSTRING = 0x4000000  # of code, from Python 3.13 on
_CONSTANT, _NAMED, _JUMPS = frozenset(hasconst), frozenset(hasname), frozenset((*hasjrel, *hasjabs))
_SUPER = opmap.get("LOAD_SUPER_ATTR", -1)
_NO_STEPS = frozenset(("CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL"))
_FLAG_BITS = {"LOAD_GLOBAL": 1, "LOAD_SUPER_ATTR": 2} | ({"LOAD_ATTR": 1} if sys.version_info >= (3, 12) else {})
_OPERATORS = frozenset(number for name, number in opmap.items()
                       if name in ("BINARY_OP", "COMPARE_OP", "IS_OP", "CONTAINS_OP") or name.startswith("UNARY_"))


# --- text alone

def function_digest(source_text: str, qualname: str) -> str:
    """The digest of the function that `qualname` names in a file's text; the last definition wins, as in Python.

    Raises LookupError when the text defines no such function, SyntaxError when it does not parse.
    """
    digests = function_digests(source_text, qualname)
    if not digests:
        raise LookupError(f"no function '{qualname}' in the source")
    return digests[-1]


def function_digests(source_text: str, qualname: str) -> tuple[str, ...]:
    """The digests of every definition of `qualname` in the text, in order: branches and lambdas share a name."""
    tree = ast.parse(source_text)
    return tuple(digest_node(node, source_text) for node in _definitions(tree, _COMPREHENSION.sub("", qualname).split(".")))


_COMPREHENSION = re.compile(r"<(?:(?:list|dict|set)comp|genexpr)>\.(?:<locals>\.)?")  # no steps of their own


def _definitions(scope: ast.AST, path: list[str]) -> Iterator[FunctionNode]:
    """Functions at a path of names; `<locals>` steps are implied by being inside a function."""
    name, rest = path[0], path[1:]
    for node in _scope_members(scope):
        if isinstance(node, ast.Lambda):
            if name == "<lambda>":
                if not rest:
                    yield node
                elif rest[0] == "<locals>" and len(rest) > 1:
                    yield from _definitions(node, rest[1:])
        elif node.name == name:
            if not rest:
                if not isinstance(node, ast.ClassDef):
                    yield node
            elif isinstance(node, ast.ClassDef):
                yield from _definitions(node, rest)
            elif rest[0] == "<locals>" and len(rest) > 1:
                yield from _definitions(node, rest[1:])


def _scope_members(scope: ast.AST) -> Iterator[FunctionNode | ast.ClassDef]:
    """Functions, lambdas and classes directly inside a scope, through its statements and expressions."""
    stack = list(ast.iter_child_nodes(scope))[::-1]
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
            stack += node.decorator_list[::-1]
        elif isinstance(node, ast.Lambda):
            yield node
        else:
            stack += list(ast.iter_child_nodes(node))[::-1]


# --- normal form

_SKIPPED = {"ctx", "decorator_list", "kind", "type_comment", "type_params", "returns", "annotation", "simple"}
_fields: dict[type, tuple[str, ...]] = {}


def normal_form(node: ast.AST) -> str:
    """An s-expression of the tree: equal for equal meaning of the text, on every supported Python version."""
    out: list[str] = []
    _write(node, out)
    return "".join(out)


def _write(node: ast.AST, out: list[str]) -> None:
    cls = node.__class__
    names = _fields.get(cls)
    if names is None:
        names = _fields[cls] = tuple(f for f in cls._fields if f not in _SKIPPED)
    out.append("(" + cls.__name__)
    for name in names:
        value = getattr(node, name, None)
        if value.__class__ is list:
            if name == "body" and cls in _DOCUMENTED and _is_docstring(value):
                value = value[1:]
            out.append("[")
            for item in value:
                if isinstance(item, ast.AST):
                    _write(item, out)
                else:
                    out.append(f" {item!r}")
            out.append("]")
        elif isinstance(value, ast.AST):
            _write(value, out)
        else:
            out.append(f" {value!r}")
    out.append(")")


_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _is_docstring(body: list[ast.stmt]) -> bool:
    first = body[0] if body else None
    return isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str)


def digest_node(node: FunctionNode, file_text: str) -> str:
    """32 hexadecimal digits over a function's normal form and the literal module constants that it names."""
    state = blake2b(normal_form(node).encode("utf-8", "surrogatepass"), digest_size=16, person=b"prebake-source")
    for name, value in sorted(literal_constants(node, file_text).items()):
        state.update(f"\0{name}={value!r}".encode("utf-8", "surrogatepass"))
    return state.hexdigest()


# --- literal module constants

_ASSIGNMENT = re.compile(r"^([A-Za-z_]\w*)[ \t]*(?::[^=\n]*)?=(?!=)[ \t]*", re.MULTILINE)
_assignments: dict[str, dict[str, int]] = {}


def literal_constants(node: FunctionNode, file_text: str) -> dict[str, object]:
    """Names that the function reads from its module and that the module's text assigns an immutable literal to."""
    read: set[str] = set()
    stored: set[str] = set()
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            (read if isinstance(inner.ctx, ast.Load) else stored).add(inner.id)
        elif isinstance(inner, ast.arg):
            stored.add(inner.arg)
    known = _assigned_at(file_text)
    result = {}
    for name in read - stored:
        at = known.get(name)
        if at is not None:
            found, value = _literal_at(file_text, at)
            if found:
                result[name] = value
    return result


def _assigned_at(file_text: str) -> dict[str, int]:
    """Offset of the right-hand side of the last top-level assignment to each name."""
    found = _assignments.get(file_text)
    if found is None:
        if len(_assignments) > 64:
            _assignments.clear()
        found = _assignments[file_text] = {m[1]: m.end() for m in _ASSIGNMENT.finditer(file_text)}
    return found


def _literal_at(text: str, at: int) -> tuple[bool, object]:
    """(True, value) of the immutable literal that starts at an offset; it may span lines inside brackets."""
    end = at
    for _ in range(64):
        end = text.find("\n", end)
        end = len(text) if end < 0 else end
        try:
            value = ast.literal_eval(text[at:end].strip())
        except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
            if isinstance(error, SyntaxError) and text[at:at + 1] == "(" and end < len(text):
                end += 1
                continue
            return False, None
        return _is_immutable(value), value
    return False, None


def _is_immutable(value: object) -> bool:
    if isinstance(value, tuple):
        return all(_is_immutable(item) for item in value)
    return value is None or isinstance(value, (bool, int, float, complex, str))
