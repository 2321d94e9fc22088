"""Whether a bundle fits one function as it is in this process: its options and shapes, and what its names stand for.

`bundle.py` accepts or refuses a bundle as a whole; what stands in the record of one function is read and compared here, as the
first call, `check` and strict loading need it. What does not fit raises BundleError, which names the field and both values.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from .. import options
from ..bindings import Row, first_change, member_of, underlying
from ..errors import ConfigError, UnsupportedError
from . import bundle
from .callees import CALL_OTHER, CALLS

if TYPE_CHECKING:  # a process that kernels serve never loads it
    from ..lang.bytecode import Program

_AS_DECORATED = "record, plan and build again with the decorator as it is now"


def fitting_settings(found: bundle.Bundle, name: str, own: Mapping[str, Any],
                     shapes: Mapping[str, str] | None) -> dict[str, Any]:
    """The settings of a function with those of `buckets.yaml`, where kernels were made for such ones. Raises BundleError.

    own, shapes: what its decorator states.
    """
    record = found.records[name]
    built, here = record.get("options"), options.key_options(own)
    if built != here:
        raise found.unfit(name, f"functions.{name}.options", built, here, _AS_DECORATED)
    if dict(record.get("shapes") or {}) != dict(shapes or {}):
        raise found.unfit(name, f"functions.{name}.shapes", record.get("shapes"), shapes, _AS_DECORATED)
    try:
        settings = options.check_options(record.get("settings"))
    except ConfigError as error:
        raise found._refuse(f"functions.{name}.settings", error.key, error.message, bundle._REBUILD) from None
    made_in = str({**here, **settings}.get("precision", "float32"))
    merged = options.effective({**own, **settings})
    if made_in != merged["precision"]:
        raise found.unfit(name, f"functions.{name}.precision", made_in, merged["precision"],
                          "set `precision` in the decorator or in buckets.yaml and build again")
    return merged


def fitting_bindings(found: bundle.Bundle, name: str, fn: Any, program_here: Callable[[], Program] | None) -> list[Row]:
    """The names that kernels were compiled with, where they stand for what they did. Raises BundleError.

    program_here: gives the function's program, where it may be of another source than the recorded one; None where it
    is not worth compiling, as nothing was rebound.
    """
    record = found.records[name]
    try:
        rows = [(str(scope), str(module), str(path), str(meaning))
                for scope, module, path, meaning in record["bindings"]]
    except (KeyError, TypeError, ValueError) as error:
        raise found._refuse(f"functions.{name}.bindings", "bindings of this format", str(error), bundle._REBUILD) from None
    change = first_change(fn, rows)
    if change is None and program_here is not None:
        program = program_here()
        if program.digest != record["program_digest"] and not is_of_other_objects(recorded_program(found, name), program, True):
            change = (name, "the source that was recorded", "another one in this process")
    if change is not None:
        where, then, now = change
        raise found.unfit(name, f"binding of {where}", then, now,
                          "record, plan and build again with the names as they are here", "GUARD")
    return rows


def recorded_captures(found: bundle.Bundle, name: str) -> list[tuple[str, str, str]]:
    """(scope, module, name) of what the function captures, as kernels number it. Raises BundleError."""
    try:
        return [(str(scope), str(module), str(key)) for scope, module, key in found.records[name]["captures"]]
    except (KeyError, TypeError, ValueError) as error:
        raise found._refuse(f"functions.{name}.captures", "captures of this format", str(error), bundle._REBUILD) from None


def recorded_program(found: bundle.Bundle, name: str) -> Program:
    """The program that a bundle holds of a function. Raises BundleError, or VerifyError."""
    from ..lang.bytecode import Program

    return Program.from_bytes(found.program_bytes(name))


def shipped_program(name: str, fn: Any) -> Program | None:
    """The program of the bundle at hand; None without a bundle, and where a name stands for something else by now."""
    found, _ = bundle.find_bundle(name, fn.__code__.co_filename)
    if found is None:
        return None
    program = recorded_program(found, name)
    change = first_change(fn, [(b.scope, b.module, b.path, b.meaning) for b in program.bindings])
    return program if change is None else None


def is_of_other_objects(recorded: Program, program: Program, is_rebound: bool) -> bool:
    """Whether the program here and the recorded one differ by the layers that they were made for alone.

    is_rebound: something changed since the process began: functions that the program here does not lead to are looked at too.
    """
    if not program.__dict__.get("calls_objects") and CALLS not in recorded.kernels:
        return False
    here = {(f.module, f.qualname): f.digest for f in program.functions}
    return all(here.get((f.module, f.qualname)) == f.digest if (f.module, f.qualname) in here
               else not is_rebound or _is_as_recorded(f.module, f.qualname, f.digest) for f in recorded.functions)


def _is_as_recorded(module: str, qualname: str, digest: str) -> bool:
    """Whether a function has the code that was recorded; what is out of reach is not judged."""
    from ..lang.source import load_source

    found: Any = sys.modules.get(module)
    try:
        for part in qualname.split("."):
            found = member_of(found, part) if isinstance(found, type) else getattr(found, part)
        found = underlying(found)
        return not isinstance(found, FunctionType) or load_source(found).digest == digest
    except (AttributeError, UnsupportedError):
        return True


def covers(program: Program, other: Program) -> bool:
    """Whether a program was made for the objects of another one of the same function as well, so that it has its plans too."""
    if not all(CALL_OTHER in made.kernels and made.functions for made in (program, other)):
        return False
    if (program.params, program.captures[:len(other.captures)]) != (other.params, other.captures):
        return False
    sources = {(f.module, f.qualname, f.digest) for f in program.functions}
    return all((f.module, f.qualname, f.digest) in sources for f in other.functions) \
        and all(binding in program.bindings for binding in other.bindings)
