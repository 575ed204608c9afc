/* Evaluates filters that compare application properties with texts, on many messages in one call
 * (gateway/filters/index/text_tests.py).
 *
 * Included by `_sections.c`. All tests of a filter must hold. Messages that Python has to look at: malformed ones, and those
 * with a property of another type than string, number, time, boolean or binary, with names of another type than a short
 * string, or with a tested property twice.
 */
#include "_value_text.h"

enum { EQUAL = 0, BEGINS = 1, ENDS = 2, MOST_TESTS = 16 };

typedef struct {
    const char *name;
    size_t name_size, longest; /* of the text in bytes; a longer one needs a look, unless 0 */
    PyObject *operands;        /* a tuple of bytes, one of which must fit */
    int how;
} text_test;

/* Parse one test, a tuple of name, how, operands and longest; false: it is none. */
static bool parse_text_test(PyObject *given, text_test *test) {
    Py_ssize_t longest, index;
    long how;
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 4 || !PyBytes_Check(PyTuple_GET_ITEM(given, 0)) ||
        !PyLong_Check(PyTuple_GET_ITEM(given, 1)) || !PyTuple_Check(PyTuple_GET_ITEM(given, 2)) ||
        !PyLong_Check(PyTuple_GET_ITEM(given, 3)))
        return false;
    how = PyLong_AsLong(PyTuple_GET_ITEM(given, 1)), longest = PyLong_AsSsize_t(PyTuple_GET_ITEM(given, 3));
    if (PyErr_Occurred() || how < EQUAL || how > ENDS || longest < 0) {
        PyErr_Clear();
        return false;
    }
    test->name = PyBytes_AS_STRING(PyTuple_GET_ITEM(given, 0));
    test->name_size = (size_t)PyBytes_GET_SIZE(PyTuple_GET_ITEM(given, 0));
    test->how = (int)how, test->longest = (size_t)longest, test->operands = PyTuple_GET_ITEM(given, 2);
    for (index = 0; index < PyTuple_GET_SIZE(test->operands); index++)
        if (!PyBytes_Check(PyTuple_GET_ITEM(test->operands, index)))
            return false;
    return true;
}

static bool fits(const text_test *test, const char *text, size_t size) {
    Py_ssize_t index;
    for (index = 0; index < PyTuple_GET_SIZE(test->operands); index++) {
        PyObject *operand = PyTuple_GET_ITEM(test->operands, index);
        size_t wanted = (size_t)PyBytes_GET_SIZE(operand);
        if ((test->how == EQUAL ? size == wanted : size >= wanted) &&
            memcmp(test->how == ENDS ? text + size - wanted : text, PyBytes_AS_STRING(operand), wanted) == 0)
            return true;
    }
    return false;
}

/* The string from `start` to `end`; false: it is none, or not UTF-8. */
static bool read_string(const uint8_t *data, ptrdiff_t start, ptrdiff_t end, value_span *text) {
    ptrdiff_t head = data[start] == 0xA1 ? 2 : 5;
    if (data[start] != 0xA1 && data[start] != 0xB1)
        return false;
    *text = (value_span){(const char *)data + start + head, (size_t)(end - start - head)};
    return is_utf8_text((const uint8_t *)text->data, text->size);
}

/* Whether Python decodes a value of this type without a look at its content. */
static bool is_usual_value(const uint8_t *data, ptrdiff_t start) {
    static const uint8_t forms[] = {0x40, 0x41, 0x42, 0x43, 0x44, 0x50, 0x51, 0x52, 0x53, 0x54, 0x55, 0x60,
                                    0x61, 0x70, 0x71, 0x72, 0x80, 0x81, 0x82, 0x83, 0xA0, 0xB0};
    return memchr(forms, data[start], sizeof forms) != NULL || (data[start] == 0x56 && data[start + 1] <= 1);
}

/* Evaluate one entry; false: Python has to. `seen` has a bit for each test whose property was there. */
static bool test_entry(const text_test *tests, int count, list_view *map, unsigned *seen, bool *holds) {
    ptrdiff_t name = skip_field(map), name_end = map->at, value = name < 0 ? -1 : skip_field(map);
    value_span key, text = {NULL, 0};
    bool string;
    int index;
    if (value < 0 || map->data[name] != 0xA1 || !read_string(map->data, name, name_end, &key))
        return false;
    string = read_string(map->data, value, map->at, &text);
    if (!string && !is_usual_value(map->data, value))
        return false;
    for (index = 0; index < count; index++) {
        const text_test *test = tests + index;
        if (key.size != test->name_size || memcmp(key.data, test->name, key.size) != 0)
            continue;
        if (*seen & 1U << index || (!string && map->data[value] != NULL_VALUE) || (test->longest > 0 && text.size > test->longest))
            return false;
        *seen |= 1U << index;
        *holds = *holds && string && fits(test, text.data, text.size);
    }
    return true;
}

/* 1: all tests hold, 0: not all, -1: Python has to look at the message. */
static int test_message(const text_test *tests, int count, const uint8_t *data, ptrdiff_t length) {
    ptrdiff_t starts[SECTIONS], value, items = 0;
    list_view map = {.data = data};
    unsigned seen = 0;
    bool holds = true;
    if (!find_sections(data, length, starts, most_repeated))
        return -1;
    if (starts[APPLICATION] == starts[APPLICATION + 1])
        return count == 0;
    if (section_code(data, starts[APPLICATION], length, &value) < 0 || !open_items(&map, value, length, MAP))
        return -1;
    for (; map.at < map.end; items += 2)
        if (!test_entry(tests, count, &map, &seen, &holds))
            return -1;
    return items != map.count ? -1 : holds && seen == (1U << count) - 1;
}

/* Whether an event, a tuple that begins with its message, passes; -1 with an exception. */
static int event_passes(const text_test *tests, int count, PyObject *event, PyObject *general) {
    PyObject *data, *answer;
    int found;
    if (!PyTuple_Check(event) || PyTuple_GET_SIZE(event) == 0 || !PyBytes_Check(data = PyTuple_GET_ITEM(event, 0))) {
        PyErr_SetString(PyExc_TypeError, "an event is a tuple that begins with bytes");
        return -1;
    }
    found = test_message(tests, count, (const uint8_t *)PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data));
    if (found >= 0)
        return found;
    if ((answer = PyObject_CallOneArg(general, data)) == NULL)
        return -1;
    found = PyObject_IsTrue(answer);
    Py_DECREF(answer);
    return found;
}

/* matching_events(events, tests, general) -> the events whose messages pass all tests; `general(data)` decides where C cannot */
static PyObject *matching_events(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    text_test tests[MOST_TESTS];
    Py_ssize_t index, size;
    PyObject *found;
    int passes = 0;
    if (count != 3 || !PyList_Check(args[0]) || !PyTuple_Check(args[1]) || (size = PyTuple_GET_SIZE(args[1])) > MOST_TESTS) {
        PyErr_SetString(PyExc_TypeError, "expected events, at most 16 tests, and a function");
        return NULL;
    }
    for (index = 0; index < size; index++)
        if (!parse_text_test(PyTuple_GET_ITEM(args[1], index), tests + index)) {
            PyErr_SetString(PyExc_TypeError, "a test is a name, a number, texts, and the longest text");
            return NULL;
        }
    if ((found = PyList_New(0)) == NULL)
        return NULL;
    for (index = 0; passes >= 0 && index < PyList_GET_SIZE(args[0]); index++) {
        PyObject *event = Py_NewRef(PyList_GET_ITEM(args[0], index)); /* `general` may run any code */
        passes = event_passes(tests, (int)size, event, args[2]);
        if (passes > 0 && PyList_Append(found, event) < 0)
            passes = -1;
        Py_DECREF(event);
    }
    if (passes < 0)
        Py_CLEAR(found);
    return found;
}
