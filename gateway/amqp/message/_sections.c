/* Finds the sections of an encoded message and single fields of its properties, and adds and removes its delivery
 * annotations, each in one call.
 *
 * Every message that crosses a boundary is inspected several times, and in Python each inspection costs more than all
 * else that the engine does for the message. This module knows every legal form of a message, of its descriptors, lists
 * and fields. For a malformed one the result is `...`, and the Python code says what is wrong (section_index.py,
 * properties.py). Nothing outside the given bytes is read.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "_count_values.h"
#include "_list.h"
#include "_section_offsets.h"

enum { ANNOTATIONS = 1, MESSAGE = 2, BARE = 3, APPLICATION = 4 }; /* indexes of sections in order */
enum { LEADING = 6, REPLY_TO = 4, PROPERTIES = 0x73 };
enum { STEP_OF_SIZE = 0, STEP_UNKNOWN = 255 }; /* in decoder.STEPS */
#define ABSENT PY_SSIZE_T_MAX

static PyTypeObject *layout_type;
static PyObject *null_field;
static Py_ssize_t most_repeated; /* sections of a body */

/* Whether `value_widths` and decoder.STEPS know the same constructors. */
static bool are_steps(const uint8_t *steps) {
    int code;
    for (code = 0; code < 256; code++) {
        uint8_t width = value_widths[code];
        if (steps[code] != (width == SIZE_OF_1 ? STEP_OF_SIZE : width == SIZE_OF_4 || width == 0 ? STEP_UNKNOWN : width))
            return false;
    }
    return true;
}

/* bind(Layout, STEPS, the most sections of a message) */
static PyObject *bind(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyLong_Check(args[2]) || !PyType_Check(args[0]) ||
        !PyType_IsSubtype((PyTypeObject *)args[0], &PyTuple_Type) || !PyBytes_Check(args[1]) ||
        PyBytes_GET_SIZE(args[1]) != sizeof value_widths || !are_steps((const uint8_t *)PyBytes_AS_STRING(args[1]))) {
        PyErr_SetString(PyExc_TypeError, "expected a class of tuples, the widths of values and a number");
        return NULL;
    }
    most_repeated = PyLong_AsSsize_t(args[2]) - SECTIONS;
    if (PyErr_Occurred())
        return NULL;
    Py_INCREF(args[0]);
    Py_XSETREF(layout_type, (PyTypeObject *)args[0]);
    Py_RETURN_NONE;
}

static PyObject *not_supported(void) {
    Py_INCREF(Py_Ellipsis);
    return Py_Ellipsis;
}

/* section_offsets(data) -> Layout, or ... */
static PyObject *section_offsets(PyObject *module, PyObject *message) {
    Py_ssize_t starts[SECTIONS], length, index;
    PyObject *result, *number;
    if (layout_type == NULL || !PyBytes_Check(message))
        return not_supported();
    length = PyBytes_GET_SIZE(message);
    if (!find_sections((const uint8_t *)PyBytes_AS_STRING(message), length, starts, most_repeated))
        return not_supported();
    result = layout_type->tp_alloc(layout_type, SECTIONS + 2);
    if (result == NULL)
        return NULL;
    for (index = 0; index < SECTIONS + 2; index++) { /* the properties begin the bare message: the same offset twice */
        number = PyLong_FromSsize_t(index > SECTIONS ? length : starts[index > BARE ? index - 1 : index]);
        if (number == NULL) {
            Py_DECREF(result);
            return NULL;
        }
        PyTuple_SET_ITEM(result, index, number);
    }
    return result;
}

/* may_be_annotated(data) -> False only if the message certainly has no delivery annotations */
static PyObject *may_be_annotated_py(PyObject *module, PyObject *message) {
    if (!PyBytes_Check(message)) {
        PyErr_SetString(PyExc_TypeError, "a message is bytes");
        return NULL;
    }
    return PyBool_FromLong(may_be_annotated((const uint8_t *)PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message)));
}

/* Open the properties at `start`; false if there are none. */
static bool open_properties(PyObject *message, Py_ssize_t start, list_view *list) {
    Py_ssize_t length = PyBytes_GET_SIZE(message), value;
    list->data = (const uint8_t *)PyBytes_AS_STRING(message);
    return start <= length && section_code(list->data, start, length, &value) == PROPERTIES && open_list(list, value, length);
}

/* The same for arguments that are not checked yet. */
static bool open_properties_arg(PyObject *message, PyObject *place, list_view *list) {
    Py_ssize_t start;
    if (!PyBytes_Check(message) || !PyLong_Check(place))
        return false;
    start = PyLong_AsSsize_t(place);
    if (start < 0) {
        PyErr_Clear();
        return false;
    }
    return open_properties(message, start, list);
}

static PyObject *field_bytes(const list_view *list, Py_ssize_t start, Py_ssize_t end) {
    return PyBytes_FromStringAndSize((const char *)list->data + start, end - start);
}

/* Where a field starts, with its end in `list->at`; ABSENT if it is absent or null, -1 if it is malformed. */
static Py_ssize_t seek_field(list_view *list, long index) {
    Py_ssize_t start = -1;
    if (index >= list->count)
        return ABSENT;
    for (; index >= 0; index--)
        if ((start = skip_field(list)) < 0)
            return -1;
    return list->data[start] == NULL_VALUE ? ABSENT : start;
}

/* properties_field(data, offset of the properties, index) -> encoded bytes, None if absent or null, or ... */
static PyObject *properties_field(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    list_view list;
    Py_ssize_t start;
    long index;
    if (count != 3 || !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "properties_field takes a message and two numbers");
        return NULL;
    }
    index = PyLong_AsLong(args[2]);
    if (index < 0) {
        PyErr_Clear();
        return not_supported();
    }
    if (!open_properties_arg(args[0], args[1], &list))
        return not_supported();
    start = seek_field(&list, index);
    if (start < 0)
        return not_supported();
    if (start == ABSENT)
        Py_RETURN_NONE;
    return field_bytes(&list, start, list.at);
}

/* One of the leading fields, null if there are fewer; NULL without an exception: malformed. */
static PyObject *leading_field(list_view *list, int index) {
    Py_ssize_t start;
    if (index < list->count) {
        if ((start = skip_field(list)) < 0)
            return NULL;
        if (list->data[start] != NULL_VALUE)
            return field_bytes(list, start, list->at);
    }
    Py_INCREF(null_field);
    return null_field;
}

/* leading_fields(data, offset of the properties) -> ([the first six, encoded], the rest, count), or ... */
static PyObject *leading_fields(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    list_view list;
    PyObject *first, *item, *result;
    int index;
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "leading_fields takes a message and a number");
        return NULL;
    }
    if (!open_properties_arg(args[0], args[1], &list))
        return not_supported();
    if ((first = PyList_New(LEADING)) == NULL)
        return NULL;
    for (index = 0; index < LEADING; index++) {
        if ((item = leading_field(&list, index)) == NULL) {
            Py_DECREF(first);
            return PyErr_Occurred() ? NULL : not_supported();
        }
        PyList_SET_ITEM(first, index, item);
    }
    if (list.at < list.end && list.count <= LEADING) {
        Py_DECREF(first);
        return not_supported();
    }
    if ((item = field_bytes(&list, list.at, list.end)) == NULL) {
        Py_DECREF(first);
        return NULL;
    }
    result = Py_BuildValue("(NNn)", first, item, list.count);
    return result;
}

/* may_have_ttl(data) -> False only if the message certainly has no ttl */
static PyObject *may_have_ttl_py(PyObject *module, PyObject *message) {
    if (!PyBytes_Check(message)) {
        PyErr_SetString(PyExc_TypeError, "a message is bytes");
        return NULL;
    }
    return PyBool_FromLong(may_have_ttl((const uint8_t *)PyBytes_AS_STRING(message), PyBytes_GET_SIZE(message)));
}

#include "_assemble.h"
#include "_texts.h"
#include "_token_string.h"
#include "_signed_token.h"

/* -- crossing a boundary: adds and removes delivery annotations whose content is known already */

/* Where the reply-to starts; results as of `seek_field`. */
static Py_ssize_t seek_reply_to(PyObject *message, const Py_ssize_t *starts, list_view *list) {
    if (starts[BARE] == starts[APPLICATION])
        return ABSENT;
    return open_properties(message, starts[BARE], list) ? seek_field(list, REPLY_TO) : -1;
}

/* The message with `put` in place of its delivery annotations. */
static PyObject *replace_annotations(PyObject *message, const Py_ssize_t *starts, const char *put, Py_ssize_t size) {
    Py_ssize_t before = starts[ANNOTATIONS], behind = PyBytes_GET_SIZE(message) - starts[MESSAGE];
    PyObject *made = PyBytes_FromStringAndSize(NULL, before + size + behind);
    char *to;
    if (made == NULL)
        return NULL;
    to = PyBytes_AS_STRING(made);
    memcpy(to, PyBytes_AS_STRING(message), (size_t)before);
    memcpy(to + before, put, (size_t)size);
    memcpy(to + before + size, PyBytes_AS_STRING(message) + starts[MESSAGE], (size_t)behind);
    return made;
}

/* Look up bytes in a dict; borrowed; NULL without an exception: not found. */
static PyObject *look_up(PyObject *known, PyObject *key) {
    PyObject *found = key == NULL ? NULL : PyDict_GetItemWithError(known, key);
    Py_XDECREF(key);
    return found;
}

/* Parse the arguments of both functions: a dict, and a message. 0: it is malformed, -1: an exception. */
static int parse_boundary_args(PyObject *const *args, bool right, Py_ssize_t *starts) {
    if (!right || !PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "expected a message and a dict, and a prefix to remove annotations");
        return -1;
    }
    return PyBytes_Check(args[0]) &&
           find_sections((const uint8_t *)PyBytes_AS_STRING(args[0]), PyBytes_GET_SIZE(args[0]), starts, most_repeated);
}

/* add_annotations(data, sections by encoded reply-to) -> the message with its section as delivery annotations; or ... if it
 * has some already or none are known for it */
static PyObject *add_annotations(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t starts[SECTIONS], start;
    list_view list;
    PyObject *section;
    int usual = parse_boundary_args(args, count == 2, starts);
    if (usual <= 0 || starts[ANNOTATIONS] != starts[MESSAGE] || (start = seek_reply_to(args[0], starts, &list)) < 0)
        return usual < 0 ? NULL : not_supported();
    section = look_up(args[1], start == ABSENT ? Py_NewRef(null_field) : field_bytes(&list, start, list.at));
    if (section == NULL || !PyBytes_Check(section))
        return PyErr_Occurred() ? NULL : not_supported();
    return replace_annotations(args[0], starts, PyBytes_AS_STRING(section), PyBytes_GET_SIZE(section));
}

static bool contains_bytes(const char *from, const char *end, PyObject *prefix) {
    size_t size = (size_t)PyBytes_GET_SIZE(prefix);
    const char *text = PyBytes_AS_STRING(prefix);
    while (size > 0 && (size_t)(end - from) >= size) {
        from = memchr(from, text[0], (size_t)(end - from) - size + 1);
        if (from == NULL)
            return false;
        if (memcmp(from++, text, size) == 0)
            return true;
    }
    return size == 0;
}

/* remove_annotations(data, values by delivery annotations section, prefix) -> (value of its section, the message without the
 * section, whether its properties contain the prefix or a reply-to), or ... if its section is not known */
static PyObject *remove_annotations(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t starts[SECTIONS], start = 0;
    list_view list;
    const char *data;
    PyObject *found, *rest;
    int usual = parse_boundary_args(args, count == 3 && PyBytes_Check(args[2]), starts);
    if (usual <= 0 || starts[ANNOTATIONS] == starts[MESSAGE])
        return usual < 0 ? NULL : not_supported();
    data = PyBytes_AS_STRING(args[0]);
    if (!contains_bytes(data + starts[BARE], data + starts[APPLICATION], args[2]) &&
        (start = seek_reply_to(args[0], starts, &list)) < 0)
        return not_supported();
    found = look_up(args[1], PyBytes_FromStringAndSize(data + starts[ANNOTATIONS],
                                                         starts[MESSAGE] - starts[ANNOTATIONS]));
    if (found == NULL)
        return PyErr_Occurred() ? NULL : not_supported();
    Py_INCREF(found);
    if ((rest = replace_annotations(args[0], starts, "", 0)) == NULL) {
        Py_DECREF(found);
        return NULL;
    }
    return Py_BuildValue("(NNO)", found, rest, start == ABSENT ? Py_False : Py_True);
}

#include "_rewrite.h"
#include "_runs.h"
#include "_text_tests.h"

static PyMethodDef methods[] = {
    {"bind", (PyCFunction)(void (*)(void))bind, METH_FASTCALL, "Give the class of layouts and the widths of values, once."},
    {"section_offsets", section_offsets, METH_O, "The offsets of the sections of a message."},
    {"count_values", count_values, METH_VARARGS, "The number of values between two offsets, up to one more than the limit."},
    {"may_be_annotated", may_be_annotated_py, METH_O, "Whether a message may have delivery annotations."},
    {"map_texts", (PyCFunction)(void (*)(void))map_texts, METH_FASTCALL, "Names and texts of the entries of a map."},
    {"list_texts", (PyCFunction)(void (*)(void))list_texts, METH_FASTCALL, "Names and texts of the items of a list."},
    {"may_have_ttl", may_have_ttl_py, METH_O, "Whether the header of a message may have a ttl."},
    {"properties_field", (PyCFunction)(void (*)(void))properties_field, METH_FASTCALL, "One field of the properties, encoded."},
    {"leading_fields", (PyCFunction)(void (*)(void))leading_fields, METH_FASTCALL, "The first six fields of the properties, encoded."},
    {"assemble", (PyCFunction)(void (*)(void))assemble, METH_FASTCALL, "With other annotations and leading fields."},
    {"encode_token_string", (PyCFunction)(void (*)(void))encode_token_string, METH_FASTCALL, "An encoded string with a token in it."},
    {"bind_sha256", bind_sha256, METH_VARARGS, "Give the addresses of libcrypto's functions."},
    {"mac_states", mac_states, METH_O, "The states of a MAC that have processed its key."},
    {"signed_token_string", (PyCFunction)(void (*)(void))signed_token_string, METH_FASTCALL, "An encoded string with a signed token in it."},
    {"add_annotations", (PyCFunction)(void (*)(void))add_annotations, METH_FASTCALL, "Add the delivery annotations that are known for the reply-to."},
    {"rewrite_request", (PyCFunction)(void (*)(void))rewrite_request, METH_FASTCALL, "With another reply-to and message-id."},
    {"matching_events", (PyCFunction)(void (*)(void))matching_events, METH_FASTCALL, "Events whose properties fit texts."},
    {"unannotated_run", (PyCFunction)(void (*)(void))unannotated_run, METH_FASTCALL, "Messages without delivery annotations."},
    {"annotate_run", (PyCFunction)(void (*)(void))annotate_run, METH_FASTCALL, "`add_annotations` for several."},
    {"rewrite_run", (PyCFunction)(void (*)(void))rewrite_run, METH_FASTCALL, "`rewrite_request` for several."},
    {"remove_annotations", (PyCFunction)(void (*)(void))remove_annotations, METH_FASTCALL, "Remove delivery annotations that are known."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_sections", "Sections, fields and annotations of messages", -1, methods,
                                        NULL,                  NULL,        NULL,                           NULL};

PyMODINIT_FUNC PyInit__sections(void) {
    null_field = PyBytes_FromStringAndSize("\x40", 1);
    return null_field == NULL ? NULL : PyModule_Create(&definition);
}
