"""`python -m prebake`: the commands."""

from __future__ import annotations

import sys

from .pgo.cli import main

if __name__ == "__main__":
    sys.exit(main())
