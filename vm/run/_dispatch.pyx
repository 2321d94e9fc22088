# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: binding=False, embedsignature=False
"""The part of a call that is counted in nanoseconds.

In reading order: `_memory.pxi` (frozen buffers, packed operands), `_shapes.pxi` (counts for each shape, choice of a
kernel), `_parts.pxi` (rows, leaves, results), `_calls.pxi` (call-outs), `_entry.pxi` (one plan: replay its rows, fill its registers, run it),
`_function.pxi` (`JitFunction`: the callable).
Whatever happens seldom is Python, in `function.py`.
"""

cimport cython
from cpython.object cimport PyObject, PyTypeObject, Py_TYPE, Py_EQ
from cpython.ref cimport Py_INCREF, Py_DECREF, Py_XDECREF
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyObject_GetBuffer, PyBuffer_Release, PyBuffer_FillInfo
from cpython.pystate cimport PyThreadState
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset, strcmp

import contextvars as _contextvars
import weakref as _weakref

from ..bindings import ABSENT as _ABSENT
from numpy import errstate as _errstate, ndarray as _ndarray, uint64 as _uint64


cdef extern from "_dispatch.h" nogil:
    ctypedef Py_ssize_t npy_intp
    ctypedef struct pb_frame
    ctypedef union pb_reg:
        int64_t i
        double d
        float f
        char *p
    ctypedef struct pb_frame:
        pb_reg *r
        const void *const *packs
        int32_t trap_code
        int32_t trap_pos
        void *owner
        char *(*alloc)(pb_frame *, int32_t) noexcept nogil
        int (*call)(pb_frame *, int32_t) noexcept nogil
    ctypedef int (*pb_bind_fn)(const void *, pb_frame *) noexcept nogil
    ctypedef int (*pb_run_fn)(const void *, pb_frame *) noexcept nogil
    ctypedef int64_t (*pb_pack_bytes_fn)(int32_t, int64_t, int64_t) noexcept nogil
    ctypedef void (*pb_pack_fn)(int32_t, int64_t, int64_t, const char *, int64_t, int64_t, void *) noexcept nogil
    ctypedef struct pb_library:
        int32_t abi_version
        const char *level
        const char *layout
        pb_pack_bytes_fn pack_bytes
        pb_pack_fn pack
    ctypedef struct pb_stencil_table:
        pb_library library
        pb_bind_fn tape_bind
        pb_run_fn tape_run
    ctypedef struct pb_kernel:
        const char *name
        pb_bind_fn bind
        pb_run_fn run
    ctypedef struct pb_kernel_table:
        pb_library library
        int32_t n_kernels
        const pb_kernel *kernels
        const char *records
    ctypedef struct pb_arena:
        char *p
        size_t bytes
    enum: PB_ABI_VERSION
    enum: PB_TRAP_INTERPRET
    enum: PB_TRAP_RAISED
    enum: PB_NDTYPES
    enum: PB_BOOL, PB_U64, PB_F16, PB_BF16, PB_F32, PB_F64
    enum: NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE
    int pb_type_numbers[15]
    int64_t pb_now_ns()
    bint pb_is_array(PyObject *)
    bint pb_is_array_like(PyObject *)
    bint pb_is_generic(PyObject *)
    int pb_array_code(PyObject *)
    char *pb_data(PyObject *)
    int pb_ndim(PyObject *)
    int64_t pb_dim(PyObject *, int)
    int64_t pb_stride(PyObject *, int)
    int pb_flags(PyObject *)
    PyObject *pb_base(PyObject *)
    void *pb_builtin_descr(int)
    bint pb_is_plain(PyObject *, const void *, int, int)
    bint pb_has_shape(PyObject *, const int64_t *, int)
    pb_arena pb_arena_take(size_t)
    void pb_arena_give(pb_arena)
    void pb_arena_clear()
    void pb_pool_trim(size_t)
    size_t pb_pool_held

cdef extern from "_dispatch.h":
    int pb_scalar_value(PyObject *, int, pb_reg *, int *)
    object pb_make_scalar(int, const pb_reg *, int)
    PyObject *pb_new_result(int, npy_intp *, int) except NULL
    int pb_scalar_code(PyObject *)
    PyObject *pb_scalar_type(int)
    object pb_new_view(PyObject *, int, int, npy_intp *, npy_intp *, char *, bint)
    object pb_wrap(int, int, npy_intp *, npy_intp *, char *, bint, PyObject *)
    object pb_own(object)
    object pb_changing_view(PyObject *)
    bint pb_attribute_is(PyObject *, PyObject *, PyObject *)  # no exception
    uint64_t pb_dict_version(PyObject *)
    int pb_dispatch_init() except -1
    void pb_enable_vectorcall(PyTypeObject *, Py_ssize_t)

cdef extern from "_rows.h":
    ctypedef struct pb_step:
        unsigned char kind "kind"
        unsigned char source "from"
        unsigned short ndim
        int32_t parent
        int32_t index
        int32_t needed[2]
        int32_t length
        const void *descr
        int64_t shape[2]
        PyObject *key
        const PyObject *base
    enum: PB_STEP_AXES
    enum: PB_FROM_ELSEWHERE, PB_FROM_ARGUMENT, PB_FROM_TUPLE, PB_FROM_LIST, PB_FROM_DICT
    enum: PB_STEP_OTHER, PB_STEP_ARRAY, PB_STEP_CONSTANT, PB_STEP_TUPLE, PB_STEP_LIST
    int pb_replay(pb_step *, int, int, PyObject **, int, PyObject **, pb_reg *, int, PyTypeObject *)

cdef extern from "Python.h":
    ctypedef PyObject *(*vectorcallfunc)(PyObject *, PyObject **, size_t, PyObject *) except NULL
    Py_ssize_t PyVectorcall_NARGS(size_t)
    PyObject *PyObject_GetAttr(PyObject *, PyObject *)  # no `except`: the callers clear or raise
    PyObject *PyObject_GetItem(PyObject *, PyObject *)
    PyObject *PyDict_GetItemWithError(PyObject *, PyObject *)
    int PyObject_RichCompareBool(PyObject *, PyObject *, int)
    bint PyTuple_CheckExact(PyObject *)
    bint PyList_CheckExact(PyObject *)
    bint PyDict_CheckExact(PyObject *)
    Py_ssize_t PyTuple_GET_SIZE(PyObject *)
    Py_ssize_t PyList_GET_SIZE(PyObject *)
    PyObject *PyTuple_GET_ITEM(PyObject *, Py_ssize_t)
    PyObject *PyList_GET_ITEM(PyObject *, Py_ssize_t)
    Py_ssize_t PyDict_Size(PyObject *)
    int PyDict_Next(PyObject *, Py_ssize_t *, PyObject **, PyObject **)
    bint PyLong_CheckExact(PyObject *)
    bint PyFloat_CheckExact(PyObject *)
    bint PyBool_Check(PyObject *)
    double PyFloat_AS_DOUBLE(PyObject *)
    long long PyLong_AsLongLongAndOverflow(PyObject *, int *) except? -1
    object PyLong_FromLongLong(long long)
    PyObject *PyCell_GET(PyObject *)
    PyObject *PyFunction_GET_CODE(PyObject *)
    PyObject *PyFunction_GET_DEFAULTS(PyObject *)
    PyObject *PyFunction_GET_KW_DEFAULTS(PyObject *)
    bint PyCell_Check(PyObject *)
    PyObject *Py_True
    void PyErr_Clear()
    PyThreadState *PyEval_SaveThread() nogil
    void PyEval_RestoreThread(PyThreadState *) nogil
    void *PyCapsule_GetPointer(object, const char *) except NULL
    object PyMethod_New(object, object)
    bint PyMethod_Check(PyObject *)
    PyObject *PyMethod_GET_FUNCTION(PyObject *)
    PyObject *PyMethod_GET_SELF(PyObject *)
    int PyContextVar_Get(PyObject *, PyObject *, PyObject **) except -1
    void incref "Py_INCREF"(PyObject *)
    void decref "Py_DECREF"(PyObject *)
    void xdecref "Py_XDECREF"(PyObject *)
    Py_ssize_t refcount "Py_REFCNT"(PyObject *)

pb_dispatch_init()

ABI_VERSION = PB_ABI_VERSION


def kernel_records(table):
    """Digest of the manifest's functions that the kernels of a shared object (capsule) were made for."""
    cdef pb_kernel_table *found = <pb_kernel_table *>PyCapsule_GetPointer(table, "prebake.kernels")
    return found.records.decode() if found.library.abi_version == PB_ABI_VERSION else ""

class _DtypeCodes(dict):
    def __missing__(self, name):
        """bfloat16's, once its type is known."""
        if name != "bf16":
            raise KeyError(name)
        from ..dtypes import dtype_from_name

        pb_type_numbers[PB_BF16] = dtype_from_name("bfloat16").num
        self[name] = PB_BF16
        return PB_BF16

# memory dtype names in the order of the codes in _dispatch.h
DTYPE_CODES = _DtypeCodes({name: code for code, name in enumerate(
    ("bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64", "c64",
     "c128")) if name != "bf16"})
PRODUCT_DTYPES = {"f32": 0, "f64": 1, "bf16": 2, "f16": 3}  # as vm/plan/code.py has them, which loads later

# What an entry answers when it does not serve a call, the furthest step first in `MISS_NAMES`' order of precedence.
cdef enum:
    SERVED = 0
    MISS_DTYPE = 1      # another type, dtype or rank
    MISS_LAYOUT = 2     # order, alignment, read-only where it is written
    MISS_GUARD = 3      # structure, captured value or fact
    MISS_BUCKET = 4     # the rows hold, no kernel is made for these extents
    MISS_INTERPRET = 5  # the code itself asked for the interpreter; nothing was changed
    TRAPPED = 6

MISS_NAMES = {MISS_DTYPE: "DTYPE", MISS_LAYOUT: "LAYOUT", MISS_GUARD: "GUARD", MISS_BUCKET: "NO_BUCKET",
              MISS_INTERPRET: "GUARD"}

cdef int64_t MOST_EXACT = <int64_t>1 << 47  # the plans' integer algebra is proved for symbols below this

include "_memory.pxi"
include "_shapes.pxi"
include "_parts.pxi"
include "_calls.pxi"
include "_entry.pxi"
include "_function.pxi"
