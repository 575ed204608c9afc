/* SHA-256 of the libcrypto that hashlib has loaded, for `amqp.bare` (envelope.py).
 *
 * A call of hashlib costs a microsecond, its hash of a small record a fifth of that. digest.py gives the addresses of
 * libcrypto's functions; without them hashlib is called.
 */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../_seal.h"

enum { SMALL_INPUT = 4096 };

/* The digest of two pieces one after the other. */
static void sha256(const char *data, size_t size, const char *more, size_t more_size, uint8_t *digest) {
    _Alignas(16) unsigned char state[SHA256_STATE];
    libcrypto.init(state);
    libcrypto.update(state, data, size);
    libcrypto.update(state, more, more_size);
    libcrypto.final(digest, state);
}

/* sha256(data) -> its digest, or None without addresses */
static PyObject *sha256_py(PyObject *module, PyObject *data) {
    uint8_t digest[SHA256_SIZE];
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "what is hashed is bytes");
        return NULL;
    }
    if (!knows_sha256())
        Py_RETURN_NONE;
    sha256(PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data), "", 0, digest);
    return PyBytes_FromStringAndSize((const char *)digest, sizeof digest);
}

/* -- sealing: what `amqp.bare` of a record has in front of the sections (envelope.py) */

/* The bytes of an argument, or none for None; -1: it is neither. */
static Py_ssize_t optional_bytes(PyObject *given, const char **data) {
    *data = NULL;
    if (given == Py_None)
        return 0;
    if (!PyBytes_Check(given))
        return -1;
    *data = PyBytes_AS_STRING(given);
    return PyBytes_GET_SIZE(given);
}

static unsigned char *put_optional_size(unsigned char *at, PyObject *of, Py_ssize_t size) {
    return put_size(at, of == Py_None ? UINT32_MAX : (uint32_t)size);
}

/* Hash the headers; false if they are no pairs of a text, and bytes or None. */
static bool hash_headers(void *state, PyObject *headers) {
    Py_ssize_t index, name_size, size;
    unsigned char number[4];
    const char *name, *content;
    for (index = 0; index < PyList_GET_SIZE(headers); index++) {
        PyObject *pair = PyList_GET_ITEM(headers, index);
        if (!PyTuple_Check(pair) || PyTuple_GET_SIZE(pair) != 2 || !PyUnicode_Check(PyTuple_GET_ITEM(pair, 0)))
            return false;
        name = PyUnicode_AsUTF8AndSize(PyTuple_GET_ITEM(pair, 0), &name_size);
        size = optional_bytes(PyTuple_GET_ITEM(pair, 1), &content);
        if (name == NULL || size < 0)
            return false;
        put_optional_size(number, PyTuple_GET_ITEM(pair, 1), size);
        libcrypto.update(state, name, (size_t)name_size);
        libcrypto.update(state, number, sizeof number);
        libcrypto.update(state, content, (size_t)size);
    }
    return true;
}

/* seal(kind, key, value, the rest of `amqp.bare`, headers) -> `amqp.bare`, or None: Python makes it, or says why not */
static PyObject *seal(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    _Alignas(16) unsigned char state[SHA256_STATE];
    unsigned char head[SEAL_HEAD], digest[SHA256_SIZE];
    const char *key, *value;
    Py_ssize_t key_size, value_size, rest;
    PyObject *made;
    char *at;
    long kind;
    if (count != 5 || !knows_sha256() || !PyLong_Check(args[0]) || !PyBytes_Check(args[3]) || !PyList_Check(args[4]))
        Py_RETURN_NONE;
    kind = PyLong_AsLong(args[0]);
    key_size = optional_bytes(args[1], &key), value_size = optional_bytes(args[2], &value);
    rest = PyBytes_GET_SIZE(args[3]);
    if (kind < 0 || kind > UINT8_MAX || key_size < 0 || value_size < 0 || key_size > INT32_MAX || value_size > INT32_MAX || rest > INT32_MAX) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    head[0] = (unsigned char)kind;
    put_size(put_optional_size(put_optional_size(head + 1, args[1], key_size), args[2], value_size), (uint32_t)rest);
    libcrypto.init(state);
    libcrypto.update(state, head, sizeof head);
    libcrypto.update(state, key, (size_t)key_size);
    libcrypto.update(state, PyBytes_AS_STRING(args[3]), (size_t)rest);
    if (!hash_headers(state, args[4])) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    libcrypto.update(state, value, (size_t)value_size);
    libcrypto.final(digest, state);
    if ((made = PyBytes_FromStringAndSize(NULL, 1 + SEAL_DIGEST + rest)) == NULL)
        return NULL;
    at = PyBytes_AS_STRING(made);
    *at = (char)kind;
    memcpy(at + 1, digest, SEAL_DIGEST);
    memcpy(at + 1 + SEAL_DIGEST, PyBytes_AS_STRING(args[3]), (size_t)rest);
    return made;
}
