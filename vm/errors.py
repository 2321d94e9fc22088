"""The exception tree, by audience; every error that prebake raises on purpose is here.

`UnsupportedError` speaks to the author of a function, `ConfigError` to the editor of a YAML file, `BundleError` to
whoever deploys an artefact, `VerifyError` to whoever handed us bytes, `PlanError` to whoever plans buckets,
`InternalError` to us. The parts of a message are attributes too.
"""

from __future__ import annotations

from collections.abc import Sequence


class PrebakeError(Exception):
    """Base of every error that prebake raises on purpose."""


class UnsupportedError(PrebakeError):
    """A construct that prebake refuses to compile: file, line, column, a caret, and what to write instead.

    kind: a short stable slug (`generator`, `unknown-function`, ...) by which refusals are counted.
    line is 1-based, column 1-based (in characters).
    """

    def __init__(self, what: str, *, kind: str = "unsupported", file: str = "<unknown>", line: int = 0,
                 column: int = 0, source: str = "", hint: str = "") -> None:
        self.what, self.kind, self.file, self.line, self.column = what, kind, file, line, column
        self.source, self.hint = source, hint
        super().__init__(self._text())

    def _text(self) -> str:
        text = f"{self.file}:{self.line}:{self.column}: {self.what}"
        if self.source:
            stripped = self.source.lstrip()
            caret = max(self.column - 1 - (len(self.source) - len(stripped)), 0)
            text += f"\n    {stripped.rstrip()}\n    {' ' * caret}^"
        if self.hint:
            text += f"\n  instead   {self.hint}"
        return text

    def __reduce__(self) -> tuple:
        return (_rebuild_unsupported, (self.what, self.__dict__.copy()))


def _rebuild_unsupported(what: str, state: dict) -> UnsupportedError:
    return UnsupportedError(what, **{k: state[k] for k in ("kind", "file", "line", "column", "source", "hint")})


class ConfigError(PrebakeError):
    """A YAML or pyproject value that cannot be used; names file, line and dotted key."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, column: int = 0, key: str = "",
                 hint: str = "") -> None:
        self.message, self.file, self.line, self.column, self.key, self.hint = message, file, line, column, key, hint
        place = ":".join(str(p) for p in (file, line or "", column or "") if p != "")
        text = f"{place}: " if place else ""
        text += f"{key}: {message}" if key else message
        if hint:
            text += f"\n  fix       {hint}"
        super().__init__(text)


class BundleError(PrebakeError):
    """An artefact that does not fit this machine, this prebake or this source; names the field and the cure."""

    def __init__(self, bundle: str, *, field: str, built: object, here: object, effect: str, fix: str,
                 reason: str = "NO_BUNDLE", what: str = "kernel bundle '{}' was not loaded") -> None:
        self.bundle, self.field, self.built, self.here, self.effect, self.fix = bundle, field, built, here, effect, fix
        self.reason, self.what = reason, what
        was = f"  built for {built}\n" if built != "" else ""
        super().__init__(f"{what.format(bundle)}\n  field     {field}\n{was}"
                         f"  this host {here}\n  effect    {effect}\n  fix       {fix}")

    def with_effect(self, effect: str) -> BundleError:
        """The same error where something else comes of it."""
        return BundleError(self.bundle, field=self.field, built=self.built, here=self.here, effect=effect, fix=self.fix,
                           reason=self.reason, what=self.what)


class VerifyError(PrebakeError):
    """Bytes that are no valid program; `faults` lists every fault found, each a text."""

    def __init__(self, faults: Sequence[str], listing: str = "") -> None:
        self.faults = list(faults)
        self.listing = listing
        super().__init__("\n".join(self.faults) + (f"\n\n{listing}" if listing else ""))


class AssemblyError(PrebakeError):
    """Text that is no program in the form that `disassemble` writes; names the line."""


class LimitError(PrebakeError):
    """A run that asked for limits reached one; base of the two below."""


class StepLimitError(LimitError):
    """More work than `max_steps` allows: instructions run, plus the element work of large ones."""


class MemoryLimitError(LimitError):
    """An instruction whose result, by estimate or in fact, does not fit `max_bytes`."""


class PlanError(PrebakeError):
    """A profile that cannot be planned: empty, of another program, or with limits that cannot hold."""


class InternalError(PrebakeError):
    """A fault of prebake itself; please report it with the text."""
