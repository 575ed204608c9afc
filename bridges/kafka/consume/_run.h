/* Records of one partition in a single block of memory, with the position of each record's parts. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

typedef struct {
    int64_t offset, time;
    size_t start; /* offset of its bytes: value, key, headers (sizes of name and value, name, value) */
    int32_t value_size, key_size, headers; /* sizes, and count of headers; -1: null or none */
    int16_t time_kind, checked;            /* `checked`: what the thread that reads says of the digest */
} entry;

enum { UNCHECKED, INTACT, CHANGED };

typedef struct {
    int32_t name, value; /* -1: null */
} header_sizes;

typedef struct {
    PyObject_HEAD
    PyObject *topic;
    int32_t partition;
    Py_ssize_t count;
    size_t size;
    entry *entries;
    char *data;
} Run;

typedef struct {
    PyObject_HEAD
    Run *run;
    const entry *entry;
} Record;

static int32_t positive_size(int32_t size) { return size < 0 ? 0 : size; }

static const char *value_of(const Run *run, const entry *each) { return run->data + each->start; }

static const char *key_of(const Run *run, const entry *each) { return value_of(run, each) + positive_size(each->value_size); }

static const char *headers_of(const Run *run, const entry *each) { return key_of(run, each) + positive_size(each->key_size); }

/* Read the sizes, name and value of the header at `at`, and advance to the next one. */
static const char *read_header(const char *at, header_sizes *sizes, const char **name, const char **value) {
    memcpy(sizes, at, sizeof *sizes);
    *name = at + sizeof *sizes;
    *value = *name + sizes->name;
    return *value + positive_size(sizes->value);
}
