"""The bundle manifest as dataclasses: what the build writes and tests read back. (The loader in `bundle.py` reads the
same JSON as plain dictionaries, because a dozen dataclasses cost more start-up time than loading a bundle.)

A bundle is a folder: `manifest.json`, one `.msbc` a function, one shared object a CPU level. `manifest.json` is

    {"digest": "<blake2b-32 of every byte after this line>",
    "stamp": {"bundle_format": 1, "prebake_version": ..., "msbc_version": 1, "abi_version": 3, "platform": ...,
              "compiler": ...},
    "targets": {LEVEL: {"file": NAME, "digest": HEX}},
    "functions": {"module:qualname": {
        "msbc": NAME, "msbc_digest": HEX, "program_digest": HEX,
        "params": [[name, default constant or -1, kind], ...], "captures": [[scope, module, name], ...],
        "bindings": [[scope, module, path, meaning], ...],
        "sources": [{"module", "qualname", "digest", "file", "file_digest"}, ...],
        "options": {...}, "settings": {...}, "shapes": {parameter: "b d"}, "symbols": {"b": SYMBOL or [SYMBOLS]},
        "plans": [{"rows": [...signature rows...], "code": {...vm/plan/code_json.py...},
                   "kernels": [{"kernel": C NAME, "bucket": {"x.shape[0]": [1, 32], "x.shape[1]": 128},
                                "gain": 1.4}]}]}}}

The first line is exactly `{"digest": "` + 64 hexadecimal digits + `",\n`; the rest is one JSON object without its
brace. File names are plain names (letters, digits, `_ . -`), digests are `file_digest` of the file's bytes. The
shared object's extension module is called as its file is up to the first dot (`PyInit_<that>`), and holds the digest of
the bytes of `functions`.
Kernels are listed by priority: the first whose bucket holds and whose guards pass is called. Bucket keys are names
in the plan's `code["symbols"]`; a symbol that a bucket does not name is unbounded. `options`: those that the function
was decorated with and that change code (`vm/options.py`: `in_key`), compared with what it is decorated with now.
`settings`: options of `buckets.yaml`, in force as long as the bundle serves the function. `symbols`: short names, for
messages. `sources` mirror `Program.functions`;
`file_digest` is the digest of the whole source file when it was built: an equal file needs no parsing to be known as
fresh.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .bundle import STAMP_FIELDS, host_stamp, with_digest


@dataclass(frozen=True)
class TargetFile:
    """One shared object: its file name inside the bundle and the digest of its bytes."""

    file: str
    digest: str


@dataclass(frozen=True)
class BundleSource:
    """A function that a program was made from, for the freshness check (mirrors `lang.bytecode.SourceFunction`)."""

    module: str
    qualname: str
    digest: str
    file: str
    file_digest: str = ""


@dataclass(frozen=True)
class BundleKernel:
    """One C function (a `pb_kernel` name) and the symbols' intervals it was made for; gain: over the tape, measured."""

    kernel: str
    bucket: Mapping[str, int | tuple[int, int]]
    gain: float = 0.0


@dataclass(frozen=True)
class BundlePlan:
    """The kernels of one signature and set of facts: rows from `Signature.to_json`, code from `dispatch_spec`."""

    rows: list[dict[str, Any]]
    code: dict[str, Any]
    kernels: tuple[BundleKernel, ...]


@dataclass(frozen=True)
class BundleFunction:
    """One function of a bundle."""

    msbc: str
    msbc_digest: str
    program_digest: str
    params: tuple[tuple[str, int, int], ...]
    captures: tuple[tuple[str, str, str], ...]
    sources: tuple[BundleSource, ...]
    plans: tuple[BundlePlan, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    shapes: Mapping[str, str] = field(default_factory=dict)
    symbols: Mapping[str, str | list[str]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    bindings: tuple[tuple[str, str, str, str], ...] = ()


@dataclass(frozen=True)
class Manifest:
    """All of `manifest.json`. stamp: as `host_stamp()` gives it, `compiler` added by the build."""

    targets: Mapping[str, TargetFile]
    functions: Mapping[str, BundleFunction]
    stamp: Mapping[str, Any] = field(default_factory=host_stamp)

    def to_json(self) -> dict[str, Any]:
        """Plain data, keys sorted (the digest is not in it)."""
        return {
            "stamp": {name: self.stamp[name] for name in STAMP_FIELDS},
            "targets": {level: asdict(self.targets[level]) for level in sorted(self.targets)},
            "functions": {name: _function_json(self.functions[name]) for name in sorted(self.functions)},
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Manifest:
        """The manifest that `to_json` wrote. Raises KeyError, TypeError or ValueError on anything else."""
        return cls({level: TargetFile(**item) for level, item in data["targets"].items()},
                   {name: _function_from(item) for name, item in data["functions"].items()}, dict(data["stamp"]))

    def to_bytes(self) -> bytes:
        """The bytes of `manifest.json`, digest line included; equal manifests give equal bytes."""
        import json

        body = json.dumps(self.to_json(), ensure_ascii=True, separators=(",", ":"), sort_keys=True)
        rest = body[1:].encode() + b"\n"
        return with_digest(rest)

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest in these bytes; the digest is not checked here (the loader does)."""
        import json

        return cls.from_json(json.loads(data))


def _function_json(function: BundleFunction) -> dict[str, Any]:
    return {
        "msbc": function.msbc, "msbc_digest": function.msbc_digest, "program_digest": function.program_digest,
        "params": [list(p) for p in function.params], "captures": [list(c) for c in function.captures],
        "bindings": [list(b) for b in function.bindings],
        "sources": [asdict(s) for s in function.sources],
        "options": dict(function.options), "settings": dict(function.settings),
        "shapes": dict(function.shapes), "symbols": dict(function.symbols),
        "plans": [{"rows": plan.rows, "code": plan.code,
                   "kernels": [{"kernel": k.kernel, "gain": k.gain,
                                "bucket": {s: list(v) if isinstance(v, tuple) else v for s, v in k.bucket.items()}}
                               for k in plan.kernels]} for plan in function.plans],
    }


def _function_from(data: Mapping[str, Any]) -> BundleFunction:
    plans = tuple(
        BundlePlan(plan["rows"], plan["code"], tuple(
            BundleKernel(k["kernel"], {s: tuple(v) if isinstance(v, list) else v for s, v in k["bucket"].items()},
                         k["gain"]) for k in plan["kernels"]))
        for plan in data["plans"])
    return BundleFunction(
        data["msbc"], data["msbc_digest"], data["program_digest"], tuple(tuple(p) for p in data["params"]),
        tuple(tuple(c) for c in data["captures"]), tuple(BundleSource(**s) for s in data["sources"]), plans,
        data["options"], data["shapes"], data["symbols"], data["settings"], tuple(tuple(b) for b in data["bindings"]))
