/* The rows of which a plan may have hundreds: arrays, and the tuples, lists and dictionaries that hold them.
 *
 * A model with 100 weights has 150 rows, each looked at in every call: `pb_replay` takes them in one loop over records of a
 * cache line. It stops at the first row that it does not know to be right; the dispatcher's own loop decides that one.
 * What a tuple holds is borrowed: it lives as long as the tuple does. Other items are owned: while a kernel runs without
 * the GIL, another thread may take them out. */
#ifndef PB_ROWS_H
#define PB_ROWS_H
#include "_dispatch.h"

enum { PB_FROM_ELSEWHERE, PB_FROM_ARGUMENT, PB_FROM_TUPLE, PB_FROM_LIST, PB_FROM_DICT };
enum { PB_STEP_OTHER, PB_STEP_ARRAY, PB_STEP_CONSTANT, PB_STEP_TUPLE, PB_STEP_LIST };
#define PB_STEP_AXES 2 /* extents of a constant that are in the record; more of them are looked at elsewhere */

typedef struct {
    uint8_t from, kind;
    uint16_t ndim;
    int32_t parent;        /* row of the container */
    int32_t index;         /* argument or item; of a tuple: inside its length */
    int32_t needed[2];     /* flags of an array; [1] where the best plan is looked for, -1: not to be decided here */
    int32_t length;        /* of a tuple or list; of a constant: the register of its address, or -1 */
    const void *descr;     /* of an array */
    const PyObject *base;  /* of a constant: a frozen buffer that was seen, and lives while none has died */
    int64_t shape[PB_STEP_AXES];
    PyObject *key;         /* of a dictionary's item */
} pb_step;

/* Whether an object is a constant array with a row's dtype, extents and flags over a frozen buffer; then its address is
 * written into its register. The buffer is looked at
 * once: whoever calls forgets those that were seen when one dies. */
static inline int pb_is_constant_of(pb_step *s, PyObject *v, pb_reg *r, PyTypeObject *frozen)
{
    const PyArrayObject_fields *a = (const PyArrayObject_fields *)v;
    if (!Py_IS_TYPE(v, &PyArray_Type)) {
        return 0;
    }
    /* one branch for what is in the array's own record */
    if (((uintptr_t)a->descr ^ (uintptr_t)s->descr) | (uint32_t)(a->nd ^ s->ndim)
        | (uint32_t)((a->flags & (s->needed[0] | NPY_ARRAY_WRITEABLE)) ^ s->needed[0])) {
        return 0;
    }
    switch (s->ndim) { /* and one for its extents */
    case 0: break;
    case 1:
        if (a->dimensions[0] != s->shape[0]) return 0;
        break;
    default:
        if ((a->dimensions[0] ^ s->shape[0]) | (a->dimensions[1] ^ s->shape[1])) return 0;
    }
    if (a->base != s->base) {
        if (a->base == NULL || !Py_IS_TYPE(a->base, frozen)) {
            return 0;
        }
        s->base = a->base;
    }
    if (s->length >= 0) {
        r[s->length].p = a->data;
    }
    return 1;
}

/* The first row from `at` on that is not surely right, or n; the values of those before are set. A tuple that is a value
 * has the length of its row. */
static int pb_replay(pb_step *steps, int at, int n, PyObject **args, int n_params, PyObject **values, pb_reg *r,
                     int is_exact, PyTypeObject *frozen)
{
    for (; at < n; at++) {
        pb_step *s = &steps[at];
        PyObject *v, *parent;
        if (s->from == PB_FROM_TUPLE) {
            v = PyTuple_GET_ITEM(values[s->parent], s->index);
            if (s->kind == PB_STEP_CONSTANT) { /* a model's weights */
                if (!pb_is_constant_of(s, v, r, frozen)) return at;
                values[at] = v;
                continue;
            }
        } else if (s->from == PB_FROM_LIST) {
            parent = values[s->parent];
            if (!PyList_CheckExact(parent) || s->index >= PyList_GET_SIZE(parent)) return at;
            v = PyList_GET_ITEM(parent, s->index);
        } else if (s->from == PB_FROM_ARGUMENT) {
            if (s->index >= n_params) return at;
            v = args[s->index];
        } else if (s->from == PB_FROM_DICT) {
            parent = values[s->parent];
            if (!PyDict_CheckExact(parent)) return at;
            v = PyDict_GetItemWithError(parent, s->key);
            if (v == NULL) {
                PyErr_Clear();
                return at;
            }
        } else {
            return at;
        }
        switch (s->kind) {
        case PB_STEP_CONSTANT:
            if (!pb_is_constant_of(s, v, r, frozen)) return at;
            break;
        case PB_STEP_ARRAY:
            if (s->needed[is_exact] < 0 || !pb_is_plain(v, s->descr, s->ndim, s->needed[is_exact])) return at;
            break;
        case PB_STEP_TUPLE:
            if (!PyTuple_CheckExact(v) || PyTuple_GET_SIZE(v) != s->length) return at;
            break;
        case PB_STEP_LIST:
            if (!PyList_CheckExact(v) || PyList_GET_SIZE(v) != s->length) return at;
            break;
        default: return at;
        }
        if (s->from >= PB_FROM_LIST) {
            Py_INCREF(v);
        }
        values[at] = v;
    }
    return n;
}
#endif
