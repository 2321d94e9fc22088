# What an entry is made of: rows, leaves, outputs, packs as C structures, and the tree of results.

cdef enum:
    HOW_ARG, HOW_CAPTURE, HOW_ATTR, HOW_INDEX, HOW_KEY

cdef enum:
    KIND_ARRAY, KIND_INT, KIND_FLOAT, KIND_BOOL, KIND_NUMPY, KIND_STATIC, KIND_SEQUENCE, KIND_MAPPING, KIND_OBJECT, \
        KIND_CALLEE

cdef enum:
    ROW_C = 1
    ROW_CONSTANT = 2
    ROW_WRITABLE = 4

cdef enum:  # how `serve` is asked
    EXACT = 1   # a plan for any strides, or for changing arrays, does not take what a better plan could take
    DRY = 2     # stop before anything is allocated or run

cdef enum:
    STACK_REGISTERS = 768
    STACK_ROWS = 256
    STACK_OUTPUTS = 16
    STACK_AXES = 64

cdef struct RowC:
    int how, kind, parent, flags
    int ndim
    int needed             # flags that an array must have
    void *descr            # of an array: NumPy's own descriptor of its dtype
    Py_ssize_t index       # argument, capture or item number; length of a sequence or mapping
    int64_t *shape         # of a constant
    PyObject *expected     # static value, keys of a mapping, or the type or function that was last found right
    Py_ssize_t length
    PyObject *key          # attribute name or dictionary key
    int address            # register of a constant's address, or -1
    bint is_borrowed       # an item of a tuple, which keeps it alive
    int dtype

cdef struct LeafC:
    int row, ptr, scalar, n_extents, n_strides, is_float  # is_float: the scalar register's type, 0 integer, 1 f32, 2 f64
    int *extents
    int *strides

cdef struct OutputC:
    int dtype, ndim, ptr, early
    int *shape

cdef struct PackC:
    int row, dtype
    int64_t k, n, offset, row_stride, col_stride
    int64_t epoch
    void *source           # data pointer of the array that `data` was packed from
    void *data

cdef struct KeyC:
    int row, axis, reg     # extent `axis` of an array, or the register of an integer argument (axis -1)

cdef struct KernelC:
    pb_bind_fn bind
    pb_run_fn run

cdef struct CallState:
    pb_frame frame
    pb_reg *regs
    int filled             # rows whose values are there
    PyObject **values      # of the rows; those not borrowed from the caller are owned
    PyObject **outs        # result arrays, owned
    const void **packs
    PyObject *entry
    PyObject *error        # what a call-out raised, owned
    PyObject *lease        # owner of the arrays that call-outs see, owned; NULL before the first
    pb_arena arena

ROW_FIELDS = ("how", "parent", "key", "kind", "path", "dtype", "ndim", "layout", "constant", "writable", "shape",
              "python", "value", "type_name", "length", "keys")
cdef tuple ROW_DEFAULTS = (None, -1, None, None, "", "", 0, "", False, False, None, "", None, "", 0, ())
cdef dict HOW_CODES = {"arg": HOW_ARG, "capture": HOW_CAPTURE, "attr": HOW_ATTR, "item": HOW_INDEX}
cdef dict KIND_CODES = {"array": KIND_ARRAY, "static": KIND_STATIC, "sequence": KIND_SEQUENCE, "mapping": KIND_MAPPING,
                        "object": KIND_OBJECT, "callee": KIND_CALLEE}
cdef dict PYTHON_KINDS = {"int": KIND_INT, "float": KIND_FLOAT, "bool": KIND_BOOL}


def row_of_json(data):
    """The row tuple (ROW_FIELDS) of a signature row's JSON."""
    row = []
    for name, default in zip(ROW_FIELDS, ROW_DEFAULTS):
        value = data.get(name, default)
        row.append(_tupled(value) if type(value) is list else value)
    return tuple(row)


def _tupled(value):
    return tuple([_tupled(v) for v in value]) if type(value) is list else value


def _same_type_name(cls, name):
    module = cls.__module__
    if f"{module}:{cls.__qualname__}" == name:
        return True
    if module == "__main__":
        from .names import main_module_name
        return f"{main_module_name()}:{cls.__qualname__}" == name
    return False


def _same_callee(value, key):
    from ..bindings import callee_key
    try:
        return callee_key(value) == key
    except TypeError:
        return False


cdef bint same_static(PyObject *a, PyObject *b) noexcept:
    # equal with equal types all the way down
    cdef Py_ssize_t i, n
    cdef int equal
    if a == b:
        return True
    if Py_TYPE(<object>a) != Py_TYPE(<object>b):
        return False
    if PyTuple_CheckExact(a):
        n = PyTuple_GET_SIZE(a)
        if n != PyTuple_GET_SIZE(b):
            return False
        for i in range(n):
            if not same_static(PyTuple_GET_ITEM(a, i), PyTuple_GET_ITEM(b, i)):
                return False
        return True
    equal = PyObject_RichCompareBool(a, b, Py_EQ)
    if equal < 0:
        PyErr_Clear()
    return equal == 1


cdef int *int_array(object items) except? NULL:
    cdef int i
    cdef int *out = <int *>calloc(max(len(items), 1), sizeof(int))
    if out == NULL:
        raise MemoryError("no memory for a plan")
    for i, item in enumerate(items):
        out[i] = item
    return out


cdef class ResultNode:
    """One node of the tree that the caller receives."""

    cdef int kind, output, row, offset, reg, dtype, ndim, is_float
    cdef bint is_read_only
    cdef int *shape
    cdef int *strides
    cdef object value
    cdef list items

    def __cinit__(self, dict spec, dict types):
        from ..plan.encoded import decode_value

        kind = spec["kind"]
        self.kind = RESULT_KINDS[kind]
        self.output = spec.get("output", -1)
        self.row = spec.get("row", -1)
        self.offset = spec.get("offset", -1)
        self.reg = spec.get("reg", -1)
        self.dtype = DTYPE_CODES[spec["dtype"]] if kind in ("view", "scalar") else -1
        if kind == "view":
            self.ndim = len(spec["shape"])
            self.shape, self.strides = int_array(spec["shape"]), int_array(spec["strides"])
            self.is_read_only = bool(spec.get("read_only"))
            if self.ndim > STACK_AXES or len(spec["strides"]) != self.ndim:
                raise ValueError("a result view has wrong axes")
        elif kind == "scalar":
            self.is_float = REGISTER_KINDS[types[str(self.reg)]]
            self.value = spec["python"]
        elif kind == "const":
            self.value = decode_value(spec["value"])
        elif kind == "dict":
            self.value = [decode_value(key) for key in spec["keys"]]
        elif kind == "complex":
            import numpy

            self.value = complex if spec["python"] else {"c64": numpy.complex64, "c128": numpy.complex128}[spec["dtype"]]
        if kind in ("tuple", "list", "dict", "complex", "choice"):
            self.items = [ResultNode(item, types) for item in spec["items"]]

    def __dealloc__(self):
        free(self.shape)
        free(self.strides)

    cdef object build(self, CallState *s):
        cdef PyObject *owner
        cdef npy_intp dims[STACK_AXES]
        cdef npy_intp steps[STACK_AXES]
        cdef pb_reg *r = s.regs
        cdef int i
        if self.kind == RESULT_NEW:
            return <object>s.outs[self.output]
        if self.kind == RESULT_ARG:
            return <object>s.values[self.row]
        if self.kind == RESULT_VIEW:
            owner = s.outs[self.output] if self.output >= 0 else s.values[self.row]
            for i in range(self.ndim):
                dims[i] = r[self.shape[i]].i
                steps[i] = r[self.strides[i]].i
            return pb_new_view(owner, self.dtype, self.ndim, dims, steps,
                               pb_data(owner) + (r[self.offset].i if self.offset >= 0 else 0), self.is_read_only)
        if self.kind == RESULT_SCALAR:
            if not self.value:
                return pb_make_scalar(self.dtype, &r[self.reg], self.is_float)
            if self.is_float:
                number = r[self.reg].f if self.is_float == 1 else r[self.reg].d
                return number if self.value == "float" else int(number) if self.value == "int" else bool(number)
            if self.value == "int":
                return r[self.reg].i
            return r[self.reg].i != 0 if self.value == "bool" else float(r[self.reg].i)
        if self.kind == RESULT_CONST:
            return self.value
        if self.kind == RESULT_CHOICE:
            return (<ResultNode>self.items[r[self.reg].i]).build(s)
        items = [(<ResultNode>item).build(s) for item in self.items]
        if self.kind == RESULT_TUPLE:
            return tuple(items)
        if self.kind == RESULT_LIST:
            return items
        if self.kind == RESULT_COMPLEX:
            return self.value(complex(*items))
        return dict(zip(self.value, items))


cdef enum:
    RESULT_NEW, RESULT_VIEW, RESULT_ARG, RESULT_SCALAR, RESULT_CONST, RESULT_TUPLE, RESULT_LIST, RESULT_DICT, RESULT_CHOICE
    RESULT_COMPLEX

cdef dict RESULT_KINDS = {"new": RESULT_NEW, "view": RESULT_VIEW, "arg": RESULT_ARG, "scalar": RESULT_SCALAR,
                          "const": RESULT_CONST, "tuple": RESULT_TUPLE, "list": RESULT_LIST, "dict": RESULT_DICT,
                          "choice": RESULT_CHOICE, "complex": RESULT_COMPLEX}
cdef dict REGISTER_KINDS = {"i64": 0, "i32": 0, "bool": 0, "f32": 1, "f64": 2}
