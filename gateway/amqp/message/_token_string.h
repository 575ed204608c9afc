/* Encodes the string of an address or id that contains a token: base64url without padding (`cookie.to_url` is the
 * general form).
 *
 * Included by `_sections.c`.
 */

/* Encode two buffers as if they were one. */
static void encode_url(char *to, const uint8_t *const pieces[2], const Py_ssize_t sizes[2]) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t bits = 0;
    int piece, have = 0;
    Py_ssize_t at;
    for (piece = 0; piece < 2; piece++)
        for (at = 0; at < sizes[piece]; at++) {
            bits = bits << 8 | pieces[piece][at];
            for (have += 8; have >= 6; have -= 6)
                *to++ = alphabet[bits >> (have - 6) & 63];
        }
    if (have > 0)
        *to = alphabet[bits << (6 - have) & 63];
}

/* encode_token_string(prefix, token, mac, bytes of the MAC to use) -> the encoded string `prefix` + base64url(token + MAC) */
static PyObject *encode_token_string(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    const uint8_t *pieces[2];
    Py_ssize_t sizes[2], prefix, size;
    PyObject *made;
    uint8_t *to;
    int shift;
    if (count != 4 || !PyBytes_Check(args[0]) || !PyBytes_Check(args[1]) || !PyBytes_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "expected a prefix, a token, a MAC and a number");
        return NULL;
    }
    sizes[0] = PyBytes_GET_SIZE(args[1]), sizes[1] = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (sizes[1] < 0 || sizes[1] > PyBytes_GET_SIZE(args[2]) || sizes[0] > INT32_MAX / 2 || sizes[1] > INT32_MAX / 4) {
        PyErr_SetString(PyExc_ValueError, "the MAC has fewer bytes, or the token is too long");
        return NULL;
    }
    pieces[0] = (const uint8_t *)PyBytes_AS_STRING(args[1]), pieces[1] = (const uint8_t *)PyBytes_AS_STRING(args[2]);
    prefix = PyBytes_GET_SIZE(args[0]);
    size = prefix + (8 * (sizes[0] + sizes[1]) + 5) / 6;
    if ((made = PyBytes_FromStringAndSize(NULL, size + (size < 256 ? 2 : 5))) == NULL)
        return NULL;
    to = (uint8_t *)PyBytes_AS_STRING(made);
    *to++ = size < 256 ? 0xA1 : 0xB1;
    for (shift = size < 256 ? 0 : 24; shift >= 0; shift -= 8)
        *to++ = (uint8_t)(size >> shift);
    memcpy(to, PyBytes_AS_STRING(args[0]), (size_t)prefix);
    encode_url((char *)to + prefix, pieces, sizes);
    return made;
}
