"""Typed programs and the symbolic plan that both back ends consume."""
