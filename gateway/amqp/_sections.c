/* Where the sections of an encoded message lie, and single fields of its properties: the usual forms, in one call.
 *
 * Every message that crosses a boundary is looked at several times, and in Python each look costs more than all that the
 * engine does for the message. What is here knows only how messages usually begin: `00 53`, the code, a value of the
 * right kind with its size, each section once and in order. For anything else, be it allowed or an error, the answer is
 * `...` and the Python code says what it is (layout.py, properties.py). Nothing outside the given bytes is read.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_layout.h"

enum { BARE = 3, LEADING = 6 };
enum { NULL_VALUE = 0x40, PROPERTIES = 0x73, LIST8 = 0xC0, SIZE8 = 0, ASK = 255 };

static PyTypeObject *layout_type;
static PyObject *null_field;
static uint8_t steps[256]; /* decoder.STEPS: a constructor's whole width, SIZE8 or ASK */

/* bind(Layout, STEPS) */
static PyObject *bind(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 2 || !PyType_Check(args[0]) || !PyType_IsSubtype((PyTypeObject *)args[0], &PyTuple_Type) ||
        !PyBytes_Check(args[1]) || PyBytes_GET_SIZE(args[1]) != sizeof steps) {
        PyErr_SetString(PyExc_TypeError, "a class of tuples and 256 bytes are wanted");
        return NULL;
    }
    Py_INCREF(args[0]);
    Py_XSETREF(layout_type, (PyTypeObject *)args[0]);
    memcpy(steps, PyBytes_AS_STRING(args[1]), sizeof steps);
    Py_RETURN_NONE;
}

static PyObject *unusual(void) {
    Py_INCREF(Py_Ellipsis);
    return Py_Ellipsis;
}

/* layout(data) -> Layout, or ... */
static PyObject *layout(PyObject *module, PyObject *message) {
    Py_ssize_t starts[PLACES], length, index;
    PyObject *result, *number;
    if (layout_type == NULL || !PyBytes_Check(message))
        return unusual();
    length = PyBytes_GET_SIZE(message);
    if (!find((const uint8_t *)PyBytes_AS_STRING(message), length, starts))
        return unusual();
    result = layout_type->tp_alloc(layout_type, PLACES + 2);
    if (result == NULL)
        return NULL;
    for (index = 0; index < PLACES + 2; index++) { /* the bare message begins with the properties: twice the same */
        number = PyLong_FromSsize_t(index > PLACES ? length : starts[index > BARE ? index - 1 : index]);
        if (number == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        PyTuple_SET_ITEM(result, index, number);
    }
    return result;
}

typedef struct {
    const uint8_t *data;
    Py_ssize_t at, end;
    int count;
} list_view;

/* The properties at `start` as a list of up to 255 bytes, false if they are anything else. */
static bool opened(PyObject *message, PyObject *place, list_view *list) {
    Py_ssize_t start, length;
    if (!PyBytes_Check(message) || !PyLong_Check(place))
        return false;
    start = PyLong_AsSsize_t(place);
    if (start < 0) {
        PyErr_Clear();
        return false;
    }
    list->data = (const uint8_t *)PyBytes_AS_STRING(message);
    length = PyBytes_GET_SIZE(message);
    if (length < 6 || start > length - 6 || memcmp(list->data + start, "\0\x53\x73\xC0", 4) != 0)
        return false;
    list->at = start + 6;
    list->end = start + 5 + list->data[start + 4];
    list->count = list->data[start + 5];
    return list->end <= length && list->count <= list->end - list->at;
}

/* Go on to the next field; the one before has its bytes from the result on. -1: it is unusual or does not fit. */
static Py_ssize_t step(list_view *list) {
    Py_ssize_t start = list->at;
    uint8_t width;
    if (start >= list->end)
        return -1;
    width = steps[list->data[start]];
    if (width == ASK)
        return -1;
    if (width == SIZE8) {
        if (start + 1 >= list->end)
            return -1;
        list->at += 2 + list->data[start + 1];
    } else
        list->at += width;
    return list->at > list->end ? -1 : start;
}

static PyObject *piece(const list_view *list, Py_ssize_t start, Py_ssize_t end) {
    return PyBytes_FromStringAndSize((const char *)list->data + start, end - start);
}

/* field(data, where the properties start, index) -> encoded bytes, None where absent or null, or ... */
static PyObject *field(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    list_view list;
    Py_ssize_t start = -1;
    long index;
    if (count != 3 || !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "field takes a message and two numbers");
        return NULL;
    }
    index = PyLong_AsLong(args[2]);
    if (index < 0) {
        PyErr_Clear();
        return unusual();
    }
    if (!opened(args[0], args[1], &list))
        return unusual();
    if (index >= list.count)
        Py_RETURN_NONE;
    for (; index >= 0; index--)
        if ((start = step(&list)) < 0)
            return unusual();
    if (list.data[start] == NULL_VALUE)
        Py_RETURN_NONE;
    return piece(&list, start, list.at);
}

/* One of the leading fields, null where there are fewer; NULL without an exception: unusual. */
static PyObject *leading(list_view *list, int index) {
    Py_ssize_t start;
    if (index < list->count) {
        if ((start = step(list)) < 0)
            return NULL;
        if (list->data[start] != NULL_VALUE)
            return piece(list, start, list->at);
    }
    Py_INCREF(null_field);
    return null_field;
}

/* fields(data, where the properties start) -> ([the first six, encoded], the rest, how many there are), or ... */
static PyObject *fields(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    list_view list;
    PyObject *first, *item, *result;
    int index;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "fields takes a message and a number");
        return NULL;
    }
    if (!opened(args[0], args[1], &list))
        return unusual();
    if ((first = PyList_New(LEADING)) == NULL)
        return NULL;
    for (index = 0; index < LEADING; index++) {
        if ((item = leading(&list, index)) == NULL) {
            Py_DECREF(first);
            return PyErr_Occurred() ? NULL : unusual();
        }
        PyList_SET_ITEM(first, index, item);
    }
    if (list.at < list.end && list.count <= LEADING) {
        Py_DECREF(first);
        return unusual();
    }
    if ((item = piece(&list, list.at, list.end)) == NULL) {
        Py_DECREF(first);
        return NULL;
    }
    result = Py_BuildValue("(NNi)", first, item, list.count);
    return result;
}

static PyMethodDef methods[] = {
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "Give the class of layouts and the widths of values, once."},
    {"layout", layout, METH_O, "Where the sections of a message lie."},
    {"field", (PyCFunction)(void (*)(void))field, METH_FASTCALL, "One field of the properties, encoded."},
    {"fields", (PyCFunction)(void (*)(void))fields, METH_FASTCALL, "The first six fields of the properties, encoded."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_sections", "The usual forms of messages", -1, methods,
                                        NULL,                  NULL,        NULL,                           NULL};

PyMODINIT_FUNC PyInit__sections(void) {
    null_field = PyBytes_FromStringAndSize("\x40", 1);
    return null_field == NULL ? NULL : PyModule_Create(&definition);
}
