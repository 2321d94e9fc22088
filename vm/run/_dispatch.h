/* NumPy's C side of the dispatcher: array checks, result memory, arenas, clock. Included by _dispatch.pyx alone. */
#ifndef PB_DISPATCH_H
#define PB_DISPATCH_H
#ifndef NPY_NO_DEPRECATED_API
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#endif
#ifndef NPY_TARGET_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#endif
#include <Python.h>
#include <numpy/arrayobject.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "pb_abi.h"

static inline int64_t pb_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* --- dtypes: codes follow the order of templates/scalars.py MEMORY, complex ones behind --------------------------------------------------- */

enum { PB_BOOL, PB_I8, PB_I16, PB_I32, PB_I64, PB_U8, PB_U16, PB_U32, PB_U64, PB_F16, PB_BF16, PB_F32, PB_F64,
       PB_C64, PB_C128, PB_NDTYPES };

/* Of bfloat16: what ml_dtypes registered, once something asked for it (`DTYPE_CODES`). */
static int pb_type_numbers[PB_NDTYPES] = {NPY_BOOL, NPY_INT8, NPY_INT16, NPY_INT32, NPY_INT64, NPY_UINT8,
                                                NPY_UINT16, NPY_UINT32, NPY_UINT64, NPY_HALF, -1, NPY_FLOAT, NPY_DOUBLE,
                                                NPY_CFLOAT, NPY_CDOUBLE};
static const int pb_item_bytes[PB_NDTYPES] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};

/* Code of a descriptor, or -1: other types and foreign byte order. `long` and `long long` are one code. */
static inline int pb_descr_code(PyArray_Descr *d)
{
    if (!PyDataType_ISNOTSWAPPED(d)) {
        return -1;
    }
    switch (d->type_num) {
    case NPY_BOOL: return PB_BOOL;
    case NPY_BYTE: return PB_I8;
    case NPY_UBYTE: return PB_U8;
    case NPY_SHORT: return PB_I16;
    case NPY_USHORT: return PB_U16;
    case NPY_INT: return PB_I32;
    case NPY_UINT: return PB_U32;
    case NPY_LONG: return sizeof(long) == 8 ? PB_I64 : PB_I32;
    case NPY_ULONG: return sizeof(long) == 8 ? PB_U64 : PB_U32;
    case NPY_LONGLONG: return PB_I64;
    case NPY_ULONGLONG: return PB_U64;
    case NPY_HALF: return PB_F16;
    case NPY_FLOAT: return PB_F32;
    case NPY_DOUBLE: return PB_F64;
    case NPY_CFLOAT: return PB_C64;
    case NPY_CDOUBLE: return PB_C128;
    default: return d->type_num == pb_type_numbers[PB_BF16] ? PB_BF16 : -1;
    }
}

static inline int pb_is_array(PyObject *o) { return Py_IS_TYPE(o, &PyArray_Type); }
static inline int pb_is_array_like(PyObject *o) { return PyObject_TypeCheck(o, &PyArray_Type); }
static inline int pb_is_generic(PyObject *o) { return PyObject_TypeCheck(o, &PyGenericArrType_Type); }
static inline PyArrayObject *pb_array(PyObject *o) { return (PyArrayObject *)o; }
static inline int pb_array_code(PyObject *o) { return pb_descr_code(PyArray_DESCR(pb_array(o))); }
static inline char *pb_data(PyObject *o) { return PyArray_BYTES(pb_array(o)); }
static inline int pb_ndim(PyObject *o) { return PyArray_NDIM(pb_array(o)); }
static inline int64_t pb_dim(PyObject *o, int i) { return PyArray_DIM(pb_array(o), i); }
static inline int64_t pb_stride(PyObject *o, int i) { return PyArray_STRIDE(pb_array(o), i); }
static inline int pb_flags(PyObject *o) { return PyArray_FLAGS(pb_array(o)); }
static inline PyObject *pb_base(PyObject *o) { return PyArray_BASE(pb_array(o)); }

/* NumPy's own descriptor of a code; it lives as long as the process. */
static inline void *pb_builtin_descr(int code)
{
    PyArray_Descr *d = PyArray_DescrFromType(pb_type_numbers[code]);
    Py_XDECREF(d);
    return d;
}

/* Whether an object is exactly an array with this descriptor, rank and all of these flags: what nearly every row asks. */
static inline int pb_is_plain(PyObject *o, const void *descr, int nd, int flags)
{
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)o;
    return Py_IS_TYPE(o, &PyArray_Type) && (const void *)a->descr == descr && a->nd == nd && (a->flags & flags) == flags;
}

/* Whether an array has these extents. */
static inline int pb_has_shape(PyObject *o, const int64_t *shape, int nd)
{
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)o;
    int i;
    for (i = 0; i < nd; i++) {
        if (a->dimensions[i] != shape[i]) {
            return 0;
        }
    }
    return 1;
}

/* The code of a NumPy scalar, or -1. */
static inline int pb_scalar_code(PyObject *o)
{
    PyArray_Descr *d = PyArray_DescrFromScalar(o);
    int code;
    if (d == NULL) {
        PyErr_Clear();
        return -1;
    }
    code = pb_descr_code(d);
    Py_DECREF(d);
    return code;
}

/* The usual scalar type of a code, borrowed (static types of NumPy). */
static inline PyObject *pb_scalar_type(int code)
{
    PyArray_Descr *d = PyArray_DescrFromType(pb_type_numbers[code]);
    PyObject *type = (PyObject *)d->typeobj;
    Py_DECREF(d);
    return type;
}

/* Value of a NumPy scalar whose code was checked, in `out`: `i`, or `d` when is_float; the code, or -1 (out of int64). */
static inline int pb_scalar_value(PyObject *o, int code, pb_reg *out, int *is_float)
{
    union { npy_bool b; int8_t i1; int16_t i2; int32_t i4; int64_t i8; uint8_t u1; uint16_t u2; uint32_t u4; uint64_t u8;
            float f4; double f8; char room[32]; } v;
    *is_float = code >= PB_F16;
    if (code == PB_F16 || code == PB_BF16) {
        double x = PyFloat_AsDouble(o);
        if (x == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return -1;
        }
        out->d = x;
        return code;
    }
    PyArray_ScalarAsCtype(o, &v);
    switch (code) {
    case PB_BOOL: out->i = v.b != 0; break;
    case PB_I8: out->i = v.i1; break;
    case PB_I16: out->i = v.i2; break;
    case PB_I32: out->i = v.i4; break;
    case PB_I64: out->i = v.i8; break;
    case PB_U8: out->i = v.u1; break;
    case PB_U16: out->i = v.u2; break;
    case PB_U32: out->i = v.u4; break;
    case PB_U64: out->i = (int64_t)v.u8; break; /* its bits, as plans hold it */
    case PB_F32: out->d = v.f4; break;
    default: out->d = v.f8; break;
    }
    return code;
}

/* A NumPy scalar of a code made from a register of native type `is_float` (0 integer or bool, 1 float, 2 double). */
static inline PyObject *pb_make_scalar(int code, const pb_reg *r, int is_float)
{
    char room[16];
    int64_t i = r->i;
    double x = is_float == 1 ? (double)r->f : r->d;
    PyArray_Descr *d = PyArray_DescrFromType(pb_type_numbers[code]);
    PyObject *result;
    if (d == NULL) {
        return NULL;
    }
    switch (code) {
    case PB_F64: if (!is_float) x = (double)i; memcpy(room, &x, 8); break;
    case PB_F32: {
        float f = is_float == 1 ? r->f : is_float == 2 ? (float)x : (float)i;
        memcpy(room, &f, 4);
        break;
    }
    case PB_F16:
    case PB_BF16: {
        /* by way of an array: NumPy owns the rounding of halves */
        PyObject *number = PyFloat_FromDouble(is_float ? x : (double)i), *array;
        if (number == NULL) {
            Py_DECREF(d);
            return NULL;
        }
        array = PyArray_FromAny(number, d, 0, 0, NPY_ARRAY_FORCECAST, NULL);
        Py_DECREF(number);
        return array == NULL ? NULL : PyArray_Return((PyArrayObject *)array);
    }
    case PB_BOOL: room[0] = i != 0; break;
    default: memcpy(room, &i, 8); break; /* little endian: the low bytes come first */
    }
    result = PyArray_Scalar(room, d, NULL);
    Py_DECREF(d);
    return result;
}

/* --- operands and results of call-outs ---------------------------------------------------------------------------- */

/* An array over memory that `owner` (NULL: the caller) keeps alive, new reference; it may be written only where the
 * callee is to write. */
static inline PyObject *pb_wrap(int code, int ndim, npy_intp *dims, npy_intp *strides, char *data, int is_written,
                                PyObject *owner)
{
    PyArray_Descr *d = PyArray_DescrFromType(pb_type_numbers[code]);
    PyObject *array = d == NULL ? NULL : PyArray_NewFromDescr(&PyArray_Type, d, ndim, dims, strides, data,
                                                              is_written ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (array != NULL && owner != NULL) {
        Py_INCREF(owner);
        if (PyArray_SetBaseObject((PyArrayObject *)array, owner) < 0) {
            Py_DECREF(array);
            return NULL;
        }
    }
    return array;
}

/* The array itself when it is C-ordered, writable, and of memory that NumPy owns; else a copy. New reference. */
static inline PyObject *pb_own(PyObject *o)
{
    const int wanted = NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_WRITEABLE;
    PyObject *owner = o;
    while (owner != NULL && Py_IS_TYPE(owner, &PyArray_Type) && !PyArray_CHKFLAGS(pb_array(owner), NPY_ARRAY_OWNDATA)) {
        owner = PyArray_BASE(pb_array(owner));
    }
    if (owner != NULL && Py_IS_TYPE(owner, &PyArray_Type) && (PyArray_FLAGS(pb_array(o)) & wanted) == wanted) {
        Py_INCREF(o);
        return o;
    }
    return PyArray_NewCopy(pb_array(o), NPY_CORDER);
}

/* --- result memory ---------------------------------------------------------------------------------------------------
 * Fresh pages cost more than many kernels, and malloc more than a small one, so results come from blocks that earlier
 * results gave back. The array
 * owns its block through NumPy's own allocator interface (NEP 49): to its user it is an ordinary array.
 * Every block has a 64-byte header. All of this runs with the GIL held. */

typedef struct pb_block {
    size_t capacity;
    struct pb_block *next;
} pb_block;

#define PB_HEADER 64
#define PB_POOLED_FROM 512 /* below, NumPy keeps memory at hand itself */
#define PB_CLASSES 256

static pb_block *pb_pool[PB_CLASSES];
static size_t pb_pool_held = 0, pb_pool_limit = (size_t)128 << 20;

/* Size class (four for each power of two) and its capacity. */
static inline int pb_class_of(size_t bytes, size_t *capacity)
{
    int k = 63 - __builtin_clzll((unsigned long long)(bytes | 64));
    size_t quarter = (size_t)1 << (k - 2), base = (size_t)1 << k;
    size_t steps = bytes <= base ? 0 : (bytes - base + quarter - 1) / quarter;
    *capacity = base + steps * quarter;
    return 4 * k + (int)steps; /* steps == 4 is the next power's class 0 */
}

static void *pb_pool_take(size_t bytes)
{
    size_t capacity;
    int c = pb_class_of(bytes, &capacity);
    pb_block *b = pb_pool[c];
    if (b != NULL) {
        pb_pool[c] = b->next;
        pb_pool_held -= capacity;
        return (char *)b + PB_HEADER;
    }
    b = (pb_block *)aligned_alloc(64, (capacity + PB_HEADER + 63) & ~(size_t)63);
    if (b == NULL) {
        return NULL;
    }
    b->capacity = capacity;
    return (char *)b + PB_HEADER;
}

static void pb_pool_give(void *p)
{
    pb_block *b = (pb_block *)((char *)p - PB_HEADER);
    size_t capacity;
    int c;
    if (b->capacity < PB_POOLED_FROM || pb_pool_held + b->capacity > pb_pool_limit) {
        free(b);
        return;
    }
    c = pb_class_of(b->capacity, &capacity);
    b->next = pb_pool[c];
    pb_pool[c] = b;
    pb_pool_held += b->capacity;
}

static void pb_pool_trim(size_t limit)
{
    int c;
    pb_pool_limit = limit;
    for (c = PB_CLASSES - 1; c >= 0 && pb_pool_held > limit; c--) {
        while (pb_pool[c] != NULL && pb_pool_held > limit) {
            pb_block *b = pb_pool[c];
            pb_pool[c] = b->next;
            pb_pool_held -= b->capacity;
            free(b);
        }
    }
}

static void *pb_handler_malloc(void *ctx, size_t n) { (void)ctx; return pb_pool_take(n ? n : 1); }
static void *pb_handler_calloc(void *ctx, size_t n, size_t size)
{
    void *p;
    (void)ctx;
    if (size && n > (size_t)-1 / 2 / size) {
        return NULL;
    }
    n *= size;
    p = pb_pool_take(n > 0 ? n : 1);
    return p == NULL ? NULL : memset(p, 0, n);
}
static void pb_handler_free(void *ctx, void *p, size_t n)
{
    (void)ctx;
    (void)n;
    if (p != NULL) {
        pb_pool_give(p);
    }
}
static void *pb_handler_realloc(void *ctx, void *p, size_t n)
{
    pb_block *b = (pb_block *)((char *)p - PB_HEADER);
    void *q;
    if (p == NULL || n <= b->capacity) {
        return p == NULL ? pb_handler_malloc(ctx, n) : p;
    }
    q = pb_pool_take(n);
    if (q != NULL) {
        memcpy(q, p, b->capacity);
        pb_pool_give(p);
    }
    return q;
}

static PyDataMem_Handler pb_handler = {
    "prebake", 1, {NULL, pb_handler_malloc, pb_handler_calloc, pb_handler_realloc, pb_handler_free}};
static PyObject *pb_handler_capsule = NULL;

/* A result array: NumPy's own memory when small, a recycled block when large. NULL with an exception. */
static PyObject *pb_new_result(int nd, npy_intp *dims, int code)
{
    int type_num = pb_type_numbers[code], i;
    size_t bytes = (size_t)pb_item_bytes[code];
    void *data;
    PyObject *array;
    if (nd > NPY_MAXDIMS) {
        PyErr_Format(PyExc_ValueError, "maximum supported dimension for an ndarray is %d, found %d", NPY_MAXDIMS, nd);
        return NULL;
    }
    for (i = 0; i < nd; i++) {
        if (dims[i] < 0) {
            PyErr_SetString(PyExc_ValueError, "negative dimensions are not allowed");
            return NULL;
        }
        if (dims[i] != 0 && bytes > (size_t)PY_SSIZE_T_MAX / (size_t)dims[i]) {
            bytes = 0; /* too large, or empty: NumPy decides */
            break;
        }
        bytes *= (size_t)dims[i];
    }
    if (bytes < PB_POOLED_FROM || bytes > pb_pool_limit || pb_handler_capsule == NULL) {
        return PyArray_SimpleNew(nd, dims, type_num);
    }
    data = pb_pool_take(bytes);
    if (data == NULL) {
        return PyErr_NoMemory();
    }
    array = PyArray_SimpleNewFromData(nd, dims, type_num, data);
    if (array == NULL) {
        pb_pool_give(data);
        return NULL;
    }
    PyArray_ENABLEFLAGS((PyArrayObject *)array, NPY_ARRAY_OWNDATA);
    Py_INCREF(pb_handler_capsule);
    ((PyArrayObject_fields *)array)->mem_handler = pb_handler_capsule;
    return array;
}

/* A strided window into `owner`'s memory, as NumPy's own basic slicing makes it. NULL with an exception. */
static PyObject *pb_new_view(PyObject *owner, int code, int nd, npy_intp *dims, npy_intp *strides, char *data,
                             int is_read_only)
{
    PyArray_Descr *d = PyArray_DescrFromType(pb_type_numbers[code]);
    int flags = is_read_only ? 0 : PyArray_FLAGS((PyArrayObject *)owner) & NPY_ARRAY_WRITEABLE;
    PyObject *array;
    if (d == NULL) {
        return NULL;
    }
    array = PyArray_NewFromDescr(&PyArray_Type, d, nd, dims, strides, data, flags, NULL);
    if (array == NULL) {
        return NULL;
    }
    Py_INCREF(owner);
    if (PyArray_SetBaseObject((PyArrayObject *)array, owner) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    return array;
}

/* The same window with the writable flag set: for looking at, never for writing. */
static PyObject *pb_changing_view(PyObject *o)
{
    PyArrayObject *a = (PyArrayObject *)o;
    PyArray_Descr *d = PyArray_DESCR(a);
    PyObject *view;
    Py_INCREF(d);
    view = PyArray_NewFromDescr(&PyArray_Type, d, PyArray_NDIM(a), PyArray_DIMS(a), PyArray_STRIDES(a), PyArray_DATA(a),
                                NPY_ARRAY_WRITEABLE, NULL);
    if (view == NULL) {
        return NULL;
    }
    Py_INCREF(o);
    if (PyArray_SetBaseObject((PyArrayObject *)view, o) < 0) {
        Py_DECREF(view);
        return NULL;
    }
    return view;
}

/* Whether an attribute leads to `want`: itself, or a method of the object or its class around it. */
static int pb_attribute_is(PyObject *o, PyObject *name, PyObject *want)
{
    PyObject *got = NULL;
    int is;
#if PY_VERSION_HEX < 0x030D0000
    if (_PyObject_GetMethod(o, name, &got)) { /* a method of the object: no object is made for it */
        is = got == want;
        Py_DECREF(got);
        return is;
    }
#else
    got = PyObject_GetAttr(o, name);
#endif
    if (got == NULL) {
        PyErr_Clear();
        return 0;
    }
    is = got == want
         || (PyMethod_Check(got) && PyMethod_GET_FUNCTION(got) == want
             && (PyMethod_GET_SELF(got) == o || PyMethod_GET_SELF(got) == (PyObject *)Py_TYPE(o)));
    Py_DECREF(got);
    return is;
}

/* A number that is another one after every change of a dictionary; 0 where Python does not keep it. */
static uint64_t pb_dict_version(PyObject *dict)
{
#if PY_VERSION_HEX < 0x030C0000
    return ((PyDictObject *)dict)->ma_version_tag;
#else
    (void)dict;
    return 0;
#endif
}

/* --- arenas: one is checked out for each running call; the list is guarded by the GIL --------------------------------- */

typedef struct {
    char *p;
    size_t bytes;
} pb_arena;

#define PB_ARENAS 8
static pb_arena pb_arenas[PB_ARENAS];
static int pb_n_arenas = 0;

static pb_arena pb_arena_take(size_t bytes)
{
    pb_arena a = {NULL, 0};
    if (pb_n_arenas > 0) {
        a = pb_arenas[--pb_n_arenas];
        if (a.bytes >= bytes) {
            return a;
        }
        free(a.p);
    }
    a.bytes = (bytes + bytes / 4 + 4095) & ~(size_t)4095;
    a.p = (char *)aligned_alloc(64, a.bytes);
    if (a.p == NULL) {
        a.bytes = 0;
    }
    return a;
}

static void pb_arena_give(pb_arena a)
{
    if (a.p == NULL) {
        return;
    }
    if (pb_n_arenas < PB_ARENAS) {
        pb_arenas[pb_n_arenas++] = a;
    } else {
        free(a.p);
    }
}

static void pb_arena_clear(void)
{
    while (pb_n_arenas > 0) {
        free(pb_arenas[--pb_n_arenas].p);
    }
}

/* --- module set-up ------------------------------------------------------------------------------------------------------ */

static int pb_dispatch_init(void)
{
    if (PyArray_ImportNumPyAPI() < 0) {
        return -1;
    }
    pb_handler_capsule = PyCapsule_New(&pb_handler, "mem_handler", NULL);
    return pb_handler_capsule == NULL ? -1 : 0;
}

/* Make instances of a type callable through vectorcall, and cheap to call as methods. */
static void pb_enable_vectorcall(PyTypeObject *type, Py_ssize_t offset)
{
    type->tp_vectorcall_offset = offset;
    type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    PyType_Modified(type);
}
#endif
