"""prebake: ahead-of-time, profile-guided kernels for dynamic-shape NumPy code.

Everything hangs on this package lazily: importing it imports nothing else.
"""

from __future__ import annotations

# public name -> (module below this package, attribute there; "" means the module itself)
_PUBLIC: dict[str, tuple[str, str]] = {
    "jit": ("vm.run.dispatch", "jit"),
    "engine": ("vm.run.dispatch", "engine"),
    "trace": ("vm.run.dispatch", "trace"),
    "warmup": ("vm.run.dispatch", "warmup"),
    "configure": ("vm.options", "configure"),
    "freeze": ("vm.run.freeze", "freeze"),
    "ready": ("vm.run.dispatch", "ready"),
    "load_bundle": ("vm.run.bundle", "load_bundle"),
    "Bundle": ("vm.run.bundle", "Bundle"),
    "load_packs": ("vm.run.packs", "load_packs"),
    "Packs": ("vm.run.packs", "Packs"),
    "stats": ("vm.run.stats", "stats"),
    "metrics": ("vm.run.stats", "metrics"),
    "profile": ("vm.run.recorder", "profile"),
    "plan": ("pgo.api", "plan"),
    "build": ("pgo.api", "build"),
    "check": ("pgo.api", "check"),
    "pack": ("pgo.pack", "pack"),
    "Program": ("vm.lang.bytecode", "Program"),
    "__version__": ("vm.version", "VERSION"),
    "PrebakeError": ("vm.errors", "PrebakeError"),
    "UnsupportedError": ("vm.errors", "UnsupportedError"),
    "ConfigError": ("vm.errors", "ConfigError"),
    "BundleError": ("vm.errors", "BundleError"),
    "VerifyError": ("vm.errors", "VerifyError"),
    "InternalError": ("vm.errors", "InternalError"),
    "PlanError": ("vm.errors", "PlanError"),
    "load_ipython_extension": ("ipython", "load_ipython_extension"),
    "unload_ipython_extension": ("ipython", "unload_ipython_extension"),
    "ops": ("ops", ""),
    "debug": ("debug", ""),
    "vm": ("vm", ""),
    "pgo": ("pgo", ""),
    "templates": ("templates", ""),
    "configs": ("configs", ""),
}
__all__ = sorted(name for name in _PUBLIC if not name.endswith("_ipython_extension"))


def __getattr__(name: str) -> object:
    try:
        module_name, attribute = _PUBLIC[name]
    except KeyError:
        raise AttributeError(f"module 'prebake' has no attribute {name!r}") from None
    from importlib import import_module

    module = import_module(f".{module_name}", __name__)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PUBLIC})
