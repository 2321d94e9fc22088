"""Words of a nest: what the block engine of templates/include/pb_nest.h runs.

Here is decided what does not depend on extents: conversions between memory and native dtypes, which scratch buffer an
operation writes (reused after the last use), which outputs may be written in place, and the size of a block.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...templates.stencils import ODD_INDEX, cast_index, stencil_index
from ...templates.tapecode import IN_KINDS, MEMORY_CODE, NATIVE_BYTES, NATIVE_CODE, NATIVE_OF, OPCODE, REDUCTION_CODE
from ..plan.code import In, NestCode, NodeOp, Out, Ref

_ARG = ("argmax", "argmin")
_KEEP_ORDER, _STREAM, _GATHER = 1, 2, 4  # PB_NEST_*
_L1_BYTES = 32768
_LARGEST_BLOCK, _SMALLEST_BLOCK, _INDEXED_BLOCK = 2048, 128, 1024
_HEAD_WORDS = 12
_LAST = 1 << 30  # a slot that an output uses lives to the end of the tile


def encode_nest(nest: NestCode, words: list[int]) -> None:
    """Append the nest's words; one nest for each set of reduced axes. Raises KeyError where no stencil exists."""
    masks: list[int] = []
    for out in nest.outs:
        if out.reduce != "store" and out.reduced not in masks:
            masks.append(out.reduced)
    if len(masks) <= 1:
        _Nest(nest).append_to(words)
        return
    for mask in masks[:-1]:  # the stores come last: they may overwrite what the others read
        outs = tuple(o for o in nest.outs if o.reduce != "store" and o.reduced == mask)
        _Nest(_keep_live(nest, outs)).append_to(words)
    rest = tuple(o for o in nest.outs if o.reduce == "store" or o.reduced == masks[-1])
    _Nest(_keep_live(nest, rest)).append_to(words)


def _used_by(out: Out) -> list[int]:
    """The slots that an output reads."""
    return [s for s in (out.slot, out.mask, *(i[0] for i in out.indexes)) if s >= 0]


def _keep_live(nest: NestCode, outs: tuple[Out, ...]) -> NestCode:
    """The nest with only these outputs, and only the inputs and operations that they need."""
    n_in = len(nest.inputs)
    live: set[int] = set()
    stack = [s for o in outs for s in _used_by(o)]
    while stack:
        slot = stack.pop()
        if slot not in live:
            live.add(slot)
            if slot >= n_in:
                op = nest.ops[slot - n_in]
                stack += [*op.args, *(i[0] for i in op.indexes)]
    number = {slot: k for k, slot in enumerate(sorted(live))}

    def renumber(indexes: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int], ...]:
        return tuple((number[s], e, st) for s, e, st in indexes)

    inputs = tuple(x for k, x in enumerate(nest.inputs) if k in live)
    ops = tuple(NodeOp(op.op, op.dtype, op.operand_dtype, tuple(number[a] for a in op.args), op.memory, op.ref,
                       renumber(op.indexes), op.position) for k, op in enumerate(nest.ops) if k + n_in in live)
    kept = tuple(Out(o.slot if o.slot < 0 else number[o.slot], o.reduce, o.memory, o.ref, o.reduced,
                     number[o.mask] if o.mask >= 0 else -1, renumber(o.indexes), o.position) for o in outs)
    return NestCode(nest.axes, inputs, ops, kept)


class _Op:
    """One operation to be encoded: a stencil, or a gather."""

    __slots__ = ("args", "dtype", "gather", "indexes", "scratch", "stencil")

    def __init__(self, stencil: int, dtype: str, args: tuple[int, ...], gather: NodeOp | None = None,
                 indexes: tuple[tuple[int, int, int], ...] = ()) -> None:
        self.stencil, self.dtype, self.args, self.gather, self.indexes = stencil, dtype, args, gather, indexes
        self.scratch = -1

    def reads(self) -> tuple[int, ...]:
        return self.args + tuple(i[0] for i in self.indexes)


class _Nest:
    """A nest whose outputs reduce at most one set of axes, on its way to words."""

    def __init__(self, nest: NestCode) -> None:
        self.nest = nest
        self.n_in = len(nest.inputs)
        self.dtypes: list[str] = []  # native dtype of each slot
        self.ops: list[_Op] = []
        self.made: dict[tuple[str, int], int] = {}  # (conversion, slot) -> slot
        self.slot_of: list[int] = []  # the nest's slot -> ours
        for k, item in enumerate(nest.inputs):
            self.dtypes.append(NATIVE_OF[item.memory] if item.kind == "view" else item.dtype)
            self.slot_of.append(k)
        for k, item in enumerate(nest.inputs):
            self.slot_of[k] = self._converted(k, item.dtype)
        for op in nest.ops:
            self.slot_of.append(self._add(op))
        several = len(nest.outs) > 1
        # reductions first: an output in place may overwrite the input that they read
        self.outs = [self._out(o, several) for o in sorted(nest.outs, key=lambda o: o.reduce == "store")]

    def _push(self, op: _Op) -> int:
        self.ops.append(op)
        self.dtypes.append(op.dtype)
        return len(self.dtypes) - 1

    def _converted(self, slot: int, dtype: str, memory: str = "") -> int:
        """The slot as native `dtype`; memory: where it is stored next."""
        frm = self.dtypes[slot]
        if frm == dtype:
            return slot
        odd = memory == "f16" and frm == "f64"
        key = ("odd" if odd else dtype, slot)
        found = self.made.get(key)
        if found is None:
            stencil = ODD_INDEX if odd else cast_index(frm, dtype)
            found = self.made[key] = self._push(_Op(stencil, dtype, (slot,)))
        return found

    def _indexes(self, indexes: tuple[tuple[int, int, int], ...]) -> tuple[tuple[int, int, int], ...]:
        return tuple((self._converted(self.slot_of[s], "i64"), extent, stride) for s, extent, stride in indexes)

    def _add(self, op: NodeOp) -> int:
        if op.op == "gather":
            slot = self._push(_Op(0, NATIVE_OF[op.memory], (), op, self._indexes(op.indexes)))
            return self._converted(slot, op.dtype)
        args = tuple(self.slot_of[a] for a in op.args)
        if op.op == "mov":
            return args[0]
        if op.op == "cast":
            return self._converted(args[0], op.dtype)
        operands = op.dtype if op.op == "select" else op.operand_dtype
        return self._push(_Op(stencil_index(op.op, operands), op.dtype, args))

    def _is_memory(self, slot: int) -> bool:
        """Whether the slot may point into a view."""
        if slot < self.n_in:
            return self.nest.inputs[slot].kind == "view"
        return self.ops[slot - self.n_in].gather is not None

    def _own(self, slot: int) -> int:
        """The slot, copied if it may point into a view that another output overwrites."""
        if not self._is_memory(slot):
            return slot
        dtype = self.dtypes[slot]
        return self._push(_Op(stencil_index("mov", dtype), dtype, (slot,)))

    def _out(self, out: Out, several: bool) -> Out:
        native = NATIVE_OF[out.memory]
        slot = self.slot_of[out.slot]
        if out.reduce in ("any", "all"):
            slot = self._converted(slot, "bool")
        elif out.reduce not in _ARG:
            slot = self._converted(slot, native, out.memory)
        elif native != "i64":
            raise KeyError(f"{out.reduce} into {out.memory}")
        mask, indexes = out.mask, self._indexes(out.indexes)
        if mask >= 0:
            mask = self.slot_of[mask]
        if several and out.reduce == "store":
            slot = self._own(slot)
            mask = self._own(mask) if mask >= 0 else mask
            indexes = tuple((self._own(s), e, st) for s, e, st in indexes)
        return Out(slot, out.reduce, out.memory, out.ref, out.reduced, mask, indexes, out.position)

    # --- scratch ------------------------------------------------------------------------------------------------------

    def _last_uses(self) -> list[int]:
        last = [-1] * len(self.dtypes)
        for k, op in enumerate(self.ops):
            for slot in op.reads():
                last[slot] = k
        for out in self.outs:
            for slot in _used_by(out):
                last[slot] = _LAST
        return last

    def _assign_scratch(self, last: Sequence[int]) -> int:
        """Give each operation a buffer; returns how many there are."""
        free: list[int] = []
        count = 0
        for k, op in enumerate(self.ops):
            dying = []
            for slot in set(op.reads()):
                if slot >= self.n_in and last[slot] == k:
                    dying.append(self.ops[slot - self.n_in])
            # in place only where an element overwrites the element it is made of
            reusable = [d for d in dying if op.gather is None and NATIVE_BYTES[d.dtype] == NATIVE_BYTES[op.dtype]]
            if reusable:
                op.scratch = reusable[0].scratch
                dying.remove(reusable[0])
            elif free:
                op.scratch = free.pop()
            else:
                op.scratch = count
                count += 1
            free += [d.scratch for d in dying]
            if last[self.n_in + k] < 0:  # never used
                free.append(op.scratch)
        return count

    # --- words --------------------------------------------------------------------------------------------------------

    def append_to(self, words: list[int]) -> None:
        nest, ops = self.nest, self.ops
        last = self._last_uses()
        n_scratch = self._assign_scratch(last)
        item = max([NATIVE_BYTES[op.dtype] for op in ops], default=1)
        # from this operation on, outputs may be written at once: nothing reads a view any more
        reads_view = [k for k, op in enumerate(ops)
                      if op.gather is not None or any(self._is_memory(s) for s in op.reads())]
        first_direct = self.n_in + max(reads_view, default=0)
        if any(self._is_memory(s) for o in self.outs for s in _used_by(o)):
            first_direct = _LAST
        is_copy = not ops and len(self.outs) == 1
        views = [x for x in nest.inputs if x.kind == "view"]
        reduced = [o for o in self.outs if o.reduce != "store"]
        is_indexed = any(o.mask >= 0 or o.indexes for o in self.outs)
        gathers = sum(op.gather is not None for op in ops)
        iotas = sum(x.kind == "iota" for x in nest.inputs)
        memories = [x.memory for x in views] + [o.memory for o in self.outs]
        is_plain = all(NATIVE_OF[m] == m for m in memories)
        flags = _KEEP_ORDER if any(o.indexes for o in self.outs) else 0
        if len(ops) <= 1 and is_plain and not (reduced or is_indexed or gathers):
            flags |= _STREAM
        if gathers:
            flags |= _GATHER
        n_buffers = n_scratch + sum(NATIVE_OF[x.memory] != x.memory for x in views) + bool(reduced)
        block = _INDEXED_BLOCK if is_indexed or gathers or iotas else _LARGEST_BLOCK
        while block > _SMALLEST_BLOCK and block * item * n_buffers > _L1_BYTES:
            block //= 2
        arg_axis = next((o.reduced.bit_length() - 1 for o in reduced if o.reduce in _ARG), -1)

        out: list[int] = [
            0, len(nest.axes), self.n_in, len(ops), len(self.outs), len(views) + iotas + gathers + len(self.outs),
            n_scratch, item, block, flags, arg_axis, reduced[0].reduced if reduced else 0, *nest.axes,
        ]
        for item_in in nest.inputs:
            _append_input(out, item_in)
        for op in ops:
            _append_op(out, op)
        for o in self.outs:
            direct = is_copy or o.slot >= first_direct
            out += (REDUCTION_CODE[o.reduce], o.slot, NATIVE_CODE[self.dtypes[o.slot]], MEMORY_CODE[o.memory],
                    o.ref.base, o.ref.offset, o.mask, direct, o.position, len(o.indexes), *o.ref.strides)
            for index in o.indexes:
                out += index
        out[0] = len(out)
        words.append(OPCODE["nest"])
        words += out


def _append_input(out: list[int], x: In) -> None:
    kind = IN_KINDS[x.kind]
    if x.kind == "view":
        ref = x.ref or Ref(-1, -1, ())
        out += (kind, NATIVE_CODE[NATIVE_OF[x.memory]], MEMORY_CODE[x.memory], ref.base, ref.offset, *ref.strides)
    else:
        out += (kind, NATIVE_CODE[x.dtype], x.reg if x.kind == "scalar" else x.axis)


def _append_op(out: list[int], op: _Op) -> None:
    if op.gather is None:
        args = op.args + (-1,) * (3 - len(op.args))
        out += (0, op.stencil, NATIVE_CODE[op.dtype], len(op.args), *args, op.scratch)
        return
    node = op.gather
    ref = node.ref or Ref(-1, -1, ())
    out += (1, 0, NATIVE_CODE[op.dtype], 0, -1, -1, -1, op.scratch, MEMORY_CODE[node.memory], node.position,
            len(op.indexes), ref.base, ref.offset, *ref.strides)
    for index in op.indexes:
        out += index
