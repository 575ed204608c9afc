/* SHA-256 of the libcrypto that hashlib has loaded; `bind_sha256` of each module that includes this receives the addresses
 * of its functions (gateway/libcrypto.py).
 */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

enum { SHA256_SIZE = 32, SHA256_STATE = 256 }; /* libcrypto's SHA256_CTX has 112 bytes */

static struct {
    int (*init)(void *state);
    int (*update)(void *state, const void *data, size_t size);
    int (*final)(unsigned char *digest, void *state);
} libcrypto;

static bool knows_sha256(void) { return libcrypto.final != NULL; }

/* bind_sha256(addresses of SHA256_Init, SHA256_Update and SHA256_Final, or three zeros) */
static PyObject *bind_sha256(PyObject *module, PyObject *args) {
    unsigned long long init, update, final;
    if (!PyArg_ParseTuple(args, "KKK", &init, &update, &final))
        return NULL;
    libcrypto.init = (int (*)(void *))(uintptr_t)init;
    libcrypto.update = (int (*)(void *, const void *, size_t))(uintptr_t)update;
    libcrypto.final = (int (*)(unsigned char *, void *))(uintptr_t)final;
    Py_RETURN_NONE;
}
