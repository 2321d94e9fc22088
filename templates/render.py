"""Strict rendering of `*.pyx.in` templates: a name that is unknown, or given and never used, is an error.

The engine is Tempita, the copy inside Cython; it is imported here alone, and only when something is rendered, at build.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

HERE = os.path.dirname(os.path.abspath(__file__))
INCLUDE = os.path.join(HERE, "include")  # for the compiler's -I


class RenderError(Exception):
    """A template and the names given to it do not fit; says which template and which names."""


class _Names(dict):
    """The names given to a template; remembers which of them it read."""

    def __init__(self, names: Mapping[str, object]) -> None:
        super().__init__(names)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> object:
        self.used.add(name)
        return super().__getitem__(name)


def render_text(text: str, names: Mapping[str, object], *, origin: str = "<template>") -> str:
    """The template's text with `names` filled in.

    Raises RenderError for a name that the template needs and does not get, and for one that it gets and never mentions.
    """
    from Cython import Tempita

    given = _Names(names)
    try:
        result = Tempita.Template(text, name=origin).substitute(given)
    except NameError as error:
        raise RenderError(f"{origin}: {error}") from None
    code = " ".join(re.findall(r"\{\{(.*?)\}\}", text, re.DOTALL))
    unused = sorted(n for n in names if n not in given.used and not re.search(rf"\b{re.escape(n)}\b", code))
    if unused:
        raise RenderError(f"{origin}: given but never used: {', '.join(unused)}")
    return result


def render_file(name: str, names: Mapping[str, object]) -> str:
    """`templates/<name>` rendered with `names`; errors as for `render_text`."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return render_text(file.read(), names, origin=name)
