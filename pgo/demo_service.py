"""A digit classifier as a user would write it. The demonstration copies this file into a folder and runs it there.

    python prebake_demo_service.py warmup  FOLDER            answers yesterday's requests (recorded by PREBAKE_PROFILE)
    python prebake_demo_service.py numpy   FOLDER START_NS   answers today's, without prebake; prints figures as JSON
    python prebake_demo_service.py prebake FOLDER START_NS   the same with prebake
"""

import json
import sys
import time

import numpy as np

MODE = sys.argv[1] if len(sys.argv) > 1 else "prebake"
if MODE == "numpy":
    def jit(function):
        """No prebake at all."""
        return function
else:
    import prebake
    from prebake import jit  # type: ignore[no-redef]


@jit
def classify(x, params):
    """Probabilities (B, 10) of images x (B, 64)."""
    for w, b in params["hidden"]:
        x = np.maximum(x @ w + b, 0.0)
    w, b = params["out"]
    z = x @ w + b
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def load_params(folder):
    """Weights as nested containers of float32 arrays; frozen for prebake, so that they are packed once."""
    with np.load(f"{folder}/weights.npz") as saved:
        params = {"hidden": [(saved["w0"], saved["b0"]), (saved["w1"], saved["b1"])], "out": (saved["w2"], saved["b2"])}
    return params if MODE == "numpy" else prebake.freeze(params)


def main(folder, start_ns):
    """Answer every request; one line of JSON with what it took."""
    with np.load(f"{folder}/requests.npz") as saved:
        images, labels = saved["images"], saved["labels"]
        sizes = saved["yesterday" if MODE == "warmup" else "today"]
    params = load_params(folder)
    at, right, seen, first_ms = 0, 0, 0, 0.0
    taken_us = []
    clock = time.perf_counter_ns
    for size in sizes.tolist():
        rows = (np.arange(at, at + size)) % len(images)
        x = images[rows]
        began = clock()
        answer = classify(x, params)
        taken_us.append((clock() - began) / 1e3)
        if not seen:
            first_ms = (time.time_ns() - start_ns) / 1e6
        at, seen = at + size, seen + size
        right += int((answer.argmax(axis=1) == labels[rows]).sum())
    figures = {"first_ms": first_ms, "taken_us": taken_us, "accuracy": right / seen}
    if MODE != "numpy":
        stats = classify.stats()
        figures["stats"] = {name: stats[name] for name in ("calls", "prebuilt", "jit", "interpreter", "python")}
    figures["answer"] = classify(images[:16], params).tolist()
    print(json.dumps(figures))


if __name__ == "__main__":
    main(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else time.time_ns())
