/* The texts of the values in a map or list, in one call: null as None, numbers in decimal digits, times in milliseconds.
 *
 * Included by `_sections.c`. The result is `...` for a value of another type, and for malformed ones.
 */

#include "_value_text.h"

/* The text of the simple value from `at` to `end`, or `...`. */
static PyObject *value_text(const uint8_t *at, const uint8_t *end) {
    char digits[DIGITS_OF_64_BITS];
    value_span text;
    if (!read_text(at, end, digits, &text))
        return not_supported();
    return text.data == NULL ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(text.data, (Py_ssize_t)text.size);
}

/* Append (name, text) for the next value; takes over `name`. 1: done, 0: unusual, -1: an exception. */
static int append_text(PyObject *texts, PyObject *name, list_view *list) {
    ptrdiff_t start = simple_end(list->data, list->at, list->end) < 0 ? -1 : skip_field(list);
    PyObject *text = start < 0 ? not_supported() : value_text(list->data + start, list->data + list->at), *pair;
    int failed;
    if (text == NULL || text == Py_Ellipsis || name == Py_None) { /* None: a name that no header may have */
        failed = text == NULL ? -1 : text != Py_Ellipsis;
        Py_XDECREF(text);
        Py_DECREF(name);
        return failed;
    }
    pair = PyTuple_Pack(2, name, text);
    Py_DECREF(name);
    Py_DECREF(text);
    failed = pair == NULL ? -1 : PyList_Append(texts, pair);
    Py_XDECREF(pair);
    return failed < 0 ? -1 : 1;
}

/* The name of the next key by the function; NULL without an exception: it is no string of up to 255 bytes. */
static PyObject *key_name(list_view *map, PyObject *function) {
    PyObject *bytes, *name;
    ptrdiff_t start = map->at < map->end && map->data[map->at] == 0xA1 ? skip_field(map) : -1;
    if (start < 0)
        return NULL;
    bytes = PyBytes_FromStringAndSize((const char *)map->data + start + 2, map->at - start - 2);
    name = bytes == NULL ? NULL : PyObject_CallOneArg(function, bytes);
    Py_XDECREF(bytes);
    return name;
}

/* Finish a list of texts: `...` if `done` is not 1, NULL if it is -1. */
static PyObject *texts_or_unusual(PyObject *texts, int done) {
    if (done == 1)
        return texts;
    Py_DECREF(texts);
    return done < 0 || PyErr_Occurred() ? NULL : not_supported();
}

/* Parse (data, first item, end, ...); false: they are no part of a message. */
static bool parse_items(PyObject *const *args, Py_ssize_t count, Py_ssize_t wanted, list_view *list) {
    if (count != wanted || !PyBytes_Check(args[0]) || !PyLong_Check(args[1]) || !PyLong_Check(args[2]))
        return false;
    list->data = (const uint8_t *)PyBytes_AS_STRING(args[0]);
    list->at = PyLong_AsSsize_t(args[1]), list->end = PyLong_AsSsize_t(args[2]);
    PyErr_Clear();
    return list->at >= 0 && list->at <= list->end && list->end <= PyBytes_GET_SIZE(args[0]);
}

/* map_texts(data, first item, end, function of encoded names) -> [(name, text)] without names that are None, or ... */
static PyObject *map_texts(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    list_view map;
    PyObject *texts, *name;
    int done = 1;
    if (!parse_items(args, count, 4, &map))
        return not_supported();
    if ((texts = PyList_New(0)) == NULL)
        return NULL;
    while (done == 1 && map.at < map.end) {
        name = key_name(&map, args[3]);
        done = name == NULL ? 0 : append_text(texts, name, &map);
    }
    return texts_or_unusual(texts, done);
}

/* list_texts(data, first item, end, names) -> [(name, text)] without nulls, or ...: also if there is not an item for each */
static PyObject *list_texts(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    list_view list;
    PyObject *texts;
    Py_ssize_t index = 0;
    int done = 1;
    if (!parse_items(args, count, 4, &list) || !PyTuple_Check(args[3]))
        return not_supported();
    if ((texts = PyList_New(0)) == NULL)
        return NULL;
    for (; done == 1 && list.at < list.end; index++) {
        if (index >= PyTuple_GET_SIZE(args[3]))
            done = 0;
        else if (list.data[list.at] == NULL_VALUE)
            list.at++;
        else
            done = append_text(texts, Py_NewRef(PyTuple_GET_ITEM(args[3], index)), &list);
    }
    if (done == 1 && index != PyTuple_GET_SIZE(args[3]))
        done = 0;
    return texts_or_unusual(texts, done);
}
