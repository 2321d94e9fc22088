"""The reader's own comments in a `buckets.yaml`, by the entry they stand above or behind, so that they can be written again.

YAML parsers leave comments out; these are found in the file's lines. Lines that begin with `#:` are prebake's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Remark:
    """Comments without `#`: the lines above an entry, and what stands behind it on its line."""

    above: tuple[str, ...] = ()
    tail: str = ""


class Comments:
    """The comments of a text; each line is given out once, to the entry that asks first."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self._taken: set[int] = set()

    def above(self, line: int) -> tuple[str, ...]:
        """The reader's comment lines above a 0-based line, up to the entry before; empty lines between are passed."""
        return tuple(text[1:].strip() for text in reversed(list(self._upwards(line))) if not text.startswith("#:"))

    def top(self, line: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The comments above the file's first entry: those before prebake's own lines, and those after."""
        texts = list(self._upwards(line))[::-1]
        first = next((i for i, text in enumerate(texts) if text.startswith("#:")), len(texts))
        own = [text[1:].strip() for text in texts[:first]]
        rest = [text[1:].strip() for text in texts[first:] if not text.startswith("#:")]
        return tuple(own), tuple(rest)

    def _upwards(self, line: int) -> Iterator[str]:
        while line > 0 and line - 1 not in self._taken:
            line -= 1
            text = self.lines[line].strip()
            if text and not text.startswith("#"):
                return
            self._taken.add(line)
            if text:
                yield text

    def behind(self, mark: Any) -> str:
        """The reader's comment on the line of a mark, behind it."""
        rest = self.lines[mark.line][mark.column:].strip(" :,") if mark.line < len(self.lines) else ""
        return rest[1:].strip() if rest.startswith("#") and not rest.startswith("#:") else ""

    def of_key(self, name_node: Any, value: Any) -> Remark:
        """The remark of an entry of a mapping: behind its value, or behind its name when the value begins below."""
        is_inline = value.id == "scalar" or value.flow_style
        return Remark(self.above(name_node.start_mark.line), self.behind((value if is_inline else name_node).end_mark))


def write_remark(line: str, remark: Remark | None) -> list[str]:
    """The lines of an entry with its comments; its indentation is the line's."""
    if remark is None:
        return [line]
    indent = line[:len(line) - len(line.lstrip())]
    return [*above_lines(remark.above, indent), line + (f"  # {remark.tail}" if remark.tail else "")]


def above_lines(texts: tuple[str, ...], indent: str = "") -> list[str]:
    """Comment lines."""
    return [f"{indent}# {text}".rstrip() for text in texts]
