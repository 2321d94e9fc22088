"""What a decorator was given, checked where it stands: a wrong option is told at import, not at the first request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import options
from ..errors import ConfigError

FALLBACKS = ("error", "python")


class Stated:
    """The parameters of `jit` for one function. error: what is wrong with them, or None.

    given: as they were given. own: options in normal form. shape_check: of the arguments of a call, or None.
    """

    __slots__ = ("error", "given", "own", "shape_check")

    def __init__(self, fn: Any, shapes: Any, given: Any, fallback: Any, threads: Any, tier_up: Any) -> None:
        self.given: tuple[Any, Any, Any, Any, Any] = (shapes, given, fallback, threads, tier_up)
        self.error: ConfigError | None = None
        self.own: dict[str, Any] = {}
        self.shape_check: Any = None
        try:
            self._check_options(given, fallback, threads, tier_up)
            self._check_shapes(fn, shapes)
        except ConfigError as error:
            code = fn.__code__
            self.error = ConfigError(f"{error.message} (decorator of '{fn.__qualname__}')", file=code.co_filename,
                                     line=code.co_firstlineno, key=error.key, hint=error.hint)

    def _check_options(self, given: Any, fallback: Any, threads: Any, tier_up: Any) -> None:
        self.own = options.check_options(given)
        if threads is not None:
            self.own["threads"] = options.OPTIONS["threads"].check(threads)
        if fallback not in FALLBACKS:
            hint = options.suggest(fallback, FALLBACKS) if isinstance(fallback, str) else ""
            raise ConfigError(f"found {fallback!r}, expected 'error' or 'python'", key="fallback",
                              hint=hint or "fallback='python' runs the original function where prebake refuses it")
        if type(tier_up) is not bool:
            raise ConfigError(f"found {tier_up!r}, expected True or False", key="tier_up", hint="tier_up=True")

    def _check_shapes(self, fn: Any, shapes: Any) -> None:
        if shapes is None or (isinstance(shapes, Mapping) and not shapes):
            return
        from .shape_spec import compile_check

        self.shape_check = compile_check(fn, shapes)
