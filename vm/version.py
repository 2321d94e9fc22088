"""prebake's own version, and those of the formats it reads, without importing anything."""

from __future__ import annotations

VERSION = "0.1.0"
BUNDLE_FORMAT = 2
PACKS_FORMAT = 1
MSBC_VERSION = 2  # as in lang/bytecode.py, whose import would cost a bundle's start-up; a test holds them equal
