"""Numerical programs in the plain style NumPy users write, of the kinds that array benchmarks name; inputs are seeded.

`PROGRAMS` maps a name to its function, its arguments and what is expected of it. Each program is a plain function: tests
and benchmarks decorate it.
"""

from __future__ import annotations

import program_linear
import program_other
import program_stencils
import program_styles
from program_table import PROGRAMS, Program

__all__ = ["PROGRAMS", "Program", "program_linear", "program_other", "program_stencils", "program_styles"]
