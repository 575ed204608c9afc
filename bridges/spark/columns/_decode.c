/* Encoded messages of one shape, read together (docs/columns.md): `batch_decoder` compiles the shape to steps.
 *
 * `decode` takes these steps through one message after the other. Where a message differs from the shape, or a size is
 * inconsistent, it is left out, and the caller decodes it by itself; so this module accepts the usual form only, and
 * checks every byte but the characters of texts. `interleave` makes the buffers of an Arrow array of the texts or
 * binaries that were found. Buffers are `bytes` objects, so no Arrow library is needed here.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ABSENT (-128) /* the width of a constructor that the type does not have */
#define NULL_CODE 0x40

enum step { EXPECT, OPEN, CLOSE, MARK, VALUE };
enum form { BINARY, SIGNED, UNSIGNED, BOOLEAN, DOUBLE, NOTHING };

typedef struct {
    int step, form;
    const uint8_t *raw; /* of EXPECT */
    Py_ssize_t size;
    uint8_t code; /* of OPEN: a list8 or map8 */
    uint32_t count;
    int8_t widths[256]; /* of VALUE: bytes of the value by constructor; negative: of the size that precedes it */
    bool nullable;
    PyObject *first, *second, *missing; /* positions or numbers; ends; which values are null */
    bool any_missing;
} instruction;

typedef struct {
    const uint8_t *data;
    int64_t at, end, close;
} cursor;

static uint64_t big_endian(const uint8_t *data, int width) {
    uint64_t found = 0;
    while (width-- > 0)
        found = found << 8 | *data++;
    return found;
}

static void put(PyObject *bytes, Py_ssize_t row, int64_t value) {
    if (bytes != NULL)
        ((int64_t *)PyBytes_AS_STRING(bytes))[row] = value;
}

/* -- steps: each returns whether the message has the shape so far */

static bool expect(cursor *place, const uint8_t *raw, Py_ssize_t size) {
    if (place->end - place->at < size || memcmp(place->data + place->at, raw, (size_t)size) != 0)
        return false;
    place->at += size;
    return true;
}

/* Enter a list or map of `count` items, whose end becomes `close`. */
static bool open_section(cursor *place, const instruction *op) {
    const uint8_t *data = place->data + place->at;
    int64_t left = place->end - place->at;
    if (left >= 3 && data[0] == op->code) {
        place->close = place->at + 2 + data[1];
        place->at += 3;
        return data[2] == op->count && place->close <= place->end;
    }
    if (left < 9 || data[0] != op->code + 0x10)
        return false;
    place->close = place->at + 5 + (int64_t)big_endian(data + 1, 4);
    place->at += 9;
    return big_endian(data + 5, 4) == op->count && place->close <= place->end;
}

static bool put_bytes(cursor *place, instruction *op, Py_ssize_t row, int width) {
    int64_t size = width;
    if (width < 0) {
        if (place->end - place->at < -width)
            return false;
        size = (int64_t)big_endian(place->data + place->at, -width);
        place->at -= width;
    }
    if (place->end - place->at < size)
        return false;
    put(op->first, row, place->at);
    put(op->second, row, place->at += size);
    return true;
}

/* A number as 64 bits; false if the column cannot hold it. */
static bool number_of(const uint8_t *data, uint8_t code, int width, int form, int64_t *found) {
    uint64_t raw = big_endian(data, width);
    int shift = 64 - 8 * width;
    float narrow;
    double wide;
    uint32_t word = (uint32_t)raw;
    if (form == BOOLEAN) {
        *found = width == 0 ? code == 0x41 : (int64_t)raw;
        return raw <= 1;
    }
    if (form == SIGNED)
        raw = width == 0 ? 0 : (uint64_t)((int64_t)(raw << shift) >> shift);
    if (form == DOUBLE && width == 4) {
        memcpy(&narrow, &word, sizeof narrow);
        wide = narrow;
        memcpy(&raw, &wide, sizeof raw);
        if (narrow != narrow) /* a conversion would change the bits of a NaN */
            return false;
    }
    *found = (int64_t)raw;
    return form != UNSIGNED || *found >= 0;
}

static bool put_value(cursor *place, instruction *op, Py_ssize_t row) {
    int64_t number = 0;
    uint8_t code;
    int width;
    if (place->at >= place->end)
        return false;
    code = place->data[place->at++];
    width = op->widths[code];
    if (width == ABSENT) {
        if (code != NULL_CODE || !op->nullable)
            return false;
        PyBytes_AS_STRING(op->missing)[row] = 1;
        op->any_missing = true;
        put(op->first, row, op->form == BINARY ? place->at : 0);
        put(op->second, row, place->at);
        return true;
    }
    if (op->form == BINARY)
        return put_bytes(place, op, row, width);
    if (place->end - place->at < width || !number_of(place->data + place->at, code, width, op->form, &number))
        return false;
    put(op->first, row, number);
    place->at += width;
    return true;
}

static bool take(cursor *place, instruction *op, Py_ssize_t row) {
    switch (op->step) {
    case EXPECT:
        return expect(place, op->raw, op->size);
    case OPEN:
        return open_section(place, op);
    case CLOSE:
        return place->at == place->close;
    case MARK:
        put(op->first, row, place->at);
        return true;
    default:
        return put_value(place, op, row);
    }
}

/* -- the program */

static int parse_widths(instruction *op, PyObject *widths) {
    Py_ssize_t index;
    memset(op->widths, (uint8_t)ABSENT, sizeof op->widths);
    for (index = 0; index < PyTuple_GET_SIZE(widths); index++) {
        PyObject *item = PyTuple_GET_ITEM(widths, index);
        unsigned char code;
        int width;
        if (!PyTuple_Check(item)) {
            PyErr_SetString(PyExc_TypeError, "a width is a tuple of the constructor and the bytes after it");
            return -1;
        }
        if (!PyArg_ParseTuple(item, "bi", &code, &width))
            return -1;
        if (width != -1 && width != -4 && (width < 0 || width > (op->form == BINARY ? 16 : 8))) {
            PyErr_SetString(PyExc_ValueError, "no value has this width");
            return -1;
        }
        if (width < 0 && op->form != BINARY) {
            PyErr_SetString(PyExc_ValueError, "numbers have a fixed width");
            return -1;
        }
        op->widths[code] = (int8_t)width;
    }
    return 0;
}

static int begin_value(instruction *op, PyObject *item, Py_ssize_t count) {
    PyObject *widths;
    int nullable;
    Py_ssize_t bytes = count * (Py_ssize_t)sizeof(int64_t);
    if (!PyArg_ParseTuple(item, "iiO!p", &op->step, &op->form, &PyTuple_Type, &widths, &nullable))
        return -1;
    op->nullable = nullable != 0;
    if (parse_widths(op, widths) < 0)
        return -1;
    op->missing = PyBytes_FromStringAndSize(NULL, count);
    if (op->form != NOTHING)
        op->first = PyBytes_FromStringAndSize(NULL, bytes);
    if (op->form == BINARY)
        op->second = PyBytes_FromStringAndSize(NULL, bytes);
    if (PyErr_Occurred())
        return -1;
    memset(PyBytes_AS_STRING(op->missing), 0, (size_t)count);
    return 0;
}

static int parse_instruction(instruction *op, PyObject *item, Py_ssize_t count) {
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) == 0) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple");
        return -1;
    }
    op->step = (int)PyLong_AsLong(PyTuple_GET_ITEM(item, 0));
    switch (op->step) {
    case EXPECT:
        return PyArg_ParseTuple(item, "iy#", &op->step, &op->raw, &op->size) ? 0 : -1;
    case OPEN:
        return PyArg_ParseTuple(item, "ibI", &op->step, &op->code, &op->count) ? 0 : -1;
    case CLOSE:
        return 0;
    case MARK:
        op->first = PyBytes_FromStringAndSize(NULL, count * (Py_ssize_t)sizeof(int64_t));
        return op->first == NULL ? -1 : 0;
    case VALUE:
        return begin_value(op, item, count);
    default:
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "no such step");
        return -1;
    }
}

static void free_program(instruction *all, Py_ssize_t steps) {
    for (Py_ssize_t index = 0; index < steps; index++) {
        Py_XDECREF(all[index].first);
        Py_XDECREF(all[index].second);
        Py_XDECREF(all[index].missing);
    }
    PyMem_Free(all);
}

/* (positions or numbers or None, ends or None, missing or None) for each MARK and VALUE. */
static PyObject *results(instruction *all, Py_ssize_t steps) {
    PyObject *found = PyList_New(0);
    for (Py_ssize_t index = 0; found != NULL && index < steps; index++) {
        instruction *op = all + index;
        PyObject *item;
        if (op->step != MARK && op->step != VALUE)
            continue;
        item = PyTuple_Pack(3, op->first ? op->first : Py_None, op->second ? op->second : Py_None,
                            op->any_missing ? op->missing : Py_None);
        if (item == NULL || PyList_Append(found, item) < 0)
            Py_CLEAR(found);
        Py_XDECREF(item);
    }
    return found;
}

typedef struct {
    Py_buffer data, starts, ends, rows;
} inputs;

static void release(inputs *given) {
    PyBuffer_Release(&given->data);
    PyBuffer_Release(&given->starts);
    PyBuffer_Release(&given->ends);
    PyBuffer_Release(&given->rows);
}

/* Take the steps through each message; the mask of those that have the shape. */
static PyObject *run(instruction *all, Py_ssize_t steps, const inputs *given) {
    const int64_t *starts = given->starts.buf, *ends = given->ends.buf, *rows = given->rows.buf;
    Py_ssize_t count = given->rows.len / (Py_ssize_t)sizeof(int64_t), row, index;
    int64_t messages = given->starts.len / (Py_ssize_t)sizeof(int64_t);
    PyObject *mask = PyBytes_FromStringAndSize(NULL, count);
    for (row = 0; mask != NULL && row < count; row++) {
        cursor place = {given->data.buf, 0, 0, 0};
        bool fits = true;
        if (rows[row] < 0 || rows[row] >= messages || starts[rows[row]] < 0 || ends[rows[row]] > given->data.len ||
            starts[rows[row]] > ends[rows[row]]) {
            PyErr_SetString(PyExc_IndexError, "a message is outside of the buffer");
            Py_CLEAR(mask);
            break;
        }
        place.at = starts[rows[row]];
        place.end = ends[rows[row]];
        for (index = 0; fits && index < steps; index++)
            fits = take(&place, all + index, row);
        PyBytes_AS_STRING(mask)[row] = fits && place.at == place.end;
    }
    return mask;
}

/* decode(data, starts, ends, rows, program) -> (which rows have the shape, the results of MARK and VALUE) */
static PyObject *decode(PyObject *module, PyObject *args) {
    PyObject *program, *mask = NULL, *found = NULL, *result = NULL;
    instruction *all;
    inputs given;
    Py_ssize_t steps, index = 0;
    if (!PyArg_ParseTuple(args, "y*y*y*y*O!", &given.data, &given.starts, &given.ends, &given.rows, &PyTuple_Type,
                          &program))
        return NULL;
    steps = PyTuple_GET_SIZE(program);
    all = PyMem_Calloc((size_t)steps + 1, sizeof(instruction));
    if (all == NULL)
        PyErr_NoMemory();
    else if (given.starts.len != given.ends.len)
        PyErr_SetString(PyExc_ValueError, "each message has a start and an end");
    while (!PyErr_Occurred() && index < steps) {
        parse_instruction(all + index, PyTuple_GET_ITEM(program, index), given.rows.len / (Py_ssize_t)sizeof(int64_t));
        index++;
    }
    if (!PyErr_Occurred() && (mask = run(all, steps, &given)) != NULL && (found = results(all, steps)) != NULL)
        result = PyTuple_Pack(2, mask, found);
    Py_XDECREF(mask);
    Py_XDECREF(found);
    if (all != NULL)
        free_program(all, steps);
    release(&given);
    return result;
}

/* -- Arrow buffers */

typedef struct {
    Py_buffer starts, ends, missing;
    bool present, nullable;
} pieces;

static void release_pieces(pieces *all, Py_ssize_t width) {
    for (Py_ssize_t index = 0; index < width; index++) {
        PyBuffer_Release(&all[index].starts); /* nothing, where it was not filled */
        PyBuffer_Release(&all[index].ends);
        PyBuffer_Release(&all[index].missing);
    }
    PyMem_Free(all);
}

static int parse_pieces(pieces *column, PyObject *item, Py_ssize_t count) {
    PyObject *missing;
    if (item == Py_None)
        return 0;
    if (!PyTuple_Check(item)) {
        PyErr_SetString(PyExc_TypeError, "a column is a tuple or None");
        return -1;
    }
    if (!PyArg_ParseTuple(item, "y*y*O", &column->starts, &column->ends, &missing))
        return -1;
    if (missing != Py_None && PyObject_GetBuffer(missing, &column->missing, PyBUF_SIMPLE) < 0)
        return -1;
    column->present = true;
    column->nullable = missing != Py_None;
    if (column->starts.len == count * (Py_ssize_t)sizeof(int64_t) && column->ends.len == column->starts.len &&
        (!column->nullable || column->missing.len == count))
        return 0;
    PyErr_SetString(PyExc_ValueError, "a column has another number of values");
    return -1;
}

/* The bytes of all values; -1 with an exception if one is outside of the buffer, or they are too many. */
static Py_ssize_t total_size(const pieces *all, Py_ssize_t width, Py_ssize_t count, Py_ssize_t limit) {
    Py_ssize_t total = 0;
    for (Py_ssize_t index = 0; index < width; index++) {
        const int64_t *starts = all[index].starts.buf, *ends = all[index].ends.buf;
        for (Py_ssize_t row = 0; all[index].present && row < count; row++) {
            if (starts[row] < 0 || starts[row] > ends[row] || ends[row] > limit) {
                PyErr_SetString(PyExc_IndexError, "a value is outside of the buffer");
                return -1;
            }
            total += (Py_ssize_t)(ends[row] - starts[row]);
        }
    }
    if (total > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "an Arrow array of 32-bit offsets cannot hold these values");
        return -1;
    }
    return total;
}

static bool is_ascii(const uint8_t *data, Py_ssize_t size) {
    uint8_t any = 0;
    while (size-- > 0)
        any |= *data++;
    return any < 0x80;
}

/* Copy the values, message by message; whether none is null. */
static bool copy_values(const pieces *all, Py_ssize_t width, Py_ssize_t count, const uint8_t *data, uint8_t *valid,
                        int32_t *offsets, uint8_t *into) {
    Py_ssize_t number = 0;
    bool whole = true;
    int32_t size = 0;
    offsets[0] = 0;
    for (Py_ssize_t row = 0; row < count; row++) {
        for (Py_ssize_t index = 0; index < width; index++, number++) {
            const pieces *column = all + index;
            if (column->present && !(column->nullable && ((const char *)column->missing.buf)[row])) {
                int64_t start = ((const int64_t *)column->starts.buf)[row];
                int32_t length = (int32_t)(((const int64_t *)column->ends.buf)[row] - start);
                memcpy(into + size, data + start, (size_t)length);
                size += length;
            } else {
                valid[number / 8] &= (uint8_t)~(1u << number % 8);
                whole = false;
            }
            offsets[number + 1] = size;
        }
    }
    return whole;
}

/* (validity or None, offsets, bytes, whether all bytes are ASCII) */
static PyObject *arrow_buffers(const pieces *all, Py_ssize_t width, Py_ssize_t count, const Py_buffer *data) {
    Py_ssize_t total = total_size(all, width, count, data->len), number = width * count;
    PyObject *valid, *offsets, *content, *result = NULL;
    bool whole;
    if (total < 0)
        return NULL;
    valid = PyBytes_FromStringAndSize(NULL, (number + 7) / 8);
    offsets = PyBytes_FromStringAndSize(NULL, (number + 1) * (Py_ssize_t)sizeof(int32_t));
    content = PyBytes_FromStringAndSize(NULL, total);
    if (valid != NULL && offsets != NULL && content != NULL) {
        uint8_t *into = (uint8_t *)PyBytes_AS_STRING(content);
        memset(PyBytes_AS_STRING(valid), 0xff, (size_t)(number + 7) / 8);
        whole = copy_values(all, width, count, data->buf, (uint8_t *)PyBytes_AS_STRING(valid),
                            (int32_t *)PyBytes_AS_STRING(offsets), into);
        total = PyBytes_GET_SIZE(content); /* values that are null are not copied */
        if (((int32_t *)PyBytes_AS_STRING(offsets))[number] == total ||
            _PyBytes_Resize(&content, ((int32_t *)PyBytes_AS_STRING(offsets))[number]) == 0)
            result = PyTuple_Pack(4, whole ? Py_None : valid, offsets, content,
                                  is_ascii((uint8_t *)PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
                                      ? Py_True
                                      : Py_False);
    }
    Py_XDECREF(valid);
    Py_XDECREF(offsets);
    Py_XDECREF(content);
    return result;
}

/* interleave(data, count, columns) -> the buffers of an array with the values of all columns, message by message */
static PyObject *interleave(PyObject *module, PyObject *args) {
    PyObject *columns, *result = NULL;
    Py_buffer data;
    pieces *all;
    Py_ssize_t count, width, index;
    if (!PyArg_ParseTuple(args, "y*nO!", &data, &count, &PyTuple_Type, &columns))
        return NULL;
    width = PyTuple_GET_SIZE(columns);
    all = PyMem_Calloc((size_t)width + 1, sizeof(pieces));
    if (all == NULL)
        PyErr_NoMemory();
    else if (count < 0)
        PyErr_SetString(PyExc_ValueError, "a negative number of messages");
    for (index = 0; !PyErr_Occurred() && index < width; index++)
        parse_pieces(all + index, PyTuple_GET_ITEM(columns, index), count);
    if (!PyErr_Occurred())
        result = arrow_buffers(all, width, count, &data);
    if (all != NULL)
        release_pieces(all, width);
    PyBuffer_Release(&data);
    return result;
}

static PyMethodDef methods[] = {
    {"decode", decode, METH_VARARGS, "Decode the messages that have a shape."},
    {"interleave", interleave, METH_VARARGS, "The buffers of an Arrow array of texts or binaries."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_decode", "messages of one shape, read together", -1,
                                        methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__decode(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module != NULL &&
        (PyModule_AddIntMacro(module, EXPECT) < 0 || PyModule_AddIntMacro(module, OPEN) < 0 ||
         PyModule_AddIntMacro(module, CLOSE) < 0 || PyModule_AddIntMacro(module, MARK) < 0 ||
         PyModule_AddIntMacro(module, VALUE) < 0 || PyModule_AddIntMacro(module, BINARY) < 0 ||
         PyModule_AddIntMacro(module, SIGNED) < 0 || PyModule_AddIntMacro(module, UNSIGNED) < 0 ||
         PyModule_AddIntMacro(module, BOOLEAN) < 0 || PyModule_AddIntMacro(module, DOUBLE) < 0 ||
         PyModule_AddIntMacro(module, NOTHING) < 0))
        Py_CLEAR(module);
    return module;
}
