"""The JSON Schema of `buckets.yaml`, for editors; shipped as configs/buckets.schema.json."""

from __future__ import annotations

import json

from .schema import SCHEMA_VERSION, option_names


def json_schema() -> dict[str, object]:
    """The JSON Schema of the file, for editors; shipped as configs/buckets.schema.json (a test holds it current)."""
    bound = {"type": "integer"}  # an integer argument may be negative
    extent = {"oneOf": [bound, {"type": "array", "items": {"oneOf": [bound, {"const": "inf"}]},
                                "minItems": 2, "maxItems": 2}],
              "description": "one extent, or [lo, hi], both inclusive; hi may be inf"}
    words = {
        "signature": {"type": "integer", "minimum": 0, "description": "index into the recorded signatures; 0 when left out"},
        "keep": {"type": "boolean", "description": "re-planning leaves this bucket alone"},
        "gain": {"type": "object", "additionalProperties": False, "description": "measured by planning: a note",
                 "properties": {"wider": {"type": "number", "description": "speed-up over the next wider kernel"},
                                "tape": {"type": "number", "description": "speed-up over the tape (JIT)"}}},
    }
    symbol = {"type": "string", "description": "a symbol of the signature, such as x.shape[0]"}
    function = {
        "type": "object", "additionalProperties": False,
        "properties": {
            "symbols": {"type": "object", "description": "short name: symbol, or a list of symbols that are equal",
                        "additionalProperties": {"oneOf": [symbol, {"type": "array", "items": symbol}]}},
            "options": {"type": "object", "additionalProperties": False, "properties": _option_schemas()},
            "buckets": {"type": "array", "items": {"type": "object", "properties": words,
                                                   "additionalProperties": extent}},
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "prebake buckets.yaml",
        "type": "object", "additionalProperties": False, "required": ["version"],
        "properties": {"version": {"const": SCHEMA_VERSION},
                       "functions": {"type": "object", "additionalProperties": function,
                                     "description": "qualified name (module:qualname): its symbols, options, buckets"}},
    }


def _option_schemas() -> dict[str, object]:
    from ..vm import options as table

    return {name: table.OPTIONS[name].json_schema() for name in option_names()}


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
