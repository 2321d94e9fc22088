"""The one body of C (`include/`), its Cython templates, and the tables both are derived from."""
