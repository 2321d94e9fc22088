/* Construction of records: what the `__init__` of a record does, without a frame of Python.

   `construct_directly(cls, fields, defaults, factories)` makes calls of `cls` fill its slots here. A call that does not
   fit (a field too many, unknown, given twice or missing) goes the usual way, so that `__init__` words the error. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

typedef struct Shape {
    PyTypeObject *type;
    Py_ssize_t n_fields, n_required;
    PyObject *names;    /* of the fields: a tuple of interned strings */
    PyObject *defaults; /* of the last fields: a tuple; where `is_made`, what makes each instance's own value */
    char *is_made;      /* for each default */
    Py_ssize_t offsets[]; /* of each field's slot in an instance */
} Shape;

/* Shapes by their type's address, open addressing; types and shapes live as long as the process. */
static Shape **table = NULL;
static size_t table_size = 0, n_shapes = 0; /* table_size: a power of two */

static inline size_t place_of(PyTypeObject *type)
{
    return ((size_t)type >> 4) * (size_t)0x9E3779B97F4A7C15u >> 40;
}

static inline Shape *find_shape(PyTypeObject *type) /* NULL: of a class that is derived from a record */
{
    size_t at = place_of(type) & (table_size - 1);
    while (table[at] != NULL && table[at]->type != type)
        at = (at + 1) & (table_size - 1);
    return table[at];
}

static int grow_table(void)
{
    size_t size = table_size ? 2 * table_size : 256;
    Shape **grown = PyMem_Calloc(size, sizeof(Shape *));
    if (grown == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < table_size; i++) {
        if (table[i] == NULL)
            continue;
        size_t at = place_of(table[i]->type) & (size - 1);
        while (grown[at] != NULL)
            at = (at + 1) & (size - 1);
        grown[at] = table[i];
    }
    PyMem_Free(table);
    table = grown;
    table_size = size;
    return 0;
}

static PyObject *construct_the_usual_way(PyObject *type, PyObject *const *args, Py_ssize_t n, PyObject *kwnames)
{
    PyObject *positional = PyTuple_New(n), *named = NULL, *made = NULL;
    if (positional == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < n; i++)
        PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    if (kwnames != NULL) {
        named = PyDict_New();
        if (named == NULL)
            goto done;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); i++)
            if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[n + i]) < 0)
                goto done;
    }
    made = PyType_Type.tp_call(type, positional, named);
done:
    Py_DECREF(positional);
    Py_XDECREF(named);
    return made;
}

static PyObject *construct(PyObject *callable, PyObject *const *args, size_t nargsf, PyObject *kwnames)
{
    PyTypeObject *type = (PyTypeObject *)callable;
    const Shape *shape = find_shape(type);
    Py_ssize_t n = PyVectorcall_NARGS(nargsf), n_fields = shape == NULL ? -1 : shape->n_fields;
    if (n > n_fields)
        return construct_the_usual_way(callable, args, n, kwnames);
    PyObject *self = type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
#define SLOT(i) (*(PyObject **)((char *)self + shape->offsets[i]))
    for (Py_ssize_t i = 0; i < n; i++)
        SLOT(i) = Py_NewRef(args[i]);
    Py_ssize_t n_named = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    for (Py_ssize_t k = 0; k < n_named; k++) {
        PyObject *name = PyTuple_GET_ITEM(kwnames, k);
        Py_ssize_t i = n; /* a field before that has its value: the name is not found */
        while (i < n_fields && PyTuple_GET_ITEM(shape->names, i) != name)
            i++;
        if (i == n_fields)
            goto unusual; /* or a string that is not interned */
        SLOT(i) = Py_NewRef(args[n + k]);
    }
    if (n + n_named < n_fields) {
        for (Py_ssize_t i = n; i < n_fields; i++) {
            if (SLOT(i) != NULL)
                continue;
            Py_ssize_t at = i - shape->n_required;
            if (at < 0)
                goto unusual;
            PyObject *value = PyTuple_GET_ITEM(shape->defaults, at);
            if (shape->is_made[at]) {
                value = PyObject_CallNoArgs(value);
                if (value == NULL) {
                    Py_DECREF(self);
                    return NULL;
                }
                SLOT(i) = value;
            }
            else
                SLOT(i) = Py_NewRef(value);
        }
    }
#undef SLOT
    return self;
unusual:
    Py_DECREF(self);
    return construct_the_usual_way(callable, args, n, kwnames);
}

static PyObject *construct_directly(PyObject *module, PyObject *args)
{
    PyTypeObject *type;
    PyObject *names, *defaults, *made;
    if (!PyArg_ParseTuple(args, "O!O!O!O!", &PyType_Type, &type, &PyTuple_Type, &names, &PyTuple_Type, &defaults,
                          &PyTuple_Type, &made))
        return NULL;
    Py_ssize_t n_fields = PyTuple_GET_SIZE(names), n_defaults = PyTuple_GET_SIZE(defaults);
    if (n_defaults > n_fields || PyTuple_GET_SIZE(made) != n_defaults || type->tp_vectorcall != NULL) {
        PyErr_SetString(PyExc_ValueError, "not a record to be");
        return NULL;
    }
    Shape *shape = PyMem_Malloc(sizeof(Shape) + n_fields * sizeof(Py_ssize_t) + n_defaults);
    if (shape == NULL)
        return PyErr_NoMemory();
    shape->is_made = (char *)&shape->offsets[n_fields];
    for (Py_ssize_t i = 0; i < n_fields; i++) {
        PyObject *slot = PyObject_GetAttr((PyObject *)type, PyTuple_GET_ITEM(names, i));
        if (slot == NULL || !Py_IS_TYPE(slot, &PyMemberDescr_Type)
            || ((PyMemberDescrObject *)slot)->d_member->type != T_OBJECT_EX || PyDescr_TYPE(slot) != type) {
            if (slot != NULL)
                PyErr_Format(PyExc_ValueError, "%R of %R is no slot", PyTuple_GET_ITEM(names, i), type);
            Py_XDECREF(slot);
            PyMem_Free(shape);
            return NULL;
        }
        shape->offsets[i] = ((PyMemberDescrObject *)slot)->d_member->offset;
        Py_DECREF(slot);
    }
    for (Py_ssize_t i = 0; i < n_defaults; i++) {
        int is_made = PyObject_IsTrue(PyTuple_GET_ITEM(made, i));
        if (is_made < 0) {
            PyMem_Free(shape);
            return NULL;
        }
        shape->is_made[i] = (char)is_made;
    }
    if (2 * (n_shapes + 1) > table_size && grow_table() < 0) {
        PyMem_Free(shape);
        return NULL;
    }
    shape->type = (PyTypeObject *)Py_NewRef(type);
    shape->n_fields = n_fields;
    shape->n_required = n_fields - n_defaults;
    shape->names = Py_NewRef(names);
    shape->defaults = Py_NewRef(defaults);
    size_t at = place_of(type) & (table_size - 1);
    while (table[at] != NULL)
        at = (at + 1) & (table_size - 1);
    table[at] = shape;
    n_shapes++;
    type->tp_vectorcall = construct;
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"construct_directly", construct_directly, METH_VARARGS,
     "construct_directly(cls, fields, defaults, is_made): calls of a class with these slots fill them without its __init__."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_records", "Construction of records, in C.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__records(void)
{
    return PyModule_Create(&definition);
}
