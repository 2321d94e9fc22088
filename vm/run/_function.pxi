# `JitFunction`, the callable that `prebake.jit` returns, and the choice of an engine.

cdef enum:
    AUTO, PREBUILT, JIT, INTERPRETER, PYTHON

ENGINE_CODES = {"auto": AUTO, "prebuilt": PREBUILT, "jit": JIT, "interpreter": INTERPRETER, "python": PYTHON}
ENGINE_VAR = _contextvars.ContextVar("prebake_engine", default=-1)
cdef PyObject *engine_var = <PyObject *>ENGINE_VAR
cdef int n_engine_contexts = 0
cdef int forced_engine = -1  # PREBAKE_ENGINE


def force_engine(code):
    """Make an engine (of ENGINE_CODES) the one of every call outside `with engine(...)`; -1: each function's own."""
    global forced_engine
    forced_engine = code


def engine_contexts(change):
    """Count open `with engine(...)` blocks: without any, calls do not look at the context variable."""
    global n_engine_contexts
    n_engine_contexts += change


cdef int context_engine() except -2:
    cdef PyObject *found = NULL
    PyContextVar_Get(engine_var, NULL, &found)
    code = <object>found
    decref(found)
    return code


cdef PyObject *call_vector(PyObject *callable, PyObject **args, size_t nargsf, PyObject *kwnames) except NULL:
    cdef JitFunction self = <JitFunction>callable
    cdef Py_ssize_t n = PyVectorcall_NARGS(nargsf)
    if kwnames == NULL and n == self.n_positional and self.is_plain:
        result = self.call(args)
    else:
        result = self.call_bound(args, n, kwnames)
    incref(<PyObject *>result)
    return <PyObject *>result


cdef struct HomeC:
    PyObject *place    # dictionary or cell
    uint64_t version   # of the dictionary when its names were looked at last; 0: look
    int first, end     # rows of its names


cdef class JitFunction:
    """A decorated function. Calls go to a prebuilt kernel, else to a plan made in process, else to the interpreter."""

    cdef dict __dict__
    cdef object __weakref__
    cdef vectorcallfunc vector
    cdef readonly object fn           # the original function
    cdef readonly str name            # "module:qualname"
    cdef readonly object _state       # function.FunctionState: whatever is not needed on the fast path
    cdef tuple param_names, defaults
    cdef dict kw_defaults
    cdef int n_params, n_positional, n_positional_only
    cdef bint is_plain                # every parameter may be given by position
    cdef bint is_bindable             # no *args, no **kwargs
    cdef bint is_ready                # bundle looked for, options checked
    cdef bint keeps_exact
    cdef list prebuilt, planned       # entries, the last used one first
    cdef int n_captures
    cdef PyObject **capture_homes     # dictionary or cell
    cdef PyObject **capture_names
    cdef object captures_keepalive
    cdef int n_homes, n_members, n_functions
    cdef HomeC *homes                 # where names are kept
    cdef PyObject **names             # name, object (NULL: none): two for each that was compiled in
    cdef PyObject **members           # object (NULL: the first argument, `type`: its class), name, what the attribute leads to: three for each
    cdef PyObject **functions         # function, code, defaults, keyword defaults: four for each
    cdef object watch_keepalive
    cdef list variants                # JitFunctions of the same function, compiled for other first arguments
    cdef bint needs_variant           # no program of its own: compiled for first arguments only
    cdef int own_engine
    cdef object shape_check           # callable(args tuple) that raises ValueError, or None
    cdef uint64_t volatile_args       # arguments that come as ever new read-only arrays: not taken as constants
    cdef int64_t n_prebuilt, n_planned, n_interpreted, n_python, launched, peak_arena, memory_bytes
    cdef int64_t n_compiled           # of n_planned: by kernels that were compiled in the background

    def __cinit__(self):
        self.vector = <vectorcallfunc><void *>call_vector
        self.prebuilt, self.planned, self.variants = [], [], []
        self.memory_bytes = <int64_t>1 << 62

    def __init__(self, fn, str name, state):
        self.fn, self.name, self._state = fn, name, state
        self._read_code()

    def _read_code(self):
        """Learn the parameters from the function's code."""
        code = self.fn.__code__
        self.n_positional_only = code.co_posonlyargcount
        self.n_positional = code.co_argcount
        self.n_params = code.co_argcount + code.co_kwonlyargcount
        self.param_names = code.co_varnames[:self.n_params]
        self.is_plain = code.co_kwonlyargcount == 0 and not code.co_flags & 0x0C and self.n_params <= 256
        self.is_bindable = not code.co_flags & 0x0C and self.n_params <= 256

    def __dealloc__(self):
        free(self.capture_homes)
        free(self.capture_names)

    # --- being a function

    def __get__(self, instance, owner):
        return self if instance is None else PyMethod_New(self, instance)

    def __repr__(self):
        return f"<prebake.jit {self.name}>"

    def __reduce__(self):
        return self._state.reduce()

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    def __call__(self, *args, **kwargs):
        return self.call_tuple(args, kwargs)

    @property
    def bytecode(self):
        """The `Program` of the function, compiled now if it was not yet. Raises UnsupportedError."""
        return self._state.program()

    def stats(self):
        """Counts of calls by engine, kernels launched, peak arena bytes, and the shapes that no bundle covered."""
        return self._state.stats()

    def explain(self, *args, **kwargs):
        """Who would serve this call, by which rules, and why not a prebuilt kernel; the function does not run."""
        try:
            bound = self.bind(args, kwargs)
        except TypeError as error:  # methods are bound to an instance by Python, their attributes are not
            raise TypeError(f"{self.name}.explain: {error} (of a method: Class.method.explain(instance, ...))") from None
        return self._state.explain(bound)

    # --- set up by FunctionState

    def _set_captures(self, homes, names):
        """Where captured values are read: a dictionary or a cell for each capture, and the name there."""
        cdef int i
        free(self.capture_homes)
        free(self.capture_names)
        self.n_captures = len(homes)
        self.captures_keepalive = (list(homes), list(names))
        self.capture_homes = <PyObject **>calloc(max(self.n_captures, 1), sizeof(PyObject *))
        self.capture_names = <PyObject **>calloc(max(self.n_captures, 1), sizeof(PyObject *))
        if self.capture_homes == NULL or self.capture_names == NULL:
            self.n_captures = 0
            raise MemoryError("no memory for captures")
        for i in range(self.n_captures):
            self.capture_homes[i] = <PyObject *>self.captures_keepalive[0][i]
            self.capture_names[i] = <PyObject *>self.captures_keepalive[1][i]

    def _set_watch(self, names, members, functions):
        """What was compiled in, as the rows of `bindings.Watch`."""
        cdef PyObject **rows
        cdef HomeC *home
        cdef int i
        kept = []
        names = sorted(names, key=lambda row: id(row[0]))
        pairs = [row[1:] for row in names]
        for table, nothing in ((pairs, _ABSENT), (members, None), (functions, None)):
            flat = [part for row in table for part in row]
            room = bytearray(max(len(flat), 1) * sizeof(PyObject *))
            rows = <PyObject **><char *>room
            for i, part in enumerate(flat):
                rows[i] = NULL if part is nothing else <PyObject *>part
            kept.append((flat, room))
        room = bytearray((len(names) + 1) * sizeof(HomeC))
        home = <HomeC *><char *>room - 1
        for i, row in enumerate(names):
            if i == 0 or home.place != <PyObject *>row[0]:
                home += 1
                home.place, home.first = <PyObject *>row[0], i
            home.end = i + 1
        kept.append((names, room))
        self.homes = <HomeC *><char *>room
        self.n_homes = home + 1 - self.homes
        self.names = <PyObject **><char *>kept[0][1]
        self.members = <PyObject **><char *>kept[1][1]
        self.functions = <PyObject **><char *>kept[2][1]
        self.n_members, self.n_functions = len(members), len(functions)
        self.watch_keepalive = kept

    cdef bint is_rebound(self, PyObject **args):
        """Whether what was compiled in is something else now."""
        return self.is_renamed() or (self.n_members != 0 and self.has_other_members(args))

    cdef bint is_renamed(self) noexcept:
        """Whether a name or a function that was compiled in changed."""
        cdef int i, at
        cdef uint64_t version
        cdef HomeC *home
        cdef PyObject *value
        cdef PyObject **row
        for i in range(self.n_homes):
            home = &self.homes[i]
            if PyCell_Check(home.place):
                if PyCell_GET(home.place) != self.names[2 * home.first + 1]:
                    return True
                continue
            version = pb_dict_version(home.place)
            if version == home.version and version:
                continue
            for at in range(home.first, home.end):
                value = PyDict_GetItemWithError(home.place, self.names[2 * at])
                if value == NULL:
                    PyErr_Clear()
                if value != self.names[2 * at + 1]:
                    return True
            home.version = version
        for i in range(self.n_functions):
            row = &self.functions[4 * i]
            if PyFunction_GET_CODE(row[0]) != row[1] or PyFunction_GET_DEFAULTS(row[0]) != row[2] \
                    or PyFunction_GET_KW_DEFAULTS(row[0]) != row[3]:
                return True
        return False

    cdef bint has_other_members(self, PyObject **args):
        """Whether an attribute that was compiled in leads elsewhere: of a class, or of this call's first argument (NULL:
        those of classes alone)."""
        cdef int i, n = self.n_members
        cdef PyObject **row = self.members
        if n == 0:
            return False
        kept = self.watch_keepalive  # looking at an attribute may run code that sets another watch
        for i in range(n):
            if row[0] == <PyObject *>type:
                if args != NULL and not pb_attribute_is(<PyObject *>Py_TYPE(<object>args[0]), row[1], row[2]):
                    return True
            elif row[0] != NULL:
                if not pb_attribute_is(row[0], row[1], row[2]):
                    return True
            elif args != NULL and not pb_attribute_is(args[0], row[1], row[2]):
                return True
            row += 3
        return False

    def _differs(self, tuple args):
        """`is_rebound` for a full tuple of arguments."""
        cdef PyObject *slots[256]
        self.spread(args, slots)
        return self.is_rebound(slots)

    def _renamed(self):
        """Whether a name, a function or a class's member that was compiled in changed, whatever a call's arguments are."""
        return self.is_renamed() or self.has_other_members(NULL)

    def _set_variants(self, functions, bint needs_one):
        """Other programs of the function, the one to try first in front."""
        self.variants, self.needs_variant = list(functions), needs_one

    def _serve(self, tuple args):
        """A call with a value for every parameter, by the program of this one, which fits."""
        cdef PyObject *slots[256]
        self.spread(args, slots)
        return self.call(slots, True)

    def _configure(self, engine, memory_bytes, shape_check):
        self.own_engine = ENGINE_CODES[engine]
        self.memory_bytes = <int64_t>1 << 62 if memory_bytes is None else memory_bytes
        self.shape_check = shape_check
        self.is_ready = True

    def _unready(self):
        """Look at options and bundles again at the next call."""
        self.is_ready = False

    def _entries(self):
        """(prebuilt, planned) entries, the last used one first."""
        return list(self.prebuilt), list(self.planned)

    def _set_prebuilt(self, entries):
        self.prebuilt = list(entries)

    def _add_planned(self, Entry entry, int most):
        self.planned.insert(0, entry)
        dropped = self.planned[most:]
        del self.planned[most:]
        return dropped

    def _swap_planned(self, Entry old, Entry made):
        """Put an entry in the place of another one; False where that is gone."""
        if old not in self.planned:
            return False
        self.planned[self.planned.index(old)] = made
        return True

    def _clear(self):
        """Forget plans and captures (the function is compiled again)."""
        self.prebuilt, self.planned, self.variants = [], [], []
        self.is_ready = self.needs_variant = False

    def _drop_planned(self):
        """Forget the plans that were made in this process (options that change code have changed)."""
        self.planned = []

    def _mark_volatile(self, int argument):
        if argument < 64:
            self.volatile_args |= <uint64_t>1 << argument

    def _is_volatile(self, int argument):
        return argument < 64 and bool(self.volatile_args >> argument & 1)

    def _counts(self):
        """(prebuilt, jit, interpreter, python, kernels launched, of jit: kernels compiled in the background, peak arena
        bytes), those of variants left out."""
        return (self.n_prebuilt, self.n_planned, self.n_interpreted, self.n_python, self.launched, self.n_compiled,
                self.peak_arena)

    def _absorb(self, JitFunction other):
        """Take over the counts of a variant that goes."""
        self.n_prebuilt += other.n_prebuilt
        self.n_planned += other.n_planned
        self.n_interpreted += other.n_interpreted
        self.n_python += other.n_python
        self.launched += other.launched
        self.n_compiled += other.n_compiled
        self.peak_arena = max(self.peak_arena, other.peak_arena)

    def _count(self, int engine):
        if engine == INTERPRETER:
            self.n_interpreted += 1
        elif engine == PYTHON:
            self.n_python += 1

    def _engine(self):
        """Code of the engine that serves a call made now."""
        return self.engine()

    # --- captures

    cdef PyObject *capture(self, Py_ssize_t i) noexcept:
        # new reference, or NULL without an exception
        cdef PyObject *home
        cdef PyObject *value
        if i < 0 or i >= self.n_captures:
            return NULL
        home = self.capture_homes[i]
        if PyCell_Check(home):
            value = PyCell_GET(home)
        else:
            value = PyDict_GetItemWithError(home, self.capture_names[i])
        if value == NULL:
            PyErr_Clear()
            return NULL
        incref(value)
        return value

    def read_capture(self, int i):
        """The present value of a captured name. Raises NameError or AttributeError, as Python does, where it has none."""
        cdef PyObject *value = self.capture(i)
        if value == NULL:
            if not 0 <= i < self.n_captures:
                raise NameError(f"capture {i}")
            raise self._state.no_value(self.captures_keepalive[0][i], self.captures_keepalive[1][i].rpartition("|")[2])
        result = <object>value
        decref(value)
        return result

    # --- calls

    cdef int engine(self) except -2:
        cdef int code = -1
        if n_engine_contexts:
            code = context_engine()
        if code < 0:
            code = forced_engine
        return self.own_engine if code < 0 else code

    cdef object call_rebound(self, PyObject **args):
        # what was compiled in is something else for this call
        cdef JitFunction variant
        if not self.is_renamed():
            for item in self.variants:
                variant = <JitFunction>item
                if not variant.is_rebound(args):
                    return variant.call(args, True)
        return self._state.rebound(self.tuple_of(args))

    cdef object call(self, PyObject **args, bint fits=False):
        # args: one object for each parameter, borrowed; fits: what was compiled in is known to be the same
        cdef int engine, status = 0, why = 0, i, mode, missed
        cdef Entry entry
        if not self.is_ready:
            self._state.get_ready()
        engine = self.engine()
        if not fits and self.n_functions and engine != PYTHON and (self.needs_variant or self.is_rebound(args)):
            return self.call_rebound(args)
        if self.shape_check is not None:
            self.shape_check(self.tuple_of(args))
        if engine <= JIT:
            if engine != JIT:
                for i in range(len(self.prebuilt)):
                    if i >= len(self.prebuilt):
                        break
                    entry = <Entry>self.prebuilt[i]
                    result = entry.serve(self, args, 0, -1, &status)
                    if status == SERVED:
                        self.n_prebuilt += 1
                        if i:
                            self.to_front(self.prebuilt, entry)
                        return result
                    if status == TRAPPED:
                        self.n_prebuilt += 1
                        return self._state.trapped(result, self.tuple_of(args), entry.writes)
                    if status == MISS_INTERPRET:
                        return self._state.interpret(self.tuple_of(args), engine, status)
                    why = max(why, status)
            if engine != PREBUILT:
                mode = EXACT if len(self.planned) < 8 else 0
                missed = why if engine == AUTO else -1
                for i in range(len(self.planned)):
                    if i >= len(self.planned):
                        break
                    entry = <Entry>self.planned[i]
                    result = entry.serve(self, args, mode, missed, &status)
                    if status == SERVED:
                        self.n_planned += 1
                        self.n_compiled += entry.chooser is not None
                        if i:
                            self.to_front(self.planned, entry)
                        return result
                    if status == TRAPPED:
                        self.n_planned += 1
                        self.n_compiled += entry.chooser is not None
                        return self._state.trapped(result, self.tuple_of(args), entry.writes)
                    if status == MISS_INTERPRET:
                        return self._state.interpret(self.tuple_of(args), engine, why)
        elif engine == PYTHON:
            self.n_python += 1
            return self.call_original(args)
        return self._state.miss(self.tuple_of(args), engine, why)

    def _try(self, Entry entry, tuple args, int missed, bint exact):
        """(status, result) of a planned entry for a full tuple of arguments; status 0: it served the call. Counted if it ran."""
        cdef int status = 0
        cdef PyObject *slots[256]
        self.spread(args, slots)
        result = entry.serve(self, slots, EXACT if exact else 0, missed, &status)
        if status == SERVED or status == TRAPPED:
            self.n_planned += 1
            self.n_compiled += entry.chooser is not None
        return status, result

    def _probe(self, Entry entry, tuple args, bint exact):
        """(status, number of the kernel) without running anything."""
        cdef int status = 0
        cdef PyObject *slots[256]
        self.spread(args, slots)
        result = entry.serve(self, slots, DRY | (EXACT if exact else 0), -1, &status)
        return status, result

    cdef int spread(self, tuple args, PyObject **slots) except -1:
        """Borrow a value for every parameter from a full tuple of arguments."""
        if len(args) != self.n_params:
            raise TypeError(f"{self.name} has {self.n_params} parameters, got {len(args)} values")
        for i in range(len(args)):
            slots[i] = PyTuple_GET_ITEM(<PyObject *>args, i)
        return 0

    cdef int to_front(self, list entries, Entry entry) except -1:
        if entry in entries:
            entries.remove(entry)
            entries.insert(0, entry)
        return 0

    cdef tuple tuple_of(self, PyObject **args):
        return tuple([<object>args[i] for i in range(self.n_params)])

    cdef object call_original(self, PyObject **args):
        cdef int i
        if self.is_plain:
            return self.fn(*self.tuple_of(args))
        values = self.tuple_of(args)
        return self.fn(*values[:self.n_positional],
                       **{self.param_names[i]: values[i] for i in range(self.n_positional, self.n_params)})

    cdef object call_bound(self, PyObject **args, Py_ssize_t n, PyObject *kwnames):
        # keywords, defaults, wrong counts
        cdef PyObject *slots[256]
        cdef Py_ssize_t i, j, n_keywords = 0
        if not self.is_bindable or n > self.n_positional:
            return self.call_unpacked(args, n, kwnames)
        for i in range(self.n_params):
            slots[i] = args[i] if i < n else NULL
        if kwnames != NULL:
            names = <tuple>kwnames
            n_keywords = len(names)
            for i in range(n_keywords):
                for j in range(self.n_positional_only, self.n_params):
                    if names[i] == self.param_names[j]:
                        break
                else:
                    return self.call_unpacked(args, n, kwnames)
                if slots[j] != NULL:
                    return self.call_unpacked(args, n, kwnames)
                slots[j] = args[n + i]
        defaults = self.fn.__defaults__ or ()
        keyword_defaults = self.fn.__kwdefaults__ or {}
        for i in range(self.n_params):
            if slots[i] == NULL:
                if i < self.n_positional:
                    j = i - (self.n_positional - len(defaults))
                    if j < 0:
                        return self.call_unpacked(args, n, kwnames)
                    slots[i] = PyTuple_GET_ITEM(<PyObject *>defaults, j)
                else:
                    value = keyword_defaults.get(self.param_names[i], self)
                    if value is self:
                        return self.call_unpacked(args, n, kwnames)
                    slots[i] = <PyObject *>value
        return self.call(slots)

    cdef object call_unpacked(self, PyObject **args, Py_ssize_t n, PyObject *kwnames):
        cdef Py_ssize_t i
        keywords = {}
        if kwnames != NULL:
            names = <tuple>kwnames
            keywords = {names[i]: <object>args[n + i] for i in range(len(names))}
        return self.call_tuple(tuple([<object>args[i] for i in range(n)]), keywords)

    def bind(self, args, kwargs):
        """One value for each parameter. Raises Python's own TypeError where they do not fit."""
        values = self.try_bind(args, kwargs)
        if values is None:
            import inspect
            inspect.signature(self.fn).bind(*args, **kwargs)
            raise TypeError(f"{self.name} takes *args or **kwargs, which prebake does not compile")
        return values

    cdef object try_bind(self, args, kwargs):
        # one value for each parameter, or None
        if not self.is_bindable or len(args) > self.n_positional:
            return None
        values = list(args)
        used = 0
        defaults = self.fn.__defaults__ or ()
        for i in range(len(args), self.n_params):
            name = self.param_names[i]
            if i >= self.n_positional_only and name in kwargs:
                values.append(kwargs[name])
                used += 1
            elif i < self.n_positional:
                j = i - (self.n_positional - len(defaults))
                if j < 0:
                    return None
                values.append(defaults[j])
            else:
                found = (self.fn.__kwdefaults__ or {}).get(name, self)
                if found is self:
                    return None
                values.append(found)
        return tuple(values) if used == len(kwargs) else None

    cdef object call_tuple(self, args, kwargs):
        cdef PyObject *slots[256]
        cdef Py_ssize_t i
        if not self.is_bindable:
            return self._state.unbindable(args, kwargs)
        values = self.try_bind(args, kwargs)
        if values is None:
            # Python says itself what is wrong with the arguments; the body does not start
            return self.fn(*args, **kwargs)
        for i in range(self.n_params):
            slots[i] = PyTuple_GET_ITEM(<PyObject *>values, i)
        return self.call(slots)


def _enable_vectorcall():
    cdef JitFunction sample = JitFunction.__new__(JitFunction)
    pb_enable_vectorcall(<PyTypeObject *>JitFunction, <char *>&sample.vector - <char *><PyObject *>sample)


_enable_vectorcall()
