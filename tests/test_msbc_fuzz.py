"""Mutated `.msbc` files are refused or run under limits: none crashes, hangs, or raises what it may not.

A mutation works on bytes (flips, swaps, cuts, splices) or on fields (operands, opcodes, constants, tables), and gets a
fresh digest, so that it reaches the decoder, the verifier and often the interpreter. Single kernels get hostile operands.
The seed is printed; `run_one(seed)` and `call_one(seed)` repeat a single case.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from msbc_corpus import Case, corpus

from prebake.templates import registry
from prebake.vm.errors import VerifyError
from prebake.vm.lang.bytecode import Instruction, Param, Position, Program, seal
from prebake.vm.lang.opcodes import BY_CODE, TABLE

MAX_STEPS = 10_000
MAX_BYTES = 1 << 26
MAX_SECONDS = 1.0  # of processor time, for one file and one run
NASTY: tuple[object, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 64, 65, 255, 10**4, 10**6, 10**9, 10**12, -(10**9), 2**31, 2**63, 2**64,
    10**40, 0.0, -0.0, 0.5, 1e308, -1e-308, float("inf"), float("nan"), 1j, complex("nan+infj"), 1e6j, "", "a", "shape",
    "T", "U999999999", "float64", "O", "ij,jk->ik", "ij,kl->ijkl", "...i,...j", "auto", "reflect", "wrap", "F",
    "%1000000000d", "__class__", "flags", "ctypes", ..., (), (0,), (10**6, 10**6), (0, 10**9), (10**9, 0), (-1,),
    (2, -1), ((1, 2), (3, 4)), 10**5000, (10**5000, -1), "\ud800", "x" * 5000,
    ((10**6, 10**6), (10**6, 10**6)), (1,) * 40, (None, None), (..., None), np.dtype("float16"), np.dtype("int8"),
    np.dtype("complex128"), np.dtype("bool"), np.dtype("float64"), np.dtype("longdouble"), np.dtype(">f4"),
)


# --- mutators of bytes

def flip(rng: random.Random, data: bytearray) -> bytearray:
    for _ in range(rng.choice((1, 1, 2, 5))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return data


def set_bytes(rng: random.Random, data: bytearray) -> bytearray:
    for _ in range(rng.choice((1, 2, 4))):
        data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return data


def swap(rng: random.Random, data: bytearray) -> bytearray:
    size = rng.choice((1, 2, 2, 8))
    a, b = sorted(rng.randrange(max(len(data) - size, 1)) for _ in range(2))
    data[a:a + size], data[b:b + size] = data[b:b + size], data[a:a + size]
    return data


def cut(rng: random.Random, data: bytearray) -> bytearray:
    return data[:rng.randrange(len(data))]


def delete(rng: random.Random, data: bytearray) -> bytearray:
    at = rng.randrange(len(data))
    del data[at:at + rng.choice((1, 2, 2, 8, 40))]
    return data


def splice(rng: random.Random, data: bytearray) -> bytearray:
    other = rng.choice(corpus()).program.to_bytes()
    at, start = rng.randrange(len(data)), rng.randrange(len(other))
    size = rng.choice((2, 8, 40, 400))
    data[at:at + rng.choice((0, size))] = other[start:start + size]
    return data


BYTE_MUTATORS = (flip, flip, set_bytes, set_bytes, swap, cut, delete, splice)


# --- mutators of fields

def _some_instruction(rng: random.Random, program: Program) -> int:
    return rng.randrange(len(program.code))


def _with_code(program: Program, code: list[Instruction]) -> Program:
    positions = (program.positions + program.positions[-1:] * len(code))[:len(code)]
    kernels = set()
    for ins in code:
        for position, (_, kind) in enumerate(BY_CODE[ins.op].operands if ins.op in BY_CODE else ()):
            if kind == "kernel" and position < len(ins.args):
                kernels.add(ins.args[position])
    return replace(program, code=tuple(code), positions=positions, kernels=tuple(sorted(kernels)))


def mutate_operand(rng: random.Random, program: Program) -> Program:
    code = list(program.code)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = _some_instruction(rng, program)
        ins = code[at]
        row = BY_CODE[ins.op]
        if not ins.args:
            continue
        args = list(ins.args)
        where = rng.randrange(len(args))
        kind = row.operands[min(where, len(row.operands) - 1)][1]
        limits = {"const": len(program.constants), "param": len(program.params), "capture": len(program.captures),
                  "target": len(code) + 1, "imm": 12}
        if kind == "kernel":
            args[where] = rng.choice(registry.KERNELS).id
        elif kind in ("srcs", "dsts") and where == len(row.operands) - 1:
            continue
        else:
            args[where] = rng.randrange(max(limits.get(kind, program.n_regs), 1))
        code[at] = replace(ins, args=tuple(args))
    return _with_code(program, code)


def mutate_call(rng: random.Random, program: Program) -> Program:
    """Another kernel, with as many operands as it takes, from any registers."""
    code = list(program.code)
    at = _some_instruction(rng, program)
    kernel = rng.choice(registry.KERNELS)
    parameters = kernel.parameters
    least = sum(p.default is registry.REQUIRED for p in parameters)
    count = rng.randint(least, rng.choice((least, len(parameters))))
    written = [ins.args[0] for ins in code[:at] if BY_CODE[ins.op].operands[:1] == (("dst", "dst"),)] or [0]
    operands = [rng.choice(written) for _ in range(count)]
    into = rng.choice((*code[at].args[:1], rng.choice(written)))
    code[at] = Instruction(0x28, (into, kernel.id, count, *operands))
    return mutate_constant(rng, _with_code(program, code))


def mutate_opcode(rng: random.Random, program: Program) -> Program:
    """Another instruction of the same operand kinds."""
    code = list(program.code)
    at = _some_instruction(rng, program)
    kinds = [kind for _, kind in BY_CODE[code[at].op].operands]
    same = [row.code for row in TABLE if [kind for _, kind in row.operands] == kinds]
    code[at] = replace(code[at], op=rng.choice(same))
    return _with_code(program, code)


def mutate_order(rng: random.Random, program: Program) -> Program:
    code = list(program.code)
    a, b = _some_instruction(rng, program), _some_instruction(rng, program)
    choice = rng.randrange(3)
    if choice == 0:
        code[a], code[b] = code[b], code[a]
    elif choice == 1:
        del code[a]
    else:
        code.insert(a, code[b])
    return _with_code(program, code or list(program.code))


def mutate_constant(rng: random.Random, program: Program) -> Program:
    if not program.constants:
        return program
    constants = list(program.constants)
    for _ in range(rng.choice((1, 1, 2))):
        constants[rng.randrange(len(constants))] = rng.choice(NASTY)
    return replace(program, constants=tuple(constants))


def mutate_hints(rng: random.Random, program: Program) -> Program:
    code = list(program.code)
    at = _some_instruction(rng, program)
    code[at] = replace(code[at], dtype=rng.randrange(18), shape=rng.randrange(3))
    return _with_code(program, code)


def mutate_tables(rng: random.Random, program: Program) -> Program:
    choice = rng.randrange(5)
    if choice == 0:
        return replace(program, n_regs=max(program.n_regs + rng.choice((-2, -1, 1, 60000)), 0))
    if choice == 1:
        return replace(program, symbols=(*program.symbols, rng.choice(("x.shape[0]", "q.shape[1]", "((((", "x[", "?"))))
    if choice == 2:
        param = Param(rng.choice("xyz"), rng.randrange(-1, 3), rng.randrange(3))
        return replace(program, params=(*program.params, param))
    if choice == 3:
        return replace(program, positions=program.positions[:-1])
    return replace(program, functions=program.functions[1:], captures=program.captures[1:])


FIELD_MUTATORS = (mutate_operand, mutate_operand, mutate_call, mutate_call, mutate_call, mutate_opcode, mutate_order,
                  mutate_constant, mutate_constant, mutate_hints, mutate_tables)


def mutate(rng: random.Random, case: Case) -> bytes:
    """The bytes of a mutated program, with a fresh digest."""
    if rng.random() < 0.4:
        data = bytearray(case.program.to_bytes())
        for _ in range(rng.choice((1, 1, 2))):
            if data:
                data = rng.choice(BYTE_MUTATORS)(rng, data)
        return seal(bytes(data))
    program = case.program
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        program = rng.choice(FIELD_MUTATORS)(rng, program)
    try:
        return program.to_bytes()
    except VerifyError:
        return case.program.to_bytes()


# --- running

def run_one(seed: int) -> str:
    """'refused', 'raised <type>' or 'ran' for one mutated file; AssertionError for anything else."""
    rng = random.Random(seed)
    case = rng.choice(corpus())
    data = mutate(rng, case)
    start = time.process_time()
    try:
        program = Program.from_bytes(data)
    except VerifyError as error:
        assert error.faults and all(isinstance(fault, str) and fault for fault in error.faults)
        outcome = "refused"
    else:
        outcome = _run(program, case)
        assert Program.from_bytes(program.to_bytes()) == program
    elapsed = time.process_time() - start
    assert elapsed < MAX_SECONDS, f"{elapsed:.2f} s ({outcome})"
    return outcome


def _run(program: Program, case: Case) -> str:
    args = case.args()[:len(program.params)]
    try:
        program.run(*args, max_steps=MAX_STEPS, max_bytes=MAX_BYTES)
    except Exception as error:
        return f"raised {type(error).__name__}"
    return "ran"


def test_mutated_files_are_refused_or_run_under_limits():
    outcomes = run_apart("run_one", EVERYDAY, 1500)
    assert outcomes.get("refused", 0) > 300, outcomes
    assert outcomes.get("ran", 0) > 100, outcomes


# --- one kernel with hostile operands

def hostile_value(rng: random.Random) -> object:
    """Numbers of every make, shapes, arrays of odd sizes, containers, iterators."""
    number = rng.choice((0, 1, 2, 3, -1, 7, 63, 1000, 10**5, 10**6, 10**9, 10**12, -(10**9), 2**62, 2**64))
    make = rng.choice(("nasty", "number", "numpy", "array", "array", "array", "zero-d", "tuple", "list", "iterator",
                       "nested"))
    if make == "nasty":
        return rng.choice(NASTY)
    if make == "number":
        return rng.choice((number, float(number), complex(0, number)))
    if make in ("numpy", "zero-d"):
        dtype = rng.choice((np.int64, np.float32, np.float64, np.float16, np.longdouble, np.int8, np.bool_, np.uint64))
        with np.errstate(all="ignore"):
            scalar = np.array(float(number)).astype(dtype)
        return scalar if make == "zero-d" else scalar[()]
    if make == "array":
        shape = rng.choice(((0,), (1,), (3,), (4, 4), (0, 5), (100,), (2, 3, 4), (1, 1), (3000,), (200, 200), ()))
        base = np.linspace(-3, 5, max(int(np.prod(shape)), 1))[:int(np.prod(shape))].reshape(shape)
        wide = rng.random() < 0.15
        if wide and shape:
            return np.broadcast_to(base, (rng.choice((10, 1000)), *shape))
        return base.astype(rng.choice((np.float32, np.float64, np.int64, np.int8, bool, np.complex128, np.float16)))
    if make == "tuple":
        return tuple(rng.choice((0, 1, 2, -1, 10**6, number, 1.5, None)) for _ in range(rng.randrange(4)))
    if make == "list":
        return [rng.choice((0, 1, 2, -1, 10**6, number, 1.5)) for _ in range(rng.randrange(4))]
    if make == "iterator":
        return rng.choice((range(number), enumerate(range(number)), zip(range(number), "ab", strict=False),
                           slice(0, number), slice(0, 1, 1j * float(number)), reversed(range(number))))
    return (np.ones((3, 2)), [np.zeros((3, 2)), np.ones(2)], (number, 1))


def call_one(seed: int) -> str:
    """The outcome of one kernel over hostile operands, under limits."""
    rng = random.Random(seed)
    kernel = rng.choice(registry.KERNELS)
    parameters = kernel.parameters
    least = sum(p.default is registry.REQUIRED for p in parameters)
    count = rng.choice((least, least, rng.randint(least, len(parameters))))
    args = [hostile_value(rng) for _ in range(count)]
    if count and rng.random() < 0.5:  # as programs collect `*args`, and as functions of sequences take them
        args[0] = rng.choice((tuple, list))(hostile_value(rng) for _ in range(rng.randrange(1, 4)))
    code = [Instruction(0x18, (i, i)) for i in range(count)]
    code += [Instruction(0x28, (count, kernel.id, count, *range(count))), Instruction(0x0C, (count,))]
    program = Program("m:f", tuple(Param(f"p{i}") for i in range(count)), count + 1, ("?",), (), (), (kernel.id,),
                      tuple(code), (Position(0, 0, 1, 1),) * len(code))
    program.verify()
    start = time.process_time()
    try:
        program.run(*args, max_steps=MAX_STEPS, max_bytes=MAX_BYTES)
        outcome = "ran"
    except Exception as error:
        outcome = f"raised {type(error).__name__}"
    elapsed = time.process_time() - start
    assert elapsed < MAX_SECONDS, f"{kernel.name} took {elapsed:.2f} s ({outcome})"
    return outcome


def test_kernels_with_hostile_operands():
    outcomes = run_apart("call_one", EVERYDAY, 2000)
    assert outcomes.get("ran", 0) > 50, outcomes
    assert outcomes.get("raised LimitError", 0) > 50, outcomes


@pytest.mark.slow
@pytest.mark.parametrize("case", ["run_one", "call_one"])
def test_a_hundred_thousand(case):
    first = random_seed()
    for start in range(first, first + 100_000, 5_000):
        run_apart(case, start, 5_000)


# --- in processes of their own, so that a crash, a hang or an allocation past the limit is seen and named

EVERYDAY = 20_000_000  # first seed of the everyday run, which says the same each time; the slow one looks elsewhere
MEMORY = 3 << 30  # address space of such a process
ONE_HANGS = 60  # seconds


def random_seed() -> int:
    """A first seed, different each time; `run_apart` prints it."""
    return random.SystemRandom().randrange(10**9)


def run_apart(case: str, first: int, count: int) -> dict[str, int]:
    """How often each outcome occurred over the seeds of `run_one` or `call_one`, run in another process."""
    print(f"{case}, seeds {first} to {first + count - 1}")
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, __file__, case, str(first), str(count)], capture_output=True, text=True,
                          timeout=3000, env=os.environ | {"PYTHONPATH": path})
    assert done.returncode == 0, f"{case}, seeds from {first}: {done.stdout[-500:]}{done.stderr[-3000:]}"
    return json.loads(done.stdout)


def run_here(case: str, first: int, count: int) -> dict[str, int]:
    """`run_apart`'s half in the other process: memory limited, hangs reported, the failing seed printed."""
    faulthandler.enable()
    corpus()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    outcomes: dict[str, int] = {}
    seed = first
    try:
        for seed in range(first, first + count):
            faulthandler.dump_traceback_later(ONE_HANGS, exit=True)
            outcome = {"run_one": run_one, "call_one": call_one}[case](seed)
            assert outcome != "raised MemoryError", "the limits let an allocation through that does not fit"
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
    except BaseException:
        print(f"{case}({seed})", file=sys.stderr, flush=True)
        raise
    return outcomes


if __name__ == "__main__":
    print(json.dumps(run_here(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
