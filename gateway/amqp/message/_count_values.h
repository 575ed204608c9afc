/* The number of values from `at` to `end`, including nested ones, counted up to one more than `most`.
 *
 * Compounds are not skipped but entered: their items follow the count as further values. Nothing is validated: the
 * count stops at bytes that are not AMQP, and the decoder reports the error.
 */
static Py_ssize_t count_between(const uint8_t *data, Py_ssize_t at, Py_ssize_t end, Py_ssize_t most) {
    static const uint8_t widths[16] = {1, 0, 0, 0, 1, 2, 3, 5, 9, 17, 2, 5, 3, 9, 2, 5}; /* by a constructor's upper half */
    Py_ssize_t found = 0, count;
    while (at < end && found <= most) {
        const uint8_t *value = data + at;
        int form = value[0] >> 4;
        at += widths[form];
        if (widths[form] == 0 || at > end)
            break;
        found += form != 0; /* the descriptor follows, and then the described value */
        if (form == 0xA || form == 0xE)
            at += value[1];
        else if (form == 0xB || form == 0xF)
            at += (Py_ssize_t)value[1] << 24 | value[2] << 16 | value[3] << 8 | value[4];
        if (form < 0xE)
            continue;
        count = 0; /* of an array, which has one constructor for all its items */
        if (form == 0xE && value + 2 < data + end)
            count = value[2];
        else if (form == 0xF && value + 8 < data + end)
            count = (Py_ssize_t)value[5] << 24 | value[6] << 16 | value[7] << 8 | value[8];
        found += count;
    }
    return found <= most ? found : most + 1;
}

/* count_values(data, start, end, most) */
static PyObject *count_values(PyObject *module, PyObject *args) {
    PyObject *data;
    Py_ssize_t start, end, most;
    if (!PyArg_ParseTuple(args, "Snnn", &data, &start, &end, &most))
        return NULL;
    if (start < 0 || end > PyBytes_GET_SIZE(data)) {
        PyErr_SetString(PyExc_ValueError, "that is no part of the message");
        return NULL;
    }
    return PyLong_FromSsize_t(count_between((const uint8_t *)PyBytes_AS_STRING(data), start, end, most));
}
