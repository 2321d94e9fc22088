"""Every construct that the frontend refuses: one row a kind, with what it is and what to write instead.

`docs/unsupported.md` is rendered from this table. A kind is a stable slug: statistics count by it.
"""

from __future__ import annotations

from ....templates.records import record


@record(eq=True)
class Refusal:
    """One kind: what the message says unless the place says it better, and the cure."""

    what: str
    hint: str


REFUSALS: dict[str, Refusal] = {
    # statements
    "async": Refusal("asynchronous functions are not compiled",
                     "compile the array part as a plain function and await around it"),
    "attribute-store": Refusal("an attribute of a module or class, or one that is called, cannot be assigned here",
                               "return the new value, or write into an array: self.state[...] = x"),
    "class": Refusal("a class cannot be defined inside a compiled function", "define the class at module level"),
    "delete": Refusal("only names can be deleted", "build the smaller array or container, for example with slices"),
    "global": Refusal("a global cannot be assigned inside a compiled function",
                      "return the value and assign it in the caller"),
    "import": Refusal("an import of this kind cannot stand inside a compiled function",
                      "import at module level; inside, only plain imports of loaded modules are taken"),
    "match": Refusal("this pattern of a match statement is not supported",
                     "match values, None, `|` and `_`, or write an if/elif chain"),
    "nonlocal": Refusal("a variable of an enclosing function cannot be assigned",
                        "return the value and assign it in the enclosing function"),
    "raise": Refusal("this form of raise is not supported",
                     "raise a builtin exception with a constant text: raise ValueError(\"...\")"),
    "try": Refusal("try/except is not supported", "test the condition with an if, or catch the error in the caller"),
    "with": Refusal("with blocks are not supported", "enter the context in the caller; np.errstate may stand here"),
    # expressions
    "bytes": Refusal("bytes cannot be used as data", "pass the data as a uint8 array"),
    "class-attribute": Refusal("a class method reads a dataclass field, which self may hide",
                               "read it from self, or name the class"),
    "special-attribute": Refusal("attributes of Python's object model are not read in compiled code",
                                 "read data attributes; test types with isinstance"),
    "f-string": Refusal("an f-string makes text, and text is not array data",
                        "make the text in the caller; for looking at values use prebake.debug.dump_tensor"),
    "function-value": Refusal("a function cannot be a value at run time here",
                              "call it by name, or pass it as an argument of a helper that is called by name"),
    "generator": Refusal("generators are not supported",
                         "use a list comprehension, or append in a loop; sum, min, max, any and all take one"),
    "set": Refusal("sets are not supported", "use a tuple or list, np.unique, or a boolean mask"),
    "star-args": Refusal("how many arguments a star stands for is not known when the code is compiled",
                         "write the arguments out"),
    "string": Refusal("text cannot be used as data", "use numbers, for example an index into a tuple of choices"),
    "yield": Refusal("generator functions are not supported", "fill an array or append to a list, and return it"),
    # calls
    "call-arguments": Refusal("the arguments do not fit the function", "compare the call with the signature"),
    "class-call": Refusal("this kind of object cannot be created inside a compiled function",
                          "create it outside and pass it in, or return a tuple"),
    "dynamic-call": Refusal("the function that is called here is not known when the code is compiled",
                            "call it by its own name, or keep it in an object or container that is passed in or captured"),
    "helper-closure": Refusal("a helper that no name leads to reads a variable of the function that made it",
                              "pass the value to the helper as an argument"),
    "keyword": Refusal("this keyword is not supported", "leave it out, or do its work with separate calls"),
    "print": Refusal("printing is not supported", "use prebake.debug.dump_tensor, or print in the caller"),
    "random": Refusal("random numbers are not drawn inside compiled code",
                      "draw them outside with numpy.random and pass the array in"),
    "recursion": Refusal("recursion cannot be inlined", "write it as a loop"),
    "super": Refusal("super() is supported only as super().method(...)", "name the class: Base.method(self, ...)"),
    "tensor": Refusal("NumPy cannot look at a tensor: it needs a gradient, is not on the CPU, or of another dtype",
                      "pass an array, or a detached CPU tensor of a dtype that NumPy has"),
    "unknown-function": Refusal("this function is not known to prebake",
                                "write it with NumPy functions, or call it outside and pass the result in"),
    "unknown-method": Refusal("this method is not known to prebake",
                              "use the NumPy function or array method that does the same, or a module function"),
    "unknown-name": Refusal("this name is not defined", "define or import it before the first call"),
    # functions
    "decorator": Refusal("decorators inside a compiled function are not applied",
                         "move the decorated function to module level"),
    "default-value": Refusal("this default value cannot be kept in bytecode",
                             "use None, numbers, strings, dtypes or tuples of them as defaults"),
    "no-source": Refusal("the function's source is not available",
                         "keep the function in a file or notebook cell that is readable at run time"),
    "not-a-function": Refusal("only plain Python functions are compiled", "decorate a function written with def"),
    "star-params": Refusal("*args and **kwargs of the decorated function itself are not supported",
                           "name the parameters; pass many arrays as one tuple, list or dict"),
    "too-large": Refusal("the function is too large for one program",
                         "split it, or loop over a list of parameters instead of writing every layer out"),
}


def render_refusals() -> str:
    """The text of `docs/unsupported.md`."""
    lines = [
        "# What prebake refuses to compile",
        "",
        "Generated from `vm/lang/frontend/refusals.py`; do not edit. Each of these raises `prebake.UnsupportedError`",
        "when the function is compiled, with file, line, column and a caret; `jit(fallback=\"python\")` runs the",
        "original function instead.",
        "",
        "| kind | what | instead |",
        "|---|---|---|",
    ]
    lines += [f"| `{kind}` | {row.what} | {row.hint} |" for kind, row in sorted(REFUSALS.items())]
    return "\n".join(lines) + "\n"
