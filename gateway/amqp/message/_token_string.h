/* Encodes the string of an address or id that contains a token: base64url without padding (`cookie.to_url` is the
 * general form).
 *
 * Included by `_sections.c`.
 */

/* Encode several buffers as if they were one. */
static void encode_url(char *to, const uint8_t *const *pieces, const Py_ssize_t *sizes, int count) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    int piece, have = 0;
    Py_ssize_t at;
    for (piece = 0; piece < count; piece++)
        for (at = 0; at < sizes[piece]; at++) {
            bits = bits << 8 | pieces[piece][at];
            for (have += 8; have >= 6; have -= 6)
                *to++ = alphabet[bits >> (have - 6) & 63];
        }
    if (have > 0)
        *to = alphabet[bits << (6 - have) & 63];
}

/* The encoded string of `prefix` and the base64url of the pieces. */
static PyObject *token_string(PyObject *prefix, const uint8_t *const *pieces, const Py_ssize_t *sizes, int count) {
    Py_ssize_t size = PyBytes_GET_SIZE(prefix), bytes = 0;
    PyObject *made;
    uint8_t *to;
    int index, shift;
    for (index = 0; index < count; index++)
        bytes += sizes[index] > INT32_MAX / 8 ? INT32_MAX / 8 : sizes[index];
    size += (8 * bytes + 5) / 6;
    if (bytes >= INT32_MAX / 8 || size > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "the token is too long");
        return NULL;
    }
    if ((made = PyBytes_FromStringAndSize(NULL, size + (size < 256 ? 2 : 5))) == NULL)
        return NULL;
    to = (uint8_t *)PyBytes_AS_STRING(made);
    *to++ = size < 256 ? 0xA1 : 0xB1;
    for (shift = size < 256 ? 0 : 24; shift >= 0; shift -= 8)
        *to++ = (uint8_t)(size >> shift);
    memcpy(to, PyBytes_AS_STRING(prefix), (size_t)PyBytes_GET_SIZE(prefix));
    encode_url((char *)to + PyBytes_GET_SIZE(prefix), pieces, sizes, count);
    return made;
}

/* encode_token_string(prefix, token, mac, bytes of the MAC to use) -> the encoded string `prefix` + base64url(token + MAC) */
static PyObject *encode_token_string(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    const uint8_t *pieces[2];
    Py_ssize_t sizes[2];
    if (count != 4 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1]) || !PyBytes_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "expected a prefix, a token, a MAC and a number");
        return NULL;
    }
    sizes[0] = PyBytes_GET_SIZE(args[1]), sizes[1] = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (sizes[1] < 0 || sizes[1] > PyBytes_GET_SIZE(args[2])) {
        PyErr_SetString(PyExc_ValueError, "the MAC has fewer bytes");
        return NULL;
    }
    pieces[0] = (const uint8_t *)PyBytes_AS_STRING(args[1]), pieces[1] = (const uint8_t *)PyBytes_AS_STRING(args[2]);
    return token_string(args[0], pieces, sizes, 2);
}
