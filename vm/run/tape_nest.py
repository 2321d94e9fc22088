"""Words of a nest: what the block engine of templates/include/pb_nest.h runs.

Here is decided what does not depend on extents: conversions between memory and native dtypes, which scratch buffer an
operation writes (reused after the last use), which outputs may be written in place, and the size of a block.
"""

from __future__ import annotations

from collections.abc import Container

from ...templates.stencils import ODD_INDEX, STENCIL_INDEX, STRIP_INDEXES, cast_index
from ...templates.tapecode import IN_KINDS, MEMORY_CODE, NATIVE_BYTES, NATIVE_CODE, NATIVE_OF, OPCODE, REDUCTION_CODE
from ..plan.code import In, NestCode, NodeOp, Out

_ARG = ("argmax", "argmin")
_KEEP_ORDER, _STREAM, _GATHER, _STRIPS, _ROWS = 1, 2, 4, 8, 16  # PB_NEST_*
_NUMBER_REDUCTIONS = frozenset({"store", "sum", "max", "min"})
_ROW_REDUCTIONS = {"bool": frozenset({"store", "any", "all"}), "i32": _NUMBER_REDUCTIONS, "i64": _NUMBER_REDUCTIONS,
                   "f32": _NUMBER_REDUCTIONS, "f64": _NUMBER_REDUCTIONS}
_L1_BYTES = 32768
_LARGEST_BLOCK, _SMALLEST_BLOCK, _INDEXED_BLOCK = 2048, 128, 1024
_STRIP_BLOCK = 8192  # where scratch is hardly used: each tile costs some jumps that nobody foresaw
_MOST_AXES = 31  # sets of axes are bit masks in a word
_NO_ARGS = ((-1, -1, -1), (-1, -1), (-1,), ())
_LAST = 1 << 30  # a slot that an output uses lives to the end of the tile


def encode_nest(nest: NestCode, words: list[int], zeros: Container[int] = ()) -> None:
    """Append the nest's words; one nest for each set of reduced axes. Raises KeyError where no stencil exists.

    zeros: registers that hold the constant 0.
    """
    if len(nest.outs) == 1:
        _Nest(nest, zeros).append_to(words)
        return
    masks: list[int] = []
    for out in nest.outs:
        if out.reduce != "store" and out.reduced not in masks:
            masks.append(out.reduced)
    if len(masks) <= 1:
        _Nest(nest, zeros).append_to(words)
        return
    for mask in masks[:-1]:  # the stores come last: they may overwrite what the others read
        outs = tuple(o for o in nest.outs if o.reduce != "store" and o.reduced == mask)
        _Nest(_keep_live(nest, outs), zeros).append_to(words)
    rest = tuple(o for o in nest.outs if o.reduce == "store" or o.reduced == masks[-1])
    _Nest(_keep_live(nest, rest), zeros).append_to(words)


def _used_by(out: Out) -> list[int]:
    """The slots that an output reads."""
    used = [out.slot] if out.mask < 0 else [out.slot, out.mask]
    for index in out.indexes:
        used.append(index[0])
    return used


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
    """One operation to be encoded: a stencil, or a gather. reads: the slots that it needs."""

    __slots__ = ("args", "dtype", "gather", "indexes", "item", "reads", "scratch", "stencil")

    def __init__(self, stencil: int, dtype: str, args: tuple[int, ...], gather: NodeOp | None = None,
                 indexes: tuple[tuple[int, int, int], ...] = ()) -> None:
        self.stencil, self.dtype, self.args, self.gather, self.indexes = stencil, dtype, args, gather, indexes
        self.reads = args + tuple([i[0] for i in indexes]) if indexes else args
        self.item = NATIVE_BYTES[dtype]
        self.scratch = -1


class _Nest:
    """A nest whose outputs reduce at most one set of axes, on its way to words.

    This runs for every nest of a plan that is specialised while a caller waits: loops are plain and few.
    """

    def __init__(self, nest: NestCode, zeros: Container[int]) -> None:
        if len(nest.axes) > _MOST_AXES:
            raise KeyError(f"a nest over {len(nest.axes)} axes")
        self.nest, self.zeros = nest, zeros
        self.n_in = len(nest.inputs)
        self.dtypes: list[str] = []  # native dtype of each slot
        self.is_memory: list[bool] = []  # whether a slot may point into a view
        self.ops: list[_Op] = []
        self.made: dict[tuple[str, int], int] = {}  # (conversion, slot) -> slot
        self.slot_of: list[int] = list(range(self.n_in))  # the nest's slot -> ours
        for item in nest.inputs:
            is_view = item.kind == "view"
            self.dtypes.append(NATIVE_OF[item.memory] if is_view else item.dtype)
            self.is_memory.append(is_view)
        for k, item in enumerate(nest.inputs):
            if item.dtype != self.dtypes[k]:
                self.slot_of[k] = self._converted(k, item.dtype)
        self.sums = self._direct_sums()
        for k, op in enumerate(nest.ops):
            self.slot_of.append(-1 if k in self.sums else self._add(op))
        several = len(nest.outs) > 1
        outs = sorted(nest.outs, key=_is_store) if several else nest.outs  # reductions first: see _own
        self.outs = [self._out(o, several) for o in outs]

    def _direct_sums(self) -> dict[int, tuple[int, int]]:
        """Operations that a sum does by itself -> (slot, mask) of the nest: casts of booleans, which it counts, and zeros
        instead of what is not under a mask, which it passes over."""
        found: dict[int, tuple[int, int]] = {}
        nest, n_in = self.nest, self.n_in
        used: list[int] = []
        for out in nest.outs:
            if out.reduce == "sum" and out.slot >= n_in:
                op = nest.ops[out.slot - n_in]
                if op.op == "cast" and op.operand_dtype == "bool" and out.memory == op.dtype and op.dtype in ("i64", "f64"):
                    found[out.slot - n_in] = (op.args[0], -1)
                    continue
                if op.op == "select" and NATIVE_OF[out.memory] == op.dtype and op.args[2] < n_in:
                    other = nest.inputs[op.args[2]]
                    if other.kind == "scalar" and other.reg in self.zeros:
                        found[out.slot - n_in] = (op.args[1], op.args[0])
                        continue
            used += _used_by(out)
        if found:
            for op in nest.ops:
                used += (*op.args, *[i[0] for i in op.indexes])
            for slot in used:
                found.pop(slot - n_in, None)
        return found

    def _push(self, op: _Op) -> int:
        self.ops.append(op)
        self.dtypes.append(op.dtype)
        self.is_memory.append(op.gather is not None)
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
        return tuple([(self._converted(self.slot_of[s], "i64"), extent, stride) for s, extent, stride in indexes])

    def _add(self, op: NodeOp) -> int:
        name = op.op
        if name == "gather":
            slot = self._push(_Op(0, NATIVE_OF[op.memory], (), op, self._indexes(op.indexes)))
            return self._converted(slot, op.dtype)
        slot_of = self.slot_of
        args = tuple([slot_of[a] for a in op.args])
        if name == "mov":
            return args[0]
        if name == "cast":
            return self._converted(args[0], op.dtype)
        if name == "mul" and args[0] == args[1]:
            name, args = "square", args[:1]  # the same bits
        stencil = STENCIL_INDEX[name, op.dtype if name == "select" else op.operand_dtype]
        return self._push(_Op(stencil, op.dtype, args))

    def _own(self, slot: int) -> int:
        """The slot, copied if it may point into a view that another output overwrites in place.

        Stores happen one after the other at the end of a tile, after all reductions.
        """
        if not self.is_memory[slot]:
            return slot
        dtype = self.dtypes[slot]
        return self._push(_Op(STENCIL_INDEX["mov", dtype], dtype, (slot,)))

    def _out(self, out: Out, several: bool) -> Out:
        native = NATIVE_OF[out.memory]
        if out.slot - self.n_in in self.sums:
            slot, mask = self.sums[out.slot - self.n_in]
            return Out(self.slot_of[slot], out.reduce, out.memory, out.ref, out.reduced,
                       self.slot_of[mask] if mask >= 0 else -1)
        slot = self.slot_of[out.slot]
        if out.reduce in ("any", "all"):
            slot = self._converted(slot, "bool")
        elif out.reduce not in _ARG:  # what is compressed has the memory's own type, as what is stored
            slot = self._converted(slot, native, out.memory)
        elif native != "i64":
            raise KeyError(f"{out.reduce} into {out.memory}")
        mask, indexes = out.mask, self._indexes(out.indexes)
        if mask >= 0:
            mask = self.slot_of[mask]
        if several and out.reduce == "store":
            slot = self._own(slot)
            mask = self._own(mask) if mask >= 0 else mask
            indexes = tuple([(self._own(s), e, st) for s, e, st in indexes])
        return Out(slot, out.reduce, out.memory, out.ref, out.reduced, mask, indexes, out.position)

    # --- scratch ------------------------------------------------------------------------------------------------------

    def _assign_scratch(self) -> int:
        """Give each operation a buffer, reused after the last use of what it holds; returns how many there are."""
        ops, n_in = self.ops, self.n_in
        last = [-1] * len(self.dtypes)
        for k, op in enumerate(ops):
            for slot in op.reads:
                last[slot] = k
        for out in self.outs:
            for slot in _used_by(out):
                last[slot] = _LAST
        free: list[int] = []
        count = 0
        for k, op in enumerate(ops):
            op.scratch = -1
            for slot in op.reads:
                if slot >= n_in and last[slot] == k:
                    last[slot] = _LAST  # an operand that is read twice dies once
                    dying = ops[slot - n_in]
                    # in place only where an element overwrites the element it is made of
                    if op.scratch < 0 and dying.item == op.item and op.gather is None:
                        op.scratch = dying.scratch
                    else:
                        free.append(dying.scratch)
            if op.scratch < 0:
                held = [ops[s - n_in].scratch for s in op.reads if s >= n_in]
                usable = [s for s in free if s not in held]
                if usable:
                    op.scratch = usable[-1]
                    free.remove(op.scratch)
                else:
                    op.scratch = count
                    count += 1
            if last[n_in + k] < 0:  # never used
                free.append(op.scratch)
        return count

    def _common_mask(self) -> int:
        """The slot of an operation without which no output changes, or -1. What traps is computed everywhere."""
        masks = {self._mask_of(out) for out in self.outs}
        mask = masks.pop() if len(masks) == 1 else -1
        return -1 if mask < self.n_in or any(op.gather is not None for op in self.ops) else mask

    def _mask_of(self, out: Out) -> int:
        """The bool slot under which alone an output stores, or sums anything but zeros; -1: there is none.

        A sum over no axes begins with its one element: that is written, zero or not.
        """
        if out.reduce == "sum":
            if not out.reduced:
                return -1
            if self.dtypes[out.slot] == "bool":
                return out.slot
        return -1 if out.indexes else out.mask

    # --- words --------------------------------------------------------------------------------------------------------

    def append_to(self, words: list[int]) -> None:
        """Append the nest's instruction."""
        nest, ops, outs, is_memory = self.nest, self.ops, self.outs, self.is_memory
        n_scratch = self._assign_scratch()
        item, gathers, last_reader = 1, 0, 0
        for k, op in enumerate(ops):
            if op.item > item:
                item = op.item
            if op.gather is not None:
                gathers += 1
                last_reader = k
            else:
                for slot in op.reads:
                    if is_memory[slot]:
                        last_reader = k
        # from this operation on, outputs may be written at once: nothing reads a view any more
        first_direct = self.n_in + last_reader
        reduced, arg_axis = 0, -1
        has_reduction = is_indexed = is_scatter = is_compress = False
        is_plain = True
        for out in outs:
            for slot in _used_by(out):
                if is_memory[slot]:
                    first_direct = _LAST
            if out.reduce == "compress":
                is_compress = True
            elif out.reduce != "store":
                has_reduction, reduced = True, out.reduced
                if out.reduce in _ARG:
                    arg_axis = reduced.bit_length() - 1
            is_scatter = is_scatter or bool(out.indexes)
            is_indexed = is_indexed or (out.mask >= 0 and out.reduce != "sum")
            is_plain = is_plain and NATIVE_OF[out.memory] == out.memory
        is_indexed = is_indexed or is_scatter
        n_views = n_iotas = 0
        n_buffers = n_scratch + has_reduction
        for x in nest.inputs:
            if x.kind == "view":
                n_views += 1
                if NATIVE_OF[x.memory] != x.memory:
                    is_plain = False
                    n_buffers += 1
            elif x.kind == "iota":
                n_iotas += 1
        flags = _KEEP_ORDER if is_scatter or is_compress else 0
        if len(ops) <= 1 and is_plain and not (has_reduction or is_indexed or gathers):
            flags |= _STREAM
        if gathers:
            flags |= _GATHER
        block = _INDEXED_BLOCK if is_indexed or gathers or n_iotas else _LARGEST_BLOCK
        if is_plain and not (is_indexed or gathers or n_iotas) and STRIP_INDEXES.issuperset([op.stencil for op in ops]):
            dtypes = set(self.dtypes)
            if not has_reduction and len(dtypes) == 1 and "bool" not in dtypes:
                block, n_buffers = _STRIP_BLOCK, n_scratch
                if ops:
                    flags |= _STRIPS
            lanes = {NATIVE_BYTES[dtype] for dtype in dtypes if dtype != "bool"}  # truth values become as wide as the others
            # under masks that lie in memory most values may not have to be read at all: tiles are passed over
            fits = len(lanes) == 1
            for out in outs:
                fits = fits and out.reduce in _ROW_REDUCTIONS[self.dtypes[out.slot]] and not 0 <= out.mask < self.n_in
            if fits:
                flags |= _ROWS
                item = lanes.pop()
        while block > _SMALLEST_BLOCK and block * item * n_buffers > _L1_BYTES:
            block //= 2

        out_words: list[int] = [
            0, len(nest.axes), self.n_in, len(ops), len(outs), n_views + n_iotas + gathers + len(outs), n_scratch, item,
            block, flags, self._common_mask(), arg_axis, reduced, *nest.axes,
        ]
        for x in nest.inputs:
            _append_input(out_words, x)
        for op in ops:
            _append_op(out_words, op)
        is_copy = not ops and len(outs) == 1
        for out in outs:
            direct = is_copy or out.slot >= first_direct
            ref = out.ref
            out_words += (REDUCTION_CODE[out.reduce], out.slot, NATIVE_CODE[self.dtypes[out.slot]],
                          MEMORY_CODE[out.memory], ref.base, ref.offset, out.mask, direct, out.position,
                          len(out.indexes), *ref.strides)
            for index in out.indexes:
                out_words += index
        out_words[0] = len(out_words)
        words.append(OPCODE["nest"])
        words += out_words


def _is_store(out: Out) -> bool:
    return out.reduce == "store"


def _append_input(words: list[int], x: In) -> None:
    if x.kind == "view":
        ref = x.ref
        assert ref is not None
        words += (IN_KINDS["view"], NATIVE_CODE[NATIVE_OF[x.memory]], MEMORY_CODE[x.memory], ref.base, ref.offset,
                  *ref.strides)
    else:
        words += (IN_KINDS[x.kind], NATIVE_CODE[x.dtype], x.reg if x.kind == "scalar" else x.axis)


def _append_op(words: list[int], op: _Op) -> None:
    node = op.gather
    if node is None:
        n = len(op.args)
        words += (0, op.stencil, NATIVE_CODE[op.dtype], n, *op.args, *_NO_ARGS[n], op.scratch)
        return
    ref = node.ref
    assert ref is not None
    words += (1, 0, NATIVE_CODE[op.dtype], 0, *_NO_ARGS[0], op.scratch, MEMORY_CODE[node.memory], node.position,
              len(op.indexes), ref.base, ref.offset, *ref.strides)
    for index in op.indexes:
        words += index
