"""Engines (interpreter, tape, prebuilt bundles) and the dispatcher that chooses between them."""
