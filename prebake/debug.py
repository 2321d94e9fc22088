"""Dumps and break points inside any engine (see `vm/run/debug.py`)."""

from __future__ import annotations

from .vm.run.debug import breakpoint, dump_tensor

__all__ = ["breakpoint", "dump_tensor"]
