# One plan, ready to run: replay its rows, fill the registers of its leaves, bind, allocate, run, build the result.

cdef char *allocate_late(pb_frame *frame, int32_t output) noexcept with gil:
    # a result whose shape the body found out; NULL: no memory, or no array has such a shape
    cdef CallState *s = <CallState *>frame.owner
    cdef Entry entry = <Entry>s.entry
    if output < 0 or output >= entry.n_outputs:
        return NULL
    try:
        return pb_data(entry.new_output(s, output))
    except (MemoryError, ValueError):
        return NULL


cdef class Entry:
    """A plan with the code that runs it: a tape, or the kernels of a bundle.

    rows: tuples of ROW_FIELDS. spec: `plan.code_json.dispatch_spec`. kernels: [(name, bucket)] with the addresses that
    `use_kernels` sets, or none with `use_tape`. Raises ValueError, KeyError or TypeError for a spec that is none.
    """

    cdef int n_owned
    cdef int64_t seen_epoch            # `frozen_epoch` while the steps' `base` hold
    cdef pb_step *steps                # of the rows, as `pb_replay` reads them
    cdef int *owned                    # rows whose values are held for the call
    cdef int n_rows, n_leaves, n_regs, n_outputs, n_packs, n_keys, n_kernels, arena_reg, n_steps
    cdef RowC *rows
    cdef LeafC *leaves
    cdef OutputC *outputs
    cdef PackC *pack_specs
    cdef KeyC *keys
    cdef int64_t *key_scratch
    cdef pb_reg *image
    cdef KernelC *kernels
    cdef Chooser chooser
    cdef const void *plan
    cdef pb_bind_fn bind
    cdef pb_run_fn run
    cdef const pb_library *library
    cdef ResultNode result
    cdef list calls                    # CallSite of each call-out
    cdef ShapeTable shapes
    cdef int failed_row
    cdef readonly bint writes
    cdef bint packs_optional  # kernels take a missing pack: weights that may change are served too, unpacked
    cdef readonly tuple row_tuples
    cdef readonly dict spec
    cdef readonly list symbols         # names of the extents that are counted
    cdef readonly list kernel_names
    cdef readonly list buckets         # of the kernels, {symbol: (lo, hi)}
    cdef public dict sample            # symbols when the plan was made
    cdef public object hot             # called once with the entry when it served a shape often, or None
    cdef public object note            # whatever the owner wants to remember: plan log, fired rules
    cdef object keepalive

    def __init__(self, tuple rows, dict spec, int64_t max_shapes=1024):
        cdef int i, axis
        cdef LeafC *leaf
        cdef OutputC *out
        cdef PackC *pack
        self.failed_row = -1
        self.row_tuples, self.spec = rows, spec
        self.keepalive = []
        self.kernel_names, self.buckets = [], []
        self.n_rows = len(rows)
        self.rows = <RowC *>self.room(self.n_rows, sizeof(RowC))
        for i, row in enumerate(rows):
            self.set_row(i, row)
        types = spec["types"]
        self.n_regs = spec["n_regs"]
        if not 0 < self.n_regs < 1 << 20:
            raise ValueError("wrong number of registers")
        self.image = <pb_reg *>self.room(self.n_regs, sizeof(pb_reg))
        self.arena_reg = self.register(spec["arena"])
        self.n_steps = spec["steps"]
        self.n_leaves = len(spec["leaves"])
        self.leaves = <LeafC *>self.room(self.n_leaves, sizeof(LeafC))
        for i, (row, ptr, extents, strides, scalar) in enumerate(spec["leaves"]):
            leaf = &self.leaves[i]
            leaf.row, leaf.ptr, leaf.scalar = self.row_number(row), self.register(ptr, True), self.register(scalar, True)
            leaf.n_extents, leaf.n_strides = len(extents), len(strides)
            if max(leaf.n_extents, leaf.n_strides) > self.rows[leaf.row].ndim:
                raise ValueError("a leaf has more axes than its row")
            leaf.extents, leaf.strides = self.registers(extents), self.registers(strides)
            if leaf.scalar >= 0:
                leaf.is_float = REGISTER_KINDS[types[str(scalar)]]
        self.set_steps()
        self.n_outputs = len(spec["outputs"])
        self.outputs = <OutputC *>self.room(self.n_outputs, sizeof(OutputC))
        for i, (dtype, shape, ptr, early) in enumerate(spec["outputs"]):
            out = &self.outputs[i]
            out.dtype, out.ndim, out.ptr, out.early = DTYPE_CODES[dtype], len(shape), self.register(ptr), early
            if out.ndim > STACK_AXES:
                raise ValueError("a result has too many axes")
            out.shape = self.registers(shape)
        # constants that are written elsewhere could overlap what this plan writes: then they must be constant
        self.packs_optional = bool(spec.get("optional_packs")) and not self.writes
        self.n_packs = len(spec["packs"])
        self.pack_specs = <PackC *>self.room(self.n_packs, sizeof(PackC))
        for i, (row, dtype, k, n, offset, row_stride, col_stride) in enumerate(spec["packs"]):
            pack = &self.pack_specs[i]
            pack.row, pack.dtype, pack.k, pack.n = self.row_number(row), PRODUCT_DTYPES[dtype], k, n
            pack.offset, pack.row_stride, pack.col_stride = offset, row_stride, col_stride
            if not self.rows[pack.row].flags & ROW_CONSTANT:
                raise ValueError("a packed operand is not constant")
        for reg, value in spec["consts"]:
            self.set_const(self.register(reg), types[str(reg)], value)
        self.result = ResultNode(spec["result"], types)
        self.calls = [CallSite(call, self.n_regs, self.n_outputs) for call in spec.get("calls", ())]
        self.check_result(self.result)
        keys = []
        self.symbols = []
        for i, row in enumerate(rows):
            path = row[4]
            if self.rows[i].kind == KIND_ARRAY and not self.rows[i].flags & ROW_CONSTANT:
                for axis in range(self.rows[i].ndim):
                    keys.append((i, axis, -1))
                    self.symbols.append(f"{path}.shape[{axis}]")
            elif self.rows[i].kind in (KIND_INT, KIND_NUMPY) and path in spec["symbols"]:
                keys.append((i, -1, self.register(spec["symbols"][path])))
                self.symbols.append(path)
        self.n_keys = len(keys)
        self.keys = <KeyC *>self.room(self.n_keys, sizeof(KeyC))
        self.key_scratch = <int64_t *>self.room(self.n_keys, sizeof(int64_t))
        for i, key in enumerate(keys):
            self.keys[i].row, self.keys[i].axis, self.keys[i].reg = key
        self.shapes = ShapeTable(self.n_keys, max_shapes)

    # --- making one

    cdef void *room(self, Py_ssize_t n, size_t size) except NULL:
        # zeroed memory that lives as long as the entry
        block = bytearray(max(n, 1) * size)
        self.keepalive.append(block)
        cdef char *p = block
        return p

    cdef int register(self, object number, bint may_miss=False) except -2:
        cdef int reg = number
        if not (0 <= reg < self.n_regs or (may_miss and reg == -1)):
            raise ValueError(f"register {number} is out of range")
        return reg

    cdef int *registers(self, object numbers) except NULL:
        cdef int i
        cdef int *out = <int *>self.room(len(numbers), sizeof(int))
        for i, number in enumerate(numbers):
            out[i] = self.register(number, True)
        return out

    cdef int row_number(self, object number) except -1:
        if not 0 <= number < self.n_rows:
            raise ValueError(f"row {number} is out of range")
        return number

    cdef int check_result(self, ResultNode node) except -1:
        cdef int i
        if node.kind in (RESULT_NEW, RESULT_VIEW) and not -1 <= node.output < self.n_outputs:
            raise ValueError("a result is no output")
        if node.kind == RESULT_NEW and node.output < 0:
            raise ValueError("a result is no output")
        if node.kind == RESULT_ARG or (node.kind == RESULT_VIEW and node.output < 0):
            self.row_number(node.row)
            if node.kind == RESULT_VIEW and self.rows[node.row].kind != KIND_ARRAY:
                raise ValueError("a result is a view of no array")
        if node.kind == RESULT_VIEW:
            self.register(node.offset, True)
            for i in range(node.ndim):
                self.register(node.shape[i])
                self.register(node.strides[i])
        if node.kind in (RESULT_SCALAR, RESULT_CHOICE):
            self.register(node.reg)
        for item in node.items or ():
            self.check_result(item)
        return 0

    cdef int set_const(self, int reg, object kind, object value) except -1:
        if type(value) is str:
            value = float.fromhex(value[2:])
        if kind == "f32":
            self.image[reg].f = value
        elif kind == "f64":
            self.image[reg].d = value
        else:
            self.image[reg].i = value
        return 0

    cdef int set_row(self, int i, tuple fields) except -1:
        cdef RowC *row = &self.rows[i]
        (how, parent, key, kind, path, dtype, ndim, layout, constant, writable, shape, python, value, type_name, length,
         keys) = fields
        row.how = HOW_CODES[how]
        row.parent = parent
        if row.how in (HOW_ATTR, HOW_INDEX) and not 0 <= row.parent < i:
            raise ValueError(f"row {i} starts from no earlier row")
        if row.how == HOW_INDEX and (self.rows[row.parent].kind != KIND_SEQUENCE or type(key) is not int or key < 0):
            row.how = HOW_KEY
        if row.how in (HOW_ARG, HOW_CAPTURE, HOW_INDEX):
            row.index = key
            if row.index < 0:
                raise ValueError(f"row {i} has a negative number")
        else:
            row.key = <PyObject *>key
            self.keepalive.append(key)
        row.kind = PYTHON_KINDS[python] if python else KIND_NUMPY if kind == "scalar" else KIND_CODES[kind]
        row.dtype = DTYPE_CODES[dtype] if row.kind in (KIND_ARRAY, KIND_NUMPY) else -1
        row.ndim = ndim
        row.length = length if row.kind == KIND_SEQUENCE else len(keys)
        row.flags = (ROW_C if layout == "C" else 0) | (ROW_CONSTANT if constant else 0) | (ROW_WRITABLE if writable else 0)
        if row.kind == KIND_ARRAY:
            row.descr = pb_builtin_descr(row.dtype)
            row.needed = (NPY_ARRAY_ALIGNED | (NPY_ARRAY_C_CONTIGUOUS if row.flags & ROW_C else 0)
                          | (NPY_ARRAY_WRITEABLE if writable else 0))
        if writable:
            self.writes = True
        if constant:
            if len(shape) != ndim:
                raise ValueError(f"row {i} is constant without a shape")
            row.shape = <int64_t *>self.room(ndim, sizeof(int64_t))
            for axis in range(ndim):
                row.shape[axis] = shape[axis]
        if row.kind == KIND_STATIC:
            self.keepalive.append(value)
            row.expected = <PyObject *>value
        elif row.kind == KIND_MAPPING:
            self.keepalive.append(keys)
            row.expected = <PyObject *>keys
        elif row.kind == KIND_NUMPY:
            row.expected = pb_scalar_type(row.dtype)  # immortal
        return 0

    cdef int set_steps(self) except -1:
        # what `pb_replay`, `fill` and the end of a call go through, made from rows and leaves: of a constant the address is
        # all that a call has to fill in
        cdef int i, axis, kept = 0
        cdef RowC *row
        cdef pb_step *step
        cdef LeafC *leaf
        cdef char *room = <char *>self.room(self.n_rows * sizeof(pb_step) + 64, 1)
        self.steps = <pb_step *>((<size_t>room + 63) & ~<size_t>63)  # a line each
        self.owned = <int *>self.room(self.n_rows, sizeof(int))
        for i in range(self.n_rows):
            row, step = &self.rows[i], &self.steps[i]
            parent_type = self.row_tuples[row.parent][13] if row.how == HOW_INDEX else None
            row.address = -1
            row.is_borrowed = parent_type == "builtins:tuple"
            if row.how != HOW_ARG and not row.is_borrowed:
                self.owned[self.n_owned] = i
                self.n_owned += 1
            step.parent, step.ndim, step.descr, step.key = row.parent, row.ndim, row.descr, row.key
            if row.index >= <Py_ssize_t>1 << 31 or row.length >= <Py_ssize_t>1 << 31 or row.ndim > STACK_AXES:
                continue
            step.index, step.length = <int32_t>row.index, <int32_t>row.length
            step.source = (PB_FROM_ARGUMENT if row.how == HOW_ARG else
                           PB_FROM_TUPLE if row.is_borrowed and row.index < self.rows[row.parent].length else
                           PB_FROM_LIST if parent_type == "builtins:list" else
                           PB_FROM_DICT if row.how == HOW_KEY else PB_FROM_ELSEWHERE)
            step.needed[0], step.needed[1] = row.needed, row.needed | NPY_ARRAY_WRITEABLE if row.flags & ROW_C else -1
            if row.kind == KIND_SEQUENCE:
                step.kind = (PB_STEP_TUPLE if self.type_name(row) == "builtins:tuple" else
                             PB_STEP_LIST if self.type_name(row) == "builtins:list" else PB_STEP_OTHER)
            elif row.kind == KIND_ARRAY and not row.flags & ROW_CONSTANT:
                step.kind = PB_STEP_ARRAY
            elif row.kind == KIND_ARRAY and row.ndim <= PB_STEP_AXES and not row.flags & ROW_WRITABLE:
                step.kind, step.length = PB_STEP_CONSTANT, -1
                for axis in range(row.ndim):
                    step.shape[axis] = row.shape[axis]
        for i in range(self.n_leaves):
            leaf = &self.leaves[i]
            row = &self.rows[leaf.row]
            if row.flags & ROW_CONSTANT and row.address < 0 and leaf.ptr >= 0 and all(
                    [leaf.extents[axis] < 0 for axis in range(leaf.n_extents)]) and all(
                    [leaf.strides[axis] < 0 for axis in range(leaf.n_strides)]):
                row.address = leaf.ptr
                if self.steps[leaf.row].kind == PB_STEP_CONSTANT:
                    self.steps[leaf.row].length = leaf.ptr
            else:  # the others move up
                self.leaves[kept] = leaf[0]
                kept += 1
        self.n_leaves = kept
        return 0

    def use_tape(self, tape, table):
        """Run through a `Tape` and a capsule "prebake.stencils"."""
        cdef pb_stencil_table *stencils = <pb_stencil_table *>PyCapsule_GetPointer(table, "prebake.stencils")
        cdef const char *image
        if stencils.library.abi_version != PB_ABI_VERSION:
            raise ValueError(f"stencil library has ABI {stencils.library.abi_version}, expected {PB_ABI_VERSION}")
        if tape.n_regs < self.n_regs:
            raise ValueError("the tape has too few registers")
        data = bytes(tape.image)
        if len(data) != tape.n_regs * sizeof(pb_reg):
            raise ValueError("the tape's image has a wrong size")
        self.n_regs = tape.n_regs
        self.image = <pb_reg *>self.room(self.n_regs, sizeof(pb_reg))
        image = data
        memcpy(self.image, image, self.n_regs * sizeof(pb_reg))
        self.library = &stencils.library
        self.plan = <const void *><size_t>tape.plan_address
        self.bind = <pb_bind_fn><size_t>tape.bind_address
        self.run = <pb_run_fn><size_t>tape.run_address
        self.keepalive += [tape, table]

    def use_functions(self, plan_address, bind_address, run_address, keepalive=None):
        """Run through C functions at these addresses (of the calling convention in pb_abi.h)."""
        self.plan = <const void *><size_t>plan_address
        self.bind = <pb_bind_fn><size_t>bind_address
        self.run = <pb_run_fn><size_t>run_address
        self.keepalive.append(keepalive)

    def use_kernels(self, table, kernels):
        """Run through the kernels of a bundle's shared object (capsule "prebake.kernels").

        kernels: [(C name, {symbol: n or (lo, hi)})] by priority; names that the table does not hold are left out.
        Returns how many are there.
        """
        cdef pb_kernel_table *found = <pb_kernel_table *>PyCapsule_GetPointer(table, "prebake.kernels")
        cdef int i
        if found.library.abi_version != PB_ABI_VERSION:
            raise ValueError(f"kernel library has ABI {found.library.abi_version}, expected {PB_ABI_VERSION}")
        index = {found.kernels[i].name: i for i in range(found.n_kernels)}
        here = []
        for name, bucket in kernels:
            if name.encode() in index:
                bounds = {}
                for symbol, interval in bucket.items():
                    lo, hi = interval if type(interval) in (tuple, list) else (interval, interval)
                    bounds[symbol] = (min(int(lo), 1 << 62), min(int(hi), 1 << 62))
                here.append((name, bounds))
        self.n_kernels = len(here)
        self.kernels = <KernelC *>self.room(self.n_kernels, sizeof(KernelC))
        for i, (name, bucket) in enumerate(here):
            at = index[name.encode()]
            self.kernels[i].bind, self.kernels[i].run = found.kernels[at].bind, found.kernels[at].run
        used = sorted({symbol for _, bucket in here for symbol in bucket})
        self.chooser = Chooser(self.n_kernels, [
            (self.register(self.spec["symbols"][symbol]), [bucket.get(symbol) for _, bucket in here]) for symbol in used])
        self.kernel_names = [name for name, _ in here]
        self.buckets = [bucket for _, bucket in here]
        self.library = &found.library
        self.keepalive.append(table)
        return self.n_kernels

    # --- serving

    cdef int replay(self, JitFunction fn, PyObject **args, CallState *s, int mode) except -1:
        # values of the rows, each checked as it is read, and addresses of constants; 0 or the kind of miss
        cdef int i, miss
        cdef bint volatile
        cdef RowC *row
        cdef PyObject *value
        cdef PyObject *parent
        cdef PyObject **values = s.values
        if self.seen_epoch != frozen_epoch:
            for i in range(self.n_rows):
                self.steps[i].base = NULL
            self.seen_epoch = frozen_epoch
        i = -1
        while True:
            i = pb_replay(self.steps, i + 1, self.n_rows, args, fn.n_params, values, s.regs, mode & EXACT,
                          <PyTypeObject *>Frozen)
            s.filled = i
            if i >= self.n_rows:
                return SERVED
            row, volatile = &self.rows[i], False
            if row.how == HOW_ARG:
                if row.index >= fn.n_params:
                    return MISS_GUARD
                value = args[row.index]
                volatile = row.index < 64 and (fn.volatile_args >> row.index) & 1
            elif row.how == HOW_INDEX:
                parent = values[row.parent]
                if PyTuple_CheckExact(parent):
                    if row.index >= PyTuple_GET_SIZE(parent):
                        return MISS_GUARD
                    value = PyTuple_GET_ITEM(parent, row.index)
                    if not row.is_borrowed:
                        incref(value)
                elif row.is_borrowed:
                    return MISS_GUARD  # of another class that goes by the name of tuple
                elif PyList_CheckExact(parent):
                    if row.index >= PyList_GET_SIZE(parent):
                        return MISS_GUARD
                    value = PyList_GET_ITEM(parent, row.index)
                    incref(value)
                else:
                    number = PyLong_FromLongLong(row.index)  # an object: Cython takes a plain `row.index` for a C integer
                    value = PyObject_GetItem(parent, <PyObject *>number)
            elif row.how == HOW_KEY:
                parent = values[row.parent]
                if PyDict_CheckExact(parent):
                    value = PyDict_GetItemWithError(parent, row.key)
                    if value != NULL:
                        incref(value)
                else:
                    value = PyObject_GetItem(parent, row.key)
            elif row.how == HOW_ATTR:
                value = PyObject_GetAttr(values[row.parent], row.key)
            else:
                value = fn.capture(row.index)
            if value == NULL:
                PyErr_Clear()
                self.failed_row = i
                return MISS_GUARD
            values[i] = value
            s.filled = i + 1
            if not self.fits(row, value, mode):
                miss = self.check(row, value, mode, volatile)
                if not miss and row.kind == KIND_CALLEE and row.ndim and (
                        row.how != HOW_ATTR or PyMethod_GET_SELF(value) != values[row.parent]):
                    miss = MISS_GUARD  # a method of another object
                if miss:
                    self.failed_row = i
                    return miss
            if row.address >= 0:
                s.regs[row.address].p = pb_data(value)

    cdef inline bint fits(self, RowC *row, PyObject *value, int mode) except -1:
        # whether an array, a tuple or a list is surely what its row wants; `check` decides the others
        cdef PyObject *base
        if row.kind == KIND_SEQUENCE and <PyObject *>Py_TYPE(<object>value) == row.expected:
            if PyTuple_CheckExact(value):
                return PyTuple_GET_SIZE(value) == row.length
            return PyList_CheckExact(value) and PyList_GET_SIZE(value) == row.length
        if row.kind != KIND_ARRAY or not pb_is_plain(value, row.descr, row.ndim, row.needed):
            return False
        if row.flags & ROW_CONSTANT:
            if not pb_has_shape(value, row.shape, row.ndim):
                return False
            base = pb_base(value)
            if base != NULL and Py_TYPE(<object>base) == <PyTypeObject *>Frozen:
                return not pb_flags(value) & NPY_ARRAY_WRITEABLE
            return is_constant(value)
        # a call that looks for the best plan asks more
        return not mode & EXACT or (row.flags & ROW_C and pb_flags(value) & NPY_ARRAY_WRITEABLE)

    cdef int check(self, RowC *row, PyObject *value, int mode, bint volatile) except -1:
        # 0 or how the value misses its row
        cdef int flags, axis
        cdef Py_ssize_t at = 0
        cdef PyObject *key
        cdef PyObject *ignored
        if row.kind == KIND_ARRAY:
            if not pb_is_array(value) or pb_array_code(value) != row.dtype or pb_ndim(value) != row.ndim:
                return MISS_DTYPE
            flags = pb_flags(value)
            if not flags & NPY_ARRAY_ALIGNED:
                return MISS_LAYOUT
            if row.flags & ROW_C:
                if not flags & NPY_ARRAY_C_CONTIGUOUS:
                    return MISS_LAYOUT
            elif mode & EXACT and flags & NPY_ARRAY_C_CONTIGUOUS:
                return MISS_LAYOUT
            if row.flags & ROW_WRITABLE and not flags & NPY_ARRAY_WRITEABLE:
                return MISS_LAYOUT
            if row.flags & ROW_CONSTANT:
                for axis in range(row.ndim):
                    if pb_dim(value, axis) != row.shape[axis]:
                        return MISS_GUARD
                if not (self.packs_optional and not mode & EXACT) and not is_constant(value):
                    return MISS_LAYOUT
            elif mode & EXACT and not flags & NPY_ARRAY_WRITEABLE and not volatile and is_constant(value):
                return MISS_LAYOUT
            return SERVED
        if row.kind == KIND_INT:
            return SERVED if PyLong_CheckExact(value) else MISS_DTYPE
        if row.kind == KIND_FLOAT:
            return SERVED if PyFloat_CheckExact(value) else MISS_DTYPE
        if row.kind == KIND_BOOL:
            return SERVED if PyBool_Check(value) else MISS_DTYPE
        if row.kind == KIND_NUMPY:
            if <PyObject *>Py_TYPE(<object>value) == row.expected:
                return SERVED
            return SERVED if pb_is_generic(value) and pb_scalar_code(value) == row.dtype else MISS_DTYPE
        if row.kind == KIND_STATIC:
            return SERVED if same_static(value, row.expected) else MISS_GUARD
        if row.kind == KIND_MAPPING:
            if not PyDict_CheckExact(value) or PyDict_Size(value) != row.length:
                return MISS_GUARD
            axis = 0
            while PyDict_Next(value, &at, &key, &ignored):
                if not same_static(key, PyTuple_GET_ITEM(row.expected, axis)):
                    return MISS_GUARD
                axis += 1
            return SERVED
        if row.kind == KIND_CALLEE:
            if PyMethod_Check(value) != (row.ndim != 0):
                return MISS_GUARD
            key = PyMethod_GET_FUNCTION(value) if row.ndim else value
            if key != row.expected:
                if not _same_callee(<object>value, self.type_name(row)):
                    return MISS_GUARD
                found = <object>key
                self.keepalive.append(found)
                row.expected = key
            return SERVED
        # sequences and objects: by type; the type that was right last time is right again
        if <PyObject *>Py_TYPE(<object>value) != row.expected:
            found = type(<object>value)
            if not _same_type_name(found, self.type_name(row)):
                return MISS_GUARD
            self.keepalive.append(found)
            row.expected = <PyObject *>found
        if row.kind == KIND_SEQUENCE:
            if self.steps[row - self.rows].kind == PB_STEP_TUPLE and not PyTuple_CheckExact(value):
                return MISS_GUARD  # a class that only calls itself a tuple: rows behind it read the real one
            if PyTuple_CheckExact(value):
                return SERVED if PyTuple_GET_SIZE(value) == row.length else MISS_GUARD
            if PyList_CheckExact(value):
                return SERVED if PyList_GET_SIZE(value) == row.length else MISS_GUARD
            return SERVED if len(<object>value) == row.length else MISS_GUARD
        return SERVED

    cdef object type_name(self, RowC *row):
        return self.row_tuples[row - self.rows][13]

    cdef bint fill(self, CallState *s) except -1:
        # registers of the leaves; False where a scalar is not what a plan can take
        cdef int i, axis, is_float = 0, overflow = 0
        cdef LeafC *leaf
        cdef RowC *row
        cdef PyObject *value
        cdef pb_reg *r = s.regs
        cdef pb_reg read
        for i in range(self.n_leaves):
            leaf = &self.leaves[i]
            row = &self.rows[leaf.row]
            value = s.values[leaf.row]
            if row.kind == KIND_ARRAY:
                if leaf.ptr >= 0:
                    r[leaf.ptr].p = pb_data(value)
                for axis in range(leaf.n_extents):
                    if leaf.extents[axis] >= 0:
                        r[leaf.extents[axis]].i = pb_dim(value, axis)
                for axis in range(leaf.n_strides):
                    if leaf.strides[axis] >= 0:
                        r[leaf.strides[axis]].i = pb_stride(value, axis)
                continue
            if leaf.scalar < 0:
                continue
            if row.kind == KIND_INT:
                read.i = PyLong_AsLongLongAndOverflow(value, &overflow)
                is_float = 0
                if overflow or read.i >= MOST_EXACT or read.i <= -MOST_EXACT:
                    self.failed_row = leaf.row
                    return False
            elif row.kind == KIND_FLOAT:
                read.d = PyFloat_AS_DOUBLE(value)
                is_float = 1
            elif row.kind == KIND_BOOL:
                read.i = value == Py_True
                is_float = 0
            elif (pb_scalar_value(value, row.dtype, &read, &is_float) < 0
                  or (not is_float and row.dtype != PB_U64 and (read.i >= MOST_EXACT or read.i <= -MOST_EXACT))):
                self.failed_row = leaf.row
                return False
            if leaf.is_float == 0:
                r[leaf.scalar].i = <int64_t>read.d if is_float else read.i
            elif leaf.is_float == 1:
                r[leaf.scalar].f = <float>read.d if is_float else <float>read.i
            else:
                r[leaf.scalar].d = read.d if is_float else <double>read.i
        return True

    cdef PyObject *new_output(self, CallState *s, int i) except NULL:
        # allocate output i from its shape registers
        cdef OutputC *out = &self.outputs[i]
        cdef npy_intp dims[STACK_AXES]
        cdef int axis
        cdef PyObject *array
        for axis in range(out.ndim):
            dims[axis] = s.regs[out.shape[axis]].i
        array = pb_new_result(out.ndim, dims, out.dtype)
        set_output(s, i, array)
        return array

    cdef ShapeSlot *slot(self, CallState *s) noexcept:
        cdef int i
        cdef KeyC *key
        for i in range(self.n_keys):
            key = &self.keys[i]
            if key.axis >= 0:
                self.key_scratch[i] = pb_dim(s.values[key.row], key.axis)
            else:
                self.key_scratch[i] = s.regs[key.reg].i
        return self.shapes.find(self.key_scratch)

    cdef object serve(self, JitFunction fn, PyObject **args, int mode, int missed, int *status):
        """The result of a call (status SERVED), or None and why this plan does not take it."""
        cdef CallState s
        cdef pb_reg regs[STACK_REGISTERS]
        cdef PyObject *values[STACK_ROWS]
        cdef PyObject *outs[STACK_OUTPUTS]
        cdef const void *pack_pointers[STACK_ROWS]
        cdef void *room = NULL
        cdef int i
        if (self.n_regs > STACK_REGISTERS or self.n_rows > STACK_ROWS or self.n_outputs > STACK_OUTPUTS
                or self.n_packs > STACK_ROWS):
            room = malloc(self.n_regs * sizeof(pb_reg)
                          + (self.n_rows + self.n_outputs + self.n_packs + 1) * sizeof(void *))
            if room == NULL:
                raise MemoryError("no memory for a call")
            s.regs = <pb_reg *>room
            s.values = <PyObject **>(s.regs + self.n_regs)
            s.outs = s.values + self.n_rows
            s.packs = <const void **>(s.outs + self.n_outputs)
        else:
            s.regs, s.values, s.outs, s.packs = regs, values, outs, pack_pointers
        s.filled = 0
        memset(s.outs, 0, self.n_outputs * sizeof(PyObject *))
        s.arena.p = NULL
        s.error = s.lease = NULL
        s.entry = <PyObject *>self
        try:
            return self.serve_in(fn, args, mode, missed, status, &s)
        finally:
            end_lease(&s)
            for i in range(self.n_outputs):
                xdecref(s.outs[i])
            xdecref(s.error)
            for i in range(self.n_owned):
                if self.owned[i] >= s.filled:
                    break
                decref(s.values[self.owned[i]])
            free(room)

    cdef object serve_in(self, JitFunction fn, PyObject **args, int mode, int missed, int *status, CallState *s):
        cdef pb_frame *frame = &s.frame
        cdef pb_bind_fn bind = self.bind
        cdef pb_run_fn run = self.run
        cdef const void *plan = self.plan
        cdef PackC *pack
        cdef ShapeSlot *slot
        cdef PyThreadState *saved
        cdef int64_t need, start = 0
        cdef int i, failed, chosen = -1
        cdef bint is_timed, release
        cdef object silence = None
        memcpy(s.regs, self.image, self.n_regs * sizeof(pb_reg))
        status[0] = self.replay(fn, args, s, mode)
        if status[0]:
            return None
        if not self.fill(s):
            status[0] = MISS_GUARD
            return None
        frame.r = s.regs
        frame.packs = s.packs
        frame.trap_code = 0
        frame.trap_pos = -1
        frame.owner = <void *>s
        frame.alloc = allocate_late
        frame.call = call_out
        if self.chooser is None:
            failed = bind(plan, frame)
            if failed:
                self.failed_row = -1 - failed
                status[0] = MISS_GUARD
                return None
        else:
            failed = 0
            while True:
                chosen = self.chooser.next(s.regs, chosen + 1)
                if chosen < 0:
                    status[0] = MISS_GUARD if failed else MISS_BUCKET
                    return None
                failed = self.kernels[chosen].bind(NULL, frame)
                if failed == 0:
                    break
                self.failed_row = -1 - failed
            run = self.kernels[chosen].run
            plan = NULL
        if mode & DRY:
            return chosen
        for i in range(self.n_packs):
            pack = &self.pack_specs[i]
            if self.packs_optional and not is_constant(s.values[pack.row]):
                s.packs[i] = NULL  # the kernel reads the operand as it is
                continue
            if pack.source != pb_data(s.values[pack.row]) or pack.epoch != pack_epoch:
                pack.data = find_pack(s.values[pack.row], self.library, pack)
                pack.source, pack.epoch = pb_data(s.values[pack.row]), pack_epoch
            s.packs[i] = pack.data
        need = s.regs[self.arena_reg].i
        if need > fn.memory_bytes:
            raise MemoryError(f"{fn.name}: temporaries of this call need {need} bytes, option memory_bytes allows "
                              f"{fn.memory_bytes}")
        s.arena = pb_arena_take(need if need > 0 else 64)
        if s.arena.p == NULL:  # sizes are bounds: the interpreter may do with less
            status[0] = MISS_INTERPRET
            return None
        if need > fn.peak_arena:
            fn.peak_arena = need
        s.regs[0].p = s.arena.p
        for i in range(self.n_outputs):
            if self.outputs[i].early:
                self.new_output(s, i)
        slot = self.slot(s)
        slot.count += 1
        if missed >= 0:
            slot.missed += 1
            slot.reason = missed
        fn.launched += 1 if chosen >= 0 else self.n_steps
        is_timed = slot.count <= 2 or slot.count & timing_mask == 0
        release = slot.last_ns == 0 or slot.last_ns > RELEASE_FROM_NS
        if is_timed:
            start = pb_now_ns()
        if self.calls:
            silence = _errstate(all="ignore")  # once for all call-outs: the setting belongs to the thread's context
            silence.__enter__()
        if release:
            saved = PyEval_SaveThread()
            failed = run(plan, frame)
            PyEval_RestoreThread(saved)
        else:
            failed = run(plan, frame)
        if silence is not None:
            silence.__exit__(None, None, None)
        if is_timed:
            start = pb_now_ns() - start
            if release or self.calls:
                slot = self.slot(s)  # the table may have grown while the GIL was away
            slot.last_ns = start
            slot.total_ns += start
            slot.timed += 1
            if self.hot is not None and slot.count >= hot_calls:
                hot, self.hot = self.hot, None
                hot(self)
        if failed:
            if frame.trap_code == PB_TRAP_INTERPRET:
                slot = self.slot(s)
                if missed >= 0 and slot.missed > 0:
                    slot.missed -= 1  # whoever runs the call now counts its miss
                status[0] = MISS_INTERPRET
                return None
            status[0] = TRAPPED
            return (frame.trap_code, frame.trap_pos, None if s.error == NULL else <object>s.error,
                    self.trap_text(frame.trap_code, frame.trap_pos))
        return self.result.build(s)

    cdef object trap_text(self, int code, int position):
        # what this plan says of a trap, '' where the code tells it
        return " or ".join([text for kind, at, text in self.spec.get("trap_texts", ()) if (kind, at) == (code, position)])

    # --- looking at one

    def counts(self):
        """[(extents, calls, missed, reason, nanoseconds, timed), ...], ascending, and (calls, missed) of other shapes."""
        return sorted(self.shapes.items()), self.shapes.other()

    def warm(self, JitFunction fn):
        """Pack the constant operands that are reached from captured names; how many there are."""
        cdef int i, count = 0
        cdef PackC *pack
        values = {}
        for i in range(self.n_rows):
            how, parent, key = self.row_tuples[i][:3]
            try:
                if how == "capture":
                    values[i] = fn.read_capture(key)
                elif parent in values:
                    values[i] = getattr(values[parent], key) if how == "attr" else values[parent][key]
            except (NameError, AttributeError, LookupError, TypeError):
                continue
        for i in range(self.n_packs):
            pack = &self.pack_specs[i]
            array = values.get(pack.row)
            if array is not None and self.check(&self.rows[pack.row], <PyObject *>array, EXACT, False) == SERVED:
                pack.data = find_pack(<PyObject *>array, self.library, pack)
                pack.source, pack.epoch = pb_data(<PyObject *>array), pack_epoch
                count += 1
        return count

    def why_not(self):
        """What the last miss was about: the failed row's path, the guard's text, or ''."""
        if self.failed_row >= 0:
            return self.row_tuples[self.failed_row][4]
        guards = self.spec["guards"]
        number = -self.failed_row - 2
        return guards[number] if 0 <= number < len(guards) else ""

    @property
    def call_outs(self):
        """Names of the kernels that are called out to, each once."""
        return sorted({(<CallSite>site).name for site in self.calls})

    @property
    def is_prebuilt(self):
        """Whether kernels of a bundle stand behind it."""
        return self.chooser is not None


cdef int64_t RELEASE_FROM_NS = 5000  # work below this keeps the GIL: letting it go costs more than it gives
cdef int64_t timing_mask = 63        # one call in 64 is timed


cdef int64_t hot_calls = 256


def set_hot_calls(count):
    """Calls of one shape after which an entry is hot."""
    global hot_calls
    hot_calls = count


def set_timing(every):
    """Time one call in `every` (a power of two) for each shape."""
    global timing_mask
    timing_mask = every - 1
