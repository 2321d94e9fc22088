# Call-outs: a kernel of the registry called in the middle of a plan, over the frame's registers.

cdef enum:
    OPERAND_ARRAY, OPERAND_SCALAR, OPERAND_COMPLEX, OPERAND_CONST, OPERAND_TUPLE, OPERAND_LIST

cdef dict OPERAND_KINDS = {"array": OPERAND_ARRAY, "scalar": OPERAND_SCALAR, "complex": OPERAND_COMPLEX,
                           "const": OPERAND_CONST, "tuple": OPERAND_TUPLE, "list": OPERAND_LIST}
cdef dict PYTHON_TYPES = {"int": int, "float": float, "bool": bool, "complex": complex}


class PlanMismatch(Exception):
    """A call-out made something else than its rule says; the message tells what."""


cdef class Lease:
    """Owner of the arrays that call-outs get as operands.

    A call takes its memory back when it ends; an operand that lives on (in a frame of a traceback, in a debugger) keeps
    this, and with it the call's temporaries, arguments and results.
    """

    cdef pb_arena arena
    cdef list held
    cdef object __weakref__

    def __cinit__(self):
        self.arena.p = NULL
        self.held = []

    def __dealloc__(self):
        pb_arena_give(self.arena)


cdef void set_output(CallState *s, int i, PyObject *array) noexcept:
    # output i is this array from now on (a reference is taken over)
    if s.lease != NULL and s.outs[i] != NULL and refcount(s.lease) > 1:
        (<Lease>s.lease).held.append(<object>s.outs[i])
    xdecref(s.outs[i])
    s.outs[i] = array
    s.regs[(<Entry>s.entry).outputs[i].ptr].p = pb_data(array)


cdef void end_lease(CallState *s) noexcept:
    # what the call's memory becomes: its own again, or that of the operands that are still there
    cdef Entry entry
    cdef int i
    if s.lease != NULL and refcount(s.lease) > 1:
        entry = <Entry>s.entry
        lease = <Lease>s.lease
        lease.held += [<object>s.values[i] for i in range(entry.n_rows) if s.values[i] != NULL]
        lease.held += [<object>s.outs[i] for i in range(entry.n_outputs) if s.outs[i] != NULL]
        lease.arena, s.arena.p = s.arena, NULL
    xdecref(s.lease)
    pb_arena_give(s.arena)


cdef double float_register(const pb_reg *r, int is_float) noexcept:
    return <double>r.f if is_float == 1 else r.d if is_float == 2 else <double>r.i


cdef class CallOperand:
    """One operand, made a Python object from registers."""

    cdef int kind, dtype, ndim, base, offset, reg, imag, is_float
    cdef bint is_written
    cdef int *shape
    cdef int *strides
    cdef object python, value
    cdef list items

    def __cinit__(self, dict spec, int n_regs):
        from ..plan.encoded import decode_value

        self.kind = OPERAND_KINDS[spec["kind"]]
        self.base = self.offset = self.reg = self.imag = -1
        if self.kind == OPERAND_ARRAY:
            self.dtype, self.ndim, self.is_written = DTYPE_CODES[spec["dtype"]], len(spec["shape"]), spec["written"]
            if self.ndim > STACK_AXES or len(spec["strides"]) != self.ndim:
                raise ValueError("an operand of a call-out has wrong axes")
            self.shape, self.strides = int_array(spec["shape"]), int_array(spec["strides"])
            self.base, self.offset = spec["base"], spec["offset"]
            check_registers([self.base, *spec["shape"], *spec["strides"]], n_regs, 0)
            check_registers([self.offset], n_regs, -1)
        elif self.kind in (OPERAND_SCALAR, OPERAND_COMPLEX):
            self.dtype, self.python = DTYPE_CODES[spec["dtype"]], spec["python"]
            self.is_float = REGISTER_KINDS[spec["native"]]
            self.reg, self.imag = spec["reg"], spec["imag"]
            check_registers([self.reg], n_regs, 0)
            check_registers([self.imag], n_regs, 0 if self.kind == OPERAND_COMPLEX else -1)
        elif self.kind == OPERAND_CONST:
            self.value = decode_value(spec["value"])
        else:
            self.items = [CallOperand(item, n_regs) for item in spec["items"]]

    def __dealloc__(self):
        free(self.shape)
        free(self.strides)

    cdef object build(self, pb_reg *r, PyObject *lease):
        cdef npy_intp dims[STACK_AXES]
        cdef npy_intp steps[STACK_AXES]
        cdef double x
        cdef int i
        if self.kind == OPERAND_CONST:
            return self.value
        if self.kind == OPERAND_ARRAY:
            for i in range(self.ndim):
                dims[i], steps[i] = r[self.shape[i]].i, r[self.strides[i]].i
            return pb_wrap(self.dtype, self.ndim, dims, steps,
                           r[self.base].p + (r[self.offset].i if self.offset >= 0 else 0), self.is_written, lease)
        if self.kind == OPERAND_SCALAR:
            if not self.python:
                return pb_make_scalar(self.dtype, &r[self.reg], self.is_float)
            if self.is_float:
                return PYTHON_TYPES[self.python](float_register(&r[self.reg], self.is_float))
            return PYTHON_TYPES[self.python](r[self.reg].i)
        if self.kind == OPERAND_COMPLEX:
            number = complex(float_register(&r[self.reg], self.is_float), float_register(&r[self.imag], self.is_float))
            return number if self.python else (<object>pb_scalar_type(self.dtype))(number)
        items = [(<CallOperand>item).build(r, lease) for item in self.items]
        return tuple(items) if self.kind == OPERAND_TUPLE else items


cdef class CallOutcome:
    """One result: what is expected, and where it goes."""

    cdef int kind, dtype, ndim, reg, imag, is_float  # kind: as of operands, -1 for a result that nobody reads
    cdef readonly int output
    cdef int *shape
    cdef int *known
    cdef object python

    def __cinit__(self, dict spec, int n_regs):
        self.kind = -1 if spec["kind"] == "ignored" else OPERAND_KINDS[spec["kind"]]
        self.output = self.reg = self.imag = -1
        if self.kind == OPERAND_ARRAY:
            self.dtype, self.ndim, self.output = DTYPE_CODES[spec["dtype"]], len(spec["shape"]), spec["output"]
            self.shape, self.known = int_array(spec["shape"]), int_array(spec["known"])
            if self.output < 0 or len(spec["known"]) != self.ndim:
                raise ValueError("a result of a call-out has wrong axes")
            check_registers(spec["shape"], n_regs, 0)
        elif self.kind != -1:
            self.dtype, self.python = DTYPE_CODES[spec["dtype"]], spec["python"]
            self.is_float = REGISTER_KINDS[spec["native"]]
            self.reg, self.imag = spec["reg"], spec["imag"]
            check_registers([self.reg], n_regs, 0)
            check_registers([self.imag], n_regs, 0 if self.kind == OPERAND_COMPLEX else -1)

    def __dealloc__(self):
        free(self.shape)
        free(self.known)

    cdef object take(self, object value, pb_reg *r):
        # the array that holds an array's memory from now on, or None; registers are set
        cdef pb_reg read
        cdef double x
        cdef int i, is_float = 0
        if self.kind == OPERAND_ARRAY:
            if not pb_is_array(<PyObject *>value) or pb_array_code(<PyObject *>value) != self.dtype or (
                    pb_ndim(<PyObject *>value) != self.ndim):
                raise PlanMismatch(f"it made {_described(value)}")
            for i in range(self.ndim):
                if self.known[i] and r[self.shape[i]].i != pb_dim(<PyObject *>value, i):
                    raise PlanMismatch(f"it made {_described(value)}, axis {i} was planned as {r[self.shape[i]].i}")
                r[self.shape[i]].i = pb_dim(<PyObject *>value, i)
            return pb_own(value)
        if self.kind == OPERAND_COMPLEX:
            if type(value) is not PYTHON_TYPES[self.python] if self.python else (
                    not pb_is_generic(<PyObject *>value) or pb_scalar_code(<PyObject *>value) != self.dtype):
                raise PlanMismatch(f"it made {_described(value)}")
            number = complex(value)
            for i, x in ((self.reg, number.real), (self.imag, number.imag)):
                if self.is_float == 1:
                    r[i].f = <float>x
                else:
                    r[i].d = x
            return None
        if self.python:
            if type(value) is not PYTHON_TYPES[self.python]:
                raise PlanMismatch(f"it made {_described(value)}")
            is_float = self.python == "float"
            if is_float:
                read.d = value
            elif -MOST_EXACT < value < MOST_EXACT:
                read.i = value
            else:
                raise PlanMismatch("it made an integer that plans do not reckon with")
        elif self.dtype == PB_U64 and type(value) is _uint64:
            read.i = <int64_t><uint64_t>int(value)
        elif not pb_is_generic(<PyObject *>value) or pb_scalar_code(<PyObject *>value) != self.dtype or (
                pb_scalar_value(<PyObject *>value, self.dtype, &read, &is_float) < 0):
            raise PlanMismatch(f"it made {_described(value)}")
        if self.is_float == 0:
            r[self.reg].i = read.i
        elif self.is_float == 1:
            r[self.reg].f = <float>read.d
        else:
            r[self.reg].d = read.d
        return None


cdef class CallSite:
    """One call-out of a plan. spec: an item of "calls" of `plan.code_json.dispatch_spec`. Raises ValueError, KeyError or
    TypeError for a spec that is none."""

    cdef int kernel
    cdef readonly int position
    cdef readonly str name
    cdef bint is_tuple
    cdef list args, results
    cdef object function

    def __init__(self, dict spec, int n_regs, int n_outputs):
        from ...templates.registry import BY_ID

        self.kernel, self.position, self.is_tuple = spec["kernel"], spec["position"], spec["tuple"]
        self.name = BY_ID[self.kernel].name
        self.args = [CallOperand(arg, n_regs) for arg in spec["args"]]
        self.results = [CallOutcome(result, n_regs) for result in spec["results"]]
        for result in self.results:
            if result.output >= n_outputs:
                raise ValueError("a result of a call-out is no output")
        if not self.is_tuple and len(self.results) != 1:
            raise ValueError("a call-out has one result, or a sequence of them")

    cdef object run(self, pb_reg *r, PyObject *lease):
        # [(output, array), ...] of what was made; the caller holds the arrays, sets their ptr registers, and has
        # silenced NumPy's floating-point warnings
        if self.function is None:
            from ...templates.registry import resolve

            self.function = resolve(self.kernel)
        operands = [(<CallOperand>arg).build(r, lease) for arg in self.args]
        made = self.function(*operands)
        values = made if self.is_tuple else (made,)
        if self.is_tuple and (not isinstance(made, (tuple, list)) or len(made) != len(self.results)):
            raise PlanMismatch(f"it made {_described(made)}")
        held = []
        for outcome, value in zip(self.results, values):
            if (<CallOutcome>outcome).kind == -1:
                continue
            try:
                array = (<CallOutcome>outcome).take(value, r)
            except PlanMismatch as error:
                raise PlanMismatch(f"{self.name} did not do what its rule says: {error}") from None
            if array is not None:
                held.append(((<CallOutcome>outcome).output, array))
        return held

    def invoke(self, size_t registers):
        """Run it over the registers at an address: [(output, array), ...] of what it made. For drivers and tests."""
        with _errstate(all="ignore"):
            return self.run(<pb_reg *>registers, NULL)


def _described(value):
    if isinstance(value, _ndarray):
        return f"an array of {value.dtype} with shape {value.shape}"
    return f"a {type(value).__name__}"


cdef int check_registers(object numbers, int n_regs, int least) except -1:
    for number in numbers:
        if not least <= number < n_regs:
            raise ValueError(f"register {number} is out of range")
    return 0


cdef int call_out(pb_frame *frame, int32_t number) noexcept with gil:
    # `frame->call`: 0, or 1 with the trap set and, for an exception, the exception kept
    cdef CallState *s = <CallState *>frame.owner
    cdef Entry entry = <Entry>s.entry
    cdef int output
    frame.trap_code = PB_TRAP_RAISED
    try:
        site = <CallSite>entry.calls[number]
        frame.trap_pos = site.position
        if s.lease == NULL:
            lease = Lease()
            incref(<PyObject *>lease)
            s.lease = <PyObject *>lease
            lease = None
        try:
            made = site.run(s.regs, s.lease)
        except PlanMismatch as error:
            if not entry.writes:
                frame.trap_code = PB_TRAP_INTERPRET
                return 1
            from ..errors import InternalError

            raise InternalError(str(error)) from None
        for output, array in made:
            incref(<PyObject *>array)
            set_output(s, output, <PyObject *>array)
    except BaseException as error:
        incref(<PyObject *>error)
        s.error = <PyObject *>error
        return 1
    frame.trap_code = 0
    return 0
