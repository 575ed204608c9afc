/* Finds the sections of an encoded message and single fields of its properties, and adds and removes its delivery
 * annotations, each in one call, for the usual encodings.
 *
 * Every message that crosses a boundary is inspected several times, and in Python each inspection costs more than all
 * else that the engine does for the message. This module knows only how messages usually begin: each section is
 * `00 53`, its code and a value of the right type with its size; the sections are in order; only data and sequences are
 * repeated. For anything else, valid or not, the result is `...`, and the Python code decides (section_index.py,
 * properties.py). Nothing outside the given bytes is read.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "_items.h"
#include "_layout.h"

enum { ANNOTATIONS = 1, BEHIND = 2, BARE = 3, APPLICATION = 4 }; /* indexes of sections in order */
enum { LEADING = 6, REPLY_TO = 4, NULL_VALUE = 0x40, PROPERTIES = 0x73, LIST8 = 0xC0, SIZE8 = 0, ASK = 255 };
#define ABSENT PY_SSIZE_T_MAX

static PyTypeObject *layout_type;
static PyObject *null_field;
static Py_ssize_t most_repeated; /* sections of a body */
static uint8_t steps[256]; /* decoder.STEPS: the whole width of a constructor, SIZE8 or ASK */

/* bind(Layout, STEPS, the most sections of a message) */
static PyObject *bind(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyLong_Check(args[2]) || !PyType_Check(args[0]) ||
        !PyType_IsSubtype((PyTypeObject *)args[0], &PyTuple_Type) || !PyBytes_Check(args[1]) ||
        PyBytes_GET_SIZE(args[1]) != sizeof steps) {
        PyErr_SetString(PyExc_TypeError, "a class of tuples, 256 bytes and a number are wanted");
        return NULL;
    }
    most_repeated = PyLong_AsSsize_t(args[2]) - PLACES;
    if (PyErr_Occurred())
        return NULL;
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
    if (!find((const uint8_t *)PyBytes_AS_STRING(message), length, starts, most_repeated))
        return unusual();
    result = layout_type->tp_alloc(layout_type, PLACES + 2);
    if (result == NULL)
        return NULL;
    for (index = 0; index < PLACES + 2; index++) { /* the properties begin the bare message: the same offset twice */
        number = PyLong_FromSsize_t(index > PLACES ? length : starts[index > BARE ? index - 1 : index]);
        if (number == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        PyTuple_SET_ITEM(result, index, number);
    }
    return result;
}

/* may_be_annotated(data) -> False only if the message certainly has no delivery annotations */
static PyObject *may_be(PyObject *module, PyObject *message) {
    if (!PyBytes_Check(message)) {
        PyErr_SetString(PyExc_TypeError, "a message is bytes");
        return NULL;
    }
    return PyBool_FromLong(may_be_annotated((const uint8_t *)PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message)));
}

typedef struct {
    const uint8_t *data;
    Py_ssize_t at, end;
    int count;
} list_view;

/* Open the properties at `start` as a list of up to 255 bytes; false for any other form. */
static bool opened_at(PyObject *message, Py_ssize_t start, list_view *list) {
    Py_ssize_t length = PyBytes_GET_SIZE(message);
    list->data = (const uint8_t *)PyBytes_AS_STRING(message);
    if (length < 6 || start > length - 6 || memcmp(list->data + start, "\0\x53\x73\xC0", 4) != 0)
        return false;
    list->at = start + 6;
    list->end = start + 5 + list->data[start + 4];
    list->count = list->data[start + 5];
    return list->end <= length && list->count <= list->end - list->at;
}

/* The same for arguments that are not checked yet. */
static bool opened(PyObject *message, PyObject *place, list_view *list) {
    Py_ssize_t start;
    if (!PyBytes_Check(message) || !PyLong_Check(place))
        return false;
    start = PyLong_AsSsize_t(place);
    if (start < 0) {
        PyErr_Clear();
        return false;
    }
    return opened_at(message, start, list);
}

/* Skip the next field; returns where its bytes begin; -1: it is unusual or does not fit. */
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

/* Where a field starts, with its end in `list->at`; ABSENT if it is absent or null, -1 if it is unusual. */
static Py_ssize_t seek(list_view *list, long index) {
    Py_ssize_t start = -1;
    if (index >= list->count)
        return ABSENT;
    for (; index >= 0; index--)
        if ((start = step(list)) < 0)
            return -1;
    return list->data[start] == NULL_VALUE ? ABSENT : start;
}

/* field(data, offset of the properties, index) -> encoded bytes, None if absent or null, or ... */
static PyObject *field(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    list_view list;
    Py_ssize_t start;
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
    start = seek(&list, index);
    if (start < 0)
        return unusual();
    if (start == ABSENT)
        Py_RETURN_NONE;
    return piece(&list, start, list.at);
}

/* One of the leading fields, null if there are fewer; NULL without an exception: unusual. */
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

/* fields(data, offset of the properties) -> ([the first six, encoded], the rest, count), or ... */
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

#include "_assemble.h"
#include "_url.h"

/* -- crossing a boundary: adds and removes delivery annotations whose content is known already */

/* Where the reply-to starts; results as of `seek`. */
static Py_ssize_t reply_to(PyObject *message, const Py_ssize_t *starts, list_view *list) {
    if (starts[BARE] == starts[APPLICATION])
        return ABSENT;
    return opened_at(message, starts[BARE], list) ? seek(list, REPLY_TO) : -1;
}

/* The message with `put` in place of its delivery annotations. */
static PyObject *spliced(PyObject *message, const Py_ssize_t *starts, const char *put, Py_ssize_t size) {
    Py_ssize_t before = starts[ANNOTATIONS], behind = PyBytes_GET_SIZE(message) - starts[BEHIND];
    PyObject *made = PyBytes_FromStringAndSize(NULL, before + size + behind);
    char *to;
    if (made == NULL)
        return NULL;
    to = PyBytes_AS_STRING(made);
    memcpy(to, PyBytes_AS_STRING(message), (size_t)before);
    memcpy(to + before, put, (size_t)size);
    memcpy(to + before + size, PyBytes_AS_STRING(message) + starts[BEHIND], (size_t)behind);
    return made;
}

/* Look up bytes in a dict; borrowed; NULL without an exception: not found. */
static PyObject *known_for(PyObject *known, PyObject *key) {
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(known, key);
    Py_XDECREF(key);
    return found;
}

/* Parse the arguments of both functions: a dict, and a message that begins as usual. 0: it does not, -1: an
 * exception. */
static int crossing(PyObject *const *args, bool right, Py_ssize_t *starts) {
    if (!right || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a message and a dict are wanted, and a mark where annotations are taken off");
        return -1;
    }
    return PyBytes_Check(args[0]) &&
           find((const uint8_t *)PyBytes_AS_STRING(args[0]), PyBytes_GET_SIZE(args[0]), starts, most_repeated);
}

/* put_on(data, sections by encoded reply-to) -> the message with its section as delivery annotations; or ... if it
 * has some already or none are known for it */
static PyObject *put_on(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t starts[PLACES], start;
    list_view list;
    PyObject *section;
    int usual = crossing(args, count == 2, starts);
    if (usual <= 0 || starts[ANNOTATIONS] != starts[BEHIND] || (start = reply_to(args[0], starts, &list)) < 0)
        return usual < 0 ? NULL : unusual();
    section = known_for(args[1], start == ABSENT ? Py_NewRef(null_field) : piece(&list, start, list.at));
    if (section == NULL || !PyBytes_Check(section))
        return PyErr_Occurred() ? NULL : unusual();
    return spliced(args[0], starts, PyBytes_AS_STRING(section), PyBytes_GET_SIZE(section));
}

static bool holds(const char *from, const char *end, PyObject *mark) {
    size_t size = (size_t)PyBytes_GET_SIZE(mark);
    const char *text = PyBytes_AS_STRING(mark);
    while (size > 0 && (size_t)(end - from) >= size) {
        from = memchr(from, text[0], (size_t)(end - from) - size + 1);
        if (from == NULL)
            return false;
        if (memcmp(from++, text, size) == 0)
            return true;
    }
    return size == 0;
}

/* take_off(data, values by delivery annotations section, mark) -> (value of its section, the message without the
 * section, whether its properties contain the mark or a reply-to), or ... if its section is not known */
static PyObject *take_off(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t starts[PLACES], start = 0;
    list_view list;
    const char *data;
    PyObject *found, *rest;
    int usual = crossing(args, count == 3 && PyBytes_Check(args[2]), starts);
    if (usual <= 0 || starts[ANNOTATIONS] == starts[BEHIND])
        return usual < 0 ? NULL : unusual();
    data = PyBytes_AS_STRING(args[0]);
    if (!holds(data + starts[BARE], data + starts[APPLICATION], args[2]) &&
        (start = reply_to(args[0], starts, &list)) < 0)
        return unusual();
    found = known_for(args[1], PyBytes_FromStringAndSize(data + starts[ANNOTATIONS],
                                                         starts[BEHIND] - starts[ANNOTATIONS]));
    if (found == NULL)
        return PyErr_Occurred() ? NULL : unusual();
    Py_INCREF(found);
    if ((rest = spliced(args[0], starts, "", 0)) == NULL) {
        Py_DECREF(found);
        return NULL;
    }
    return Py_BuildValue("(NNO)", found, rest, start == ABSENT ? Py_False : Py_True);
}

static PyMethodDef methods[] = {
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "Give the class of layouts and the widths of values, once."},
    {"layout", layout, METH_O, "Where the sections of a message lie."},
    {"items", items, METH_VARARGS, "How many values lie between two places, up to one more than the most."},
    {"may_be_annotated", may_be, METH_O, "Whether a message may have delivery annotations."},
    {"field", (PyCFunction)(void (*)(void))field, METH_FASTCALL, "One field of the properties, encoded."},
    {"fields", (PyCFunction)(void (*)(void))fields, METH_FASTCALL, "The first six fields of the properties, encoded."},
    {"assemble", (PyCFunction)(void (*)(void))assemble, METH_FASTCALL, "With other annotations and leading fields."},
    {"marked", (PyCFunction)(void (*)(void))marked, METH_FASTCALL, "An encoded string with a token in it."},
    {"put_on", (PyCFunction)(void (*)(void))put_on, METH_FASTCALL, "Annotate a message as known for its reply-to."},
    {"take_off", (PyCFunction)(void (*)(void))take_off, METH_FASTCALL, "Take off delivery annotations that are known."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_sections", "The usual forms of messages", -1, methods,
                                        NULL,                  NULL,        NULL,                           NULL};

PyMODINIT_FUNC PyInit__sections(void) {
    null_field = PyBytes_FromStringAndSize("\x40", 1);
    return null_field == NULL ? NULL : PyModule_Create(&definition);
}
