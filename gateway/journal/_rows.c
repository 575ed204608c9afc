/* Makes the journal's rows about single messages, many in one call (`message_rows.py`).
 *
 * With `sample: 1` there is a row for each message. In Python it took half as long as all else that a relay does for the
 * message: two properties are looked up, and a text is put together and encoded. What is rare is left to Python: malformed
 * messages, those that may have annotations of response routing, several sections of a body, and addresses that are
 * redacted, shortened or escaped. Nothing outside the given bytes is read.
 */
#define _GNU_SOURCE /* memmem */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <string.h>

#include "../amqp/message/_list.h"
#include "../amqp/message/_section_offsets.h"

enum { PROPERTIES_AT = 3, TO = 2, REPLY_TO = 4, SHORT_TEXT = 0xA1, LONG_TEXT = 0xB1 };
enum { MAX_LENGTH = 1024, SHORTEST_TOKEN = 40 }; /* characters of an address, and of a token (redaction.py) */
enum { DIGITS = 32 }; /* room for a number */

typedef struct {
    const uint8_t *data; /* NULL: absent */
    size_t size;
} text;

#define UNSETTLED ",\"settled\":false,\"annotated\":false"
#define SETTLED ",\"settled\":true,\"annotated\":false"
#define MESSAGE_TO ",\"message_to\":\""
#define MESSAGE_REPLY_TO ",\"message_reply_to\":\""

/* Whether a character stands for itself in JSON, and begins nothing that is redacted: `$temp/`, `%24temp/`, `sig=`. */
static bool stands_for_itself(uint8_t character) {
    switch (character) {
    case '"': case '\\': case '$': case '%': case '=':
        return false;
    default:
        return character >= 0x20 && character <= 0x7E;
    }
}

static bool is_base64url(uint8_t character) {
    uint8_t letter = character | 0x20;
    return (letter >= 'a' && letter <= 'z') || (character >= '0' && character <= '9') || character == '-' ||
           character == '_';
}

/* Whether the third character ends what a JSON web token begins with, in any case. */
static bool begins_web_token(const uint8_t *at) {
    return (at[2] | 0x20) == 'j' && (at[1] | 0x20) == 'y' && (at[0] | 0x20) == 'e';
}

/* Whether the text is the same in JSON, and has nothing that may be redacted: neither such a character nor a token. */
static bool is_plain(text found) {
    size_t index, run = 0;
    for (index = 0; index < found.size; index++) {
        run = is_base64url(found.data[index]) ? run + 1 : 0;
        if (!stands_for_itself(found.data[index]) || run == SHORTEST_TOKEN ||
            (run > 2 && begins_web_token(found.data + index - 2)))
            return false;
    }
    return found.size <= MAX_LENGTH;
}

/* The text of an address field; false: Python has to read it. */
static bool read_address(const uint8_t *data, ptrdiff_t start, ptrdiff_t end, text *found) {
    *found = (text){NULL, 0};
    if (data[start] == NULL_VALUE)
        return true;
    if (data[start] == SHORT_TEXT)
        *found = (text){data + start + 2, (size_t)(end - start - 2)};
    else if (data[start] == LONG_TEXT)
        *found = (text){data + start + 5, (size_t)(end - start - 5)};
    return found->data != NULL && is_plain(*found);
}

/* The `to` and reply-to of a message; false: Python has to read it. */
static bool read_addresses(const uint8_t *data, ptrdiff_t length, text *to, text *reply_to) {
    ptrdiff_t starts[SECTIONS], value, start;
    list_view list = {.data = data};
    int index;
    *to = *reply_to = (text){NULL, 0};
    if (!find_sections(data, length, starts, 0))
        return false;
    if (starts[PROPERTIES_AT] == starts[PROPERTIES_AT + 1])
        return true;
    section_code(data, starts[PROPERTIES_AT], length, &value);
    if (!open_list(&list, value, length))
        return false;
    for (index = 0; index <= REPLY_TO && index < list.count; index++) {
        if ((start = skip_field(&list)) < 0 || (index == TO && !read_address(data, start, list.at, to)) ||
            (index == REPLY_TO && !read_address(data, start, list.at, reply_to)))
            return false;
    }
    return true;
}

/* The digits of a number at the end of `room`; returns where they begin. `snprintf` takes longer than all else here. */
static char *digits_of(size_t number, char *room) {
    char *at = room + DIGITS;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return at;
}

static char *put(char *at, const void *bytes, size_t size) {
    memcpy(at, bytes, size);
    return at + size;
}

static size_t address_size(const char *name, text address) {
    return address.data == NULL ? 0 : strlen(name) + address.size + 1;
}

static char *put_address(char *at, const char *name, text address) {
    if (address.data == NULL)
        return at;
    at = put(at, name, strlen(name));
    at = put(at, address.data, address.size);
    return put(at, "\"", 1);
}

/* What all rows of a call have in common: what is before the number of the row, and what is between it and the size. */
typedef struct {
    PyObject *start, *times;
} frame;

/* The value of a row as bytes. */
static PyObject *made_row(const frame *frame, size_t seq, size_t size, const char *flags, text to, text reply_to) {
    char numbers[2][DIGITS], *number = digits_of(seq, numbers[0]), *after = digits_of(size, numbers[1]), *at;
    size_t seq_size = (size_t)(numbers[0] + DIGITS - number), size_size = (size_t)(numbers[1] + DIGITS - after);
    size_t start = (size_t)PyBytes_GET_SIZE(frame->start), times = (size_t)PyBytes_GET_SIZE(frame->times);
    size_t addresses = address_size(MESSAGE_TO, to) + address_size(MESSAGE_REPLY_TO, reply_to);
    PyObject *row = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(start + seq_size + times + size_size + strlen(flags) +
                                                                 addresses + 1));
    if (row == NULL)
        return NULL;
    at = put(PyBytes_AS_STRING(row), PyBytes_AS_STRING(frame->start), start);
    at = put(at, number, seq_size);
    at = put(at, PyBytes_AS_STRING(frame->times), times);
    at = put(at, after, size_size);
    at = put(at, flags, strlen(flags));
    at = put_address(at, MESSAGE_TO, to);
    at = put_address(at, MESSAGE_REPLY_TO, reply_to);
    put(at, "}", 1);
    return row;
}

/* The value of the row about one message (delivery, bytes, settled); None: Python has to make it. */
static PyObject *row_of(const frame *frame, size_t seq, PyObject *message) {
    PyObject *data;
    text to, reply_to;
    Py_ssize_t size;
    if (!PyTuple_Check(message) || PyTuple_GET_SIZE(message) != 3 || !PyBytes_Check(data = PyTuple_GET_ITEM(message, 1)) ||
        !PyBool_Check(PyTuple_GET_ITEM(message, 2)))
        Py_RETURN_NONE;
    size = PyBytes_GET_SIZE(data);
    if (memmem(PyBytes_AS_STRING(data), (size_t)size, "response-", 9) != NULL ||
        !read_addresses((const uint8_t *)PyBytes_AS_STRING(data), size, &to, &reply_to))
        Py_RETURN_NONE;
    return made_row(frame, seq, (size_t)size, PyTuple_GET_ITEM(message, 2) == Py_True ? SETTLED : UNSETTLED, to, reply_to);
}

/* message_rows(messages, start, times, seq) -> the value of a row about each message; None: Python has to make it */
static PyObject *message_rows(PyObject *module, PyObject *args) {
    PyObject *given, *messages, *rows, *row;
    frame frame;
    Py_ssize_t seq, index;
    if (!PyArg_ParseTuple(args, "OSSn", &given, &frame.start, &frame.times, &seq))
        return NULL;
    if (seq < 0) {
        PyErr_SetString(PyExc_ValueError, "rows are numbered from 1");
        return NULL;
    }
    if ((messages = PySequence_Fast(given, "messages are a sequence")) == NULL)
        return NULL;
    rows = PyList_New(PySequence_Fast_GET_SIZE(messages));
    for (index = 0; rows != NULL && index < PySequence_Fast_GET_SIZE(messages); index++) {
        row = row_of(&frame, (size_t)(seq + index), PySequence_Fast_GET_ITEM(messages, index));
        if (row == NULL)
            Py_CLEAR(rows);
        else
            PyList_SET_ITEM(rows, index, row);
    }
    Py_DECREF(messages);
    return rows;
}

static PyMethodDef methods[] = {
    {"message_rows", message_rows, METH_VARARGS, "The values of rows about messages; None for what Python has to make."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_rows", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__rows(void) { return PyModule_Create(&module); }
