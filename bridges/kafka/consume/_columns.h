/* The records of a run as the buffers of Arrow arrays: validity bits, offsets of 32 bits, bytes (Arrow columnar format).
 *
 * One walk over the records and their headers fills all buffers. A buffer is a `bytes` object, so no Arrow library is
 * needed here; `bridges.spark.archive.records` makes arrays of them.
 */
#pragma once
#include "_messages.h"

typedef struct {
    PyObject *valid, *offsets, *data;
    Py_ssize_t count, nulls;
    int32_t size;
} binaries; /* an array of binaries that is being filled; without `data` an array of lists */

static void *buffer_of(PyObject *bytes) { return PyBytes_AS_STRING(bytes); }

static int begin_binaries(binaries *column, Py_ssize_t count, Py_ssize_t bytes) {
    column->valid = PyBytes_FromStringAndSize(NULL, (count + 7) / 8);
    column->offsets = PyBytes_FromStringAndSize(NULL, (count + 1) * (Py_ssize_t)sizeof(int32_t));
    column->data = PyBytes_FromStringAndSize(NULL, bytes);
    if (column->valid == NULL || column->offsets == NULL || column->data == NULL)
        return -1;
    memset(buffer_of(column->valid), 0xff, (size_t)(count + 7) / 8);
    ((int32_t *)buffer_of(column->offsets))[0] = 0;
    return 0;
}

static void free_binaries(binaries *column) {
    Py_CLEAR(column->valid);
    Py_CLEAR(column->offsets);
    Py_CLEAR(column->data);
}

/* Append an item of this many bytes or elements; a negative size is null. */
static void add_item(binaries *column, int32_t size) {
    if (size < 0) {
        ((uint8_t *)buffer_of(column->valid))[column->count / 8] &= (uint8_t)~(1u << column->count % 8);
        column->nulls++;
    }
    column->size += positive_size(size);
    ((int32_t *)buffer_of(column->offsets))[++column->count] = column->size;
}

static void add_binary(binaries *column, const char *data, int32_t size) {
    memcpy((char *)buffer_of(column->data) + column->size, data, (size_t)positive_size(size));
    add_item(column, size);
}

/* (validity or None, offsets, data), with references that the caller owns; NULL: no memory. */
static PyObject *end_binaries(binaries *column) {
    if (_PyBytes_Resize(&column->data, column->size) < 0)
        return NULL;
    return PyTuple_Pack(3, column->nulls ? column->valid : Py_None, column->offsets, column->data);
}

typedef struct {
    PyObject *places, *times, *kinds;
    binaries keys, values, headers, names, contents;
    bool ascii; /* all names of headers are */
} columns;

typedef struct {
    Py_ssize_t keys, values, headers, rest;
} totals;

static totals totals_of(const Run *run) {
    totals found = {0, 0, 0, 0};
    Py_ssize_t index;
    for (index = 0; index < run->count; index++) {
        found.keys += positive_size(run->entries[index].key_size);
        found.values += positive_size(run->entries[index].value_size);
        found.headers += positive_size(run->entries[index].headers);
    }
    found.rest = (Py_ssize_t)run->size - found.keys - found.values;
    return found;
}

static int begin_columns(columns *all, const Run *run) {
    totals sizes = totals_of(run);
    all->places = PyBytes_FromStringAndSize(NULL, run->count * (Py_ssize_t)sizeof(int64_t));
    all->times = PyBytes_FromStringAndSize(NULL, run->count * (Py_ssize_t)sizeof(int64_t));
    all->kinds = PyBytes_FromStringAndSize(NULL, run->count * (Py_ssize_t)sizeof(int32_t));
    all->ascii = true;
    if (all->places == NULL || all->times == NULL || all->kinds == NULL)
        return -1;
    if (begin_binaries(&all->keys, run->count, sizes.keys) < 0 || begin_binaries(&all->values, run->count, sizes.values) < 0)
        return -1;
    if (begin_binaries(&all->headers, run->count, 0) < 0 || begin_binaries(&all->names, sizes.headers, sizes.rest) < 0)
        return -1;
    return begin_binaries(&all->contents, sizes.headers, sizes.rest);
}

static void add_headers(columns *all, const Run *run, const entry *each) {
    const char *at = headers_of(run, each), *name, *value;
    header_sizes sizes;
    int32_t left;
    for (left = each->headers; left > 0; left--) {
        at = read_header(at, &sizes, &name, &value);
        all->ascii = all->ascii && is_ascii(name, sizes.name);
        add_binary(&all->names, name, sizes.name);
        add_binary(&all->contents, value, sizes.value);
    }
    add_item(&all->headers, each->headers);
}

static void fill_columns(columns *all, const Run *run) {
    Py_ssize_t index;
    for (index = 0; index < run->count; index++) {
        const entry *each = run->entries + index;
        ((int64_t *)buffer_of(all->places))[index] = each->offset;
        ((int64_t *)buffer_of(all->times))[index] = each->time;
        ((int32_t *)buffer_of(all->kinds))[index] = each->time_kind;
        add_binary(&all->keys, key_of(run, each), each->key_size);
        add_binary(&all->values, value_of(run, each), each->value_size);
        add_headers(all, run, each);
    }
}

static void free_columns(columns *all) {
    Py_CLEAR(all->places);
    Py_CLEAR(all->times);
    Py_CLEAR(all->kinds);
    free_binaries(&all->keys);
    free_binaries(&all->values);
    free_binaries(&all->headers);
    free_binaries(&all->names);
    free_binaries(&all->contents);
}

static PyObject *end_columns(columns *all) {
    binaries *parts[] = {&all->keys, &all->values, &all->headers, &all->names, &all->contents};
    PyObject *found[5] = {NULL}, *result = NULL;
    int index;
    for (index = 0; index < 5 && (found[index] = end_binaries(parts[index])) != NULL; index++)
        ;
    if (index == 5)
        result = Py_BuildValue("(OOOOOOOOi)", all->places, all->times, all->kinds, found[0], found[1], found[2], found[3],
                               found[4], (int)all->ascii);
    while (index-- > 0)
        Py_DECREF(found[index]);
    return result;
}

/* columns() -> offsets, times, kinds of time, keys, values, headers (lists), their names, their contents, all names ASCII */
static PyObject *run_columns(Run *self, PyObject *unused) {
    columns all = {0};
    PyObject *result = NULL;
    if (self->size > INT32_MAX) {
        PyErr_SetString(PyExc_OverflowError, "the run has more bytes than an array can have");
        return NULL;
    }
    if (begin_columns(&all, self) == 0) {
        fill_columns(&all, self);
        result = end_columns(&all);
    }
    free_columns(&all);
    return result;
}
