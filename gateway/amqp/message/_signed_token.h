/* Makes the string of an id or address with a token and its MAC in one call (gateway/response/message_id.py).
 *
 * Included by `_sections.c`, behind `_token_string.h`. The MAC is HMAC-SHA-256 (RFC 2104) with libcrypto's SHA-256; a key is
 * given as the two states that have processed it, as a copy of these leaves only the token to hash.
 */

#include "_libcrypto.h"

enum { SHA256_BLOCK = 64, INNER = 0x36, OUTER = 0x5C, NUMBER = 8 };

static void begin_mac(uint8_t *state, const uint8_t *key, size_t size, int pad) {
    uint8_t block[SHA256_BLOCK];
    size_t index;
    for (index = 0; index < sizeof block; index++)
        block[index] = (uint8_t)((index < size ? key[index] : 0) ^ pad);
    memset(state, 0, SHA256_STATE);
    libcrypto.init(state);
    libcrypto.update(state, block, sizeof block);
}

/* mac_states(key of at most 64 bytes) -> what `signed_token_string` takes, or None without libcrypto */
static PyObject *mac_states(PyObject *module, PyObject *key) {
    _Alignas(16) uint8_t states[2 * SHA256_STATE];
    if (!PyBytes_Check(key) || PyBytes_GET_SIZE(key) > SHA256_BLOCK) {
        PyErr_SetString(PyExc_TypeError, "a key is at most 64 bytes");
        return NULL;
    }
    if (!knows_sha256())
        Py_RETURN_NONE;
    begin_mac(states, (const uint8_t *)PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key), INNER);
    begin_mac(states + SHA256_STATE, (const uint8_t *)PyBytes_AS_STRING(key), (size_t)PyBytes_GET_SIZE(key), OUTER);
    return PyBytes_FromStringAndSize((const char *)states, sizeof states);
}

static void make_mac(const char *states, const uint8_t *const *pieces, const Py_ssize_t *sizes, int count, uint8_t *mac) {
    _Alignas(16) uint8_t inner[SHA256_STATE], outer[SHA256_STATE];
    int piece;
    memcpy(inner, states, sizeof inner);
    memcpy(outer, states + SHA256_STATE, sizeof outer);
    for (piece = 0; piece < count; piece++)
        libcrypto.update(inner, pieces[piece], (size_t)sizes[piece]);
    libcrypto.final(mac, inner);
    libcrypto.update(outer, mac, SHA256_SIZE);
    libcrypto.final(mac, outer);
}

/* signed_token_string(mark, prefix, number, rest, bytes of the MAC to use, states) -> the encoded string of `mark` and the
 * base64url of prefix, number (of eight bytes), rest and MAC */
static PyObject *signed_token_string(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    const uint8_t *pieces[4];
    uint8_t number[NUMBER], mac[SHA256_SIZE];
    Py_ssize_t sizes[4], used;
    uint64_t value;
    int at;
    if (count != 6 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1]) || !PyBytes_Check(args[3]) ||
        !PyBytes_Check(args[5]) || PyBytes_GET_SIZE(args[5]) != 2 * SHA256_STATE || !knows_sha256()) {
        PyErr_SetString(PyExc_TypeError, "expected a mark, a prefix, a number, bytes, a size and the states of a MAC");
        return NULL;
    }
    value = PyLong_AsUnsignedLongLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    used = PyLong_AsSsize_t(args[4]);
    if (PyErr_Occurred())
        return NULL;
    if (used < 0 || used > SHA256_SIZE) {
        PyErr_SetString(PyExc_ValueError, "the MAC has fewer bytes");
        return NULL;
    }
    for (at = 0; at < NUMBER; at++)
        number[at] = (uint8_t)(value >> 8 * (NUMBER - 1 - at));
    pieces[0] = (const uint8_t *)PyBytes_AS_STRING(args[1]), sizes[0] = PyBytes_GET_SIZE(args[1]);
    pieces[1] = number, sizes[1] = NUMBER;
    pieces[2] = (const uint8_t *)PyBytes_AS_STRING(args[3]), sizes[2] = PyBytes_GET_SIZE(args[3]);
    pieces[3] = mac, sizes[3] = used;
    make_mac(PyBytes_AS_STRING(args[5]), pieces, sizes, 3, mac);
    return token_string(args[0], pieces, sizes, 4);
}
