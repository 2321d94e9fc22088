"""Layer functions, each a plain NumPy reference that prebake also compiles (see `vm/ops.py`)."""

from __future__ import annotations

from .vm.ops import *  # noqa: F403
from .vm.ops import __all__ as __all__
