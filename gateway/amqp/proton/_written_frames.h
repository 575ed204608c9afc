/* Inspects the complete frames that proton has written. */

/* largest_frame(data) -> the size of the largest complete frame in the data; skips a protocol header */
static PyObject *largest_frame(PyObject *module, PyObject *data) {
    const uint8_t *at, *end;
    uint32_t size, largest = 0;
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "frames are bytes");
        return NULL;
    }
    at = (const uint8_t *)PyBytes_AS_STRING(data), end = at + PyBytes_GET_SIZE(data);
    if (end - at >= 8 && memcmp(at, "AMQP", 4) == 0)
        at += 8;
    while (end - at >= 8 && (size = frame_size(at)) >= 8 && size <= (size_t)(end - at)) {
        largest = size > largest ? size : largest;
        at += size;
    }
    return PyLong_FromUnsignedLong(largest);
}

/* Read the name and handle of a sender's attach, encoded as proton does it; -1 for anything else. */
static int read_sender_attach(const uint8_t *at, size_t left, const char **name, size_t *length, uint32_t *handle) {
    size_t size;
    if (left < 12 || at[0] != 0 || at[1] != 0x53 || at[2] != 0x12 || (at[3] != 0xC0 && at[3] != 0xD0))
        return -1;
    size = at[3] == 0xC0 ? 6 : 12;
    at += size, left -= size;
    if (left >= 2 && at[0] == 0xA1)
        *length = at[1], size = 2;
    else if (left >= 5 && at[0] == 0xB1)
        *length = frame_size(at + 1), size = 5;
    else
        return -1;
    if (*length > left - size)
        return -1;
    *name = (const char *)at + size;
    at += size + *length, left -= size + *length;
    if ((size = uint_size(at, left)) == 0 || at[0] == 0x40 || size >= left)
        return -1;
    *handle = size == 1 ? 0 : size == 2 ? at[1] : frame_size(at + 1);
    return at[size] == 0x42 || (at[size] == 0x56 && left > size + 1 && at[size + 1] == 0) ? 0 : -1;
}

/* sender_attaches(data) -> (name, handle) of each attach of a sender in the data; skips a protocol header */
static PyObject *sender_attaches(PyObject *module, PyObject *data) {
    const uint8_t *at, *end;
    const char *name;
    size_t length;
    uint32_t size, handle;
    PyObject *item, *all;
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "frames are bytes");
        return NULL;
    }
    if ((all = PyList_New(0)) == NULL)
        return NULL;
    at = (const uint8_t *)PyBytes_AS_STRING(data), end = at + PyBytes_GET_SIZE(data);
    if (end - at >= 8 && memcmp(at, "AMQP", 4) == 0)
        at += 8;
    for (; end - at >= 8 && (size = frame_size(at)) >= 8 && size <= (size_t)(end - at); at += size) {
        if (at[5] != 0 || read_sender_attach(at + 8, size - 8, &name, &length, &handle) < 0)
            continue;
        item = Py_BuildValue("(NI)", PyUnicode_DecodeUTF8(name, (Py_ssize_t)length, "replace"), (unsigned int)handle);
        if (item == NULL || PyList_Append(all, item) < 0) {
            Py_XDECREF(item);
            Py_DECREF(all);
            return NULL;
        }
        Py_DECREF(item);
    }
    return all;
}
