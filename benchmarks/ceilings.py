"""What this machine can do at all: float32 FMA rate and copy bandwidth of one core, measured by a small C program.

The figures stand beside every benchmark as its floor: FLOPs over the FMA rate, bytes over the bandwidth.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

_SOURCE = r"""
#include <string.h>
#include <time.h>
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float v __attribute__((vector_size(BYTES)));
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + 1e-9 * t.tv_nsec; }
double fma_rate(void) {
    v a[10], x, y; double best = 0;
    for (int i = 0; i < BYTES / 4; i++) { x[i] = 1.0000001f; y[i] = 1e-9f; }
    for (int i = 0; i < 10; i++) a[i] = x;
    for (int trial = 0; trial < 20; trial++) {
        double start = now();
        for (int n = 0; n < 2000000; n++)
            for (int i = 0; i < 10; i++) a[i] = a[i] * x + y;  /* contracted to FMA where the core has it */
        double rate = 2000000.0 * 10 * (BYTES / 4) * 2 / (now() - start);
        if (rate > best) best = rate;
    }
    volatile float keep = 0; for (int i = 0; i < 10; i++) keep += a[i][0];
    return best;
}
double copy_rate(char *dst, const char *src, long n) {
    double best = 0;
    for (int trial = 0; trial < 10; trial++) {
        double start = now(); memcpy(dst, src, n); double rate = 2.0 * n / (now() - start);
        if (rate > best) best = rate;
    }
    return best;
}
"""


def measure() -> dict[str, float]:
    """{'fma_flops': float32 FLOP/s of one core, 'copy_bytes': bytes read plus written per second}.

    Raises RuntimeError without a C compiler.
    """
    compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise RuntimeError("no C compiler: the ceilings cannot be measured")
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "c.c"), Path(folder, "c.so")
        source.write_text(_SOURCE)
        subprocess.run([compiler, "-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC", "-o", library,
                        source], check=True)
        loaded = ctypes.CDLL(str(library))
        loaded.fma_rate.restype = loaded.copy_rate.restype = ctypes.c_double
        loaded.copy_rate.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
        size = 64 << 20
        a, b = (ctypes.c_char * size)(), (ctypes.c_char * size)()
        ctypes.memset(a, 1, size)
        ctypes.memset(b, 2, size)
        return {"fma_flops": loaded.fma_rate(), "copy_bytes": loaded.copy_rate(a, b, size)}


if __name__ == "__main__":
    for name, value in measure().items():
        print(f"{name:12} {value / 1e9:8.1f} G/s")
