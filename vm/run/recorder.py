"""Shape counts of running functions, as profile files.

The dispatcher counts every call in small tables (one a plan: the extents of its symbols -> calls, nanoseconds, timed
calls); this module turns the difference between two moments into a profile. A profile is JSON:

    {"version": 1,
     "functions": {"module:qualname": {
        "module": "module", "digest": program digest, "msbc": base64 of the `.msbc` bytes,
        "options": {...decorated options that change code...}, "shapes": {parameter: "b d"},
        "calls": n,                        every call of the function, whatever served it
        "unplanned": n,                    of these, calls without a plan (interpreter, original function): no shapes known
        "signatures": [{
            "rows": [...Signature.to_json()...],
            "symbols": ["x.shape[0]", ...],             order of the extents below
            "sample": {"x.shape[0]": 32, ...},          extents and strides at hand when the plan was made
            "shapes": [[extent, ..., calls, total_ns, timed_calls], ...],      ascending
            "other": n}]}}}                calls whose shapes no longer fitted into the table

Time is sampled: `total_ns` belongs to `timed_calls` of the `calls`. Signatures are unique by (rows, symbols) and sorted by
their JSON text. Files are written with sorted keys and without spaces: equal profiles have equal bytes. Shapes, dtypes,
counts and configuration scalars only, never array contents.

PREBAKE_PROFILE=path: each process writes its shard `path.d/<host>-<pid>-<start>.json`, again every PREBAKE_PROFILE_INTERVAL
seconds, and at exit merges it into `path` under a lock; shards of killed processes are taken up by the next exit.
"""

from __future__ import annotations

PROFILE_VERSION = 1
