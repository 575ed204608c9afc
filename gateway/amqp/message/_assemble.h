/* Builds a message with other annotations and properties in one copy, from the fields that `leading_fields` has returned.
 *
 * Included by `_sections.c`. The result is `...` for arguments that do not have this form.
 */

/* Append one buffer. */
static char *append_bytes(char *to, PyObject *from, Py_ssize_t start, Py_ssize_t end) {
    memcpy(to, PyBytes_AS_STRING(from) + start, (size_t)(end - start));
    return to + (end - start);
}

/* Write the head of a properties section with this number and size of fields; returns the size of the head. */
static Py_ssize_t write_properties_head(uint8_t *head, size_t size, size_t fields) {
    static const uint8_t descriptor[] = {0x00, 0x53, 0x73};
    int shift;
    memcpy(head, descriptor, sizeof descriptor);
    if (size < 255) {
        head[3] = 0xC0, head[4] = (uint8_t)(size + 1), head[5] = (uint8_t)fields;
        return 6;
    }
    head[3] = 0xD0;
    for (shift = 0; shift < 4; shift++) {
        head[4 + shift] = (uint8_t)((size + 4) >> (24 - 8 * shift));
        head[8 + shift] = (uint8_t)(fields >> (24 - 8 * shift));
    }
    return 12;
}

/* Where a section starts according to the layout; -1: the layout is not valid. */
static Py_ssize_t section_start(PyObject *layout, Py_ssize_t index) {
    PyObject *place = PyTuple_GET_ITEM(layout, index);
    Py_ssize_t start = PyLong_Check(place) ? PyLong_AsSsize_t(place) : -1;
    PyErr_Clear();
    return start;
}

static bool is_null(PyObject *item) {
    return PyBytes_GET_SIZE(item) == 1 && PyBytes_AS_STRING(item)[0] == NULL_VALUE;
}

/* Whether these are leading fields as `leading_fields` returns them; adds up their bytes in `size`. */
static bool check_leading(PyObject *leading, Py_ssize_t *size) {
    Py_ssize_t index;
    *size = 0;
    for (index = 0; index < LEADING; index++) {
        PyObject *item = PyList_GET_ITEM(leading, index);
        if (!PyBytes_Check(item) || PyBytes_GET_SIZE(item) == 0)
            return false;
        *size += PyBytes_GET_SIZE(item);
    }
    return true;
}

/* assemble(data, layout, annotations, (leading fields, rest, count)) -> the message with these annotations and
 * properties, with no more trailing nulls than before; or ... */
static PyObject *assemble(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    PyObject *data, *leading, *rest, *number, *made;
    Py_ssize_t da, ma, start, app, fields, last = LEADING, size, index, head_size;
    uint8_t head[12];
    char *to;
    if (count != 4 || !PyBytes_Check(args[0]) || !PyTuple_Check(args[1]) || PyTuple_GET_SIZE(args[1]) != SECTIONS + 2 ||
        !PyBytes_Check(args[2]) || !PyTuple_Check(args[3]) || PyTuple_GET_SIZE(args[3]) != 3)
        return not_supported();
    data = args[0];
    leading = PyTuple_GET_ITEM(args[3], 0), rest = PyTuple_GET_ITEM(args[3], 1), number = PyTuple_GET_ITEM(args[3], 2);
    if (!PyList_Check(leading) || PyList_GET_SIZE(leading) != LEADING || !PyBytes_Check(rest) || !PyLong_Check(number) ||
        !check_leading(leading, &size))
        return not_supported();
    da = section_start(args[1], ANNOTATIONS), ma = section_start(args[1], MESSAGE);
    start = section_start(args[1], BARE + 1), app = section_start(args[1], APPLICATION + 1);
    fields = PyLong_AsSsize_t(number);
    PyErr_Clear();
    if (da < 0 || ma < da || start < ma || app < start || app > PyBytes_GET_SIZE(data) || fields < 0)
        return not_supported();
    if (fields < LEADING) {
        while (last > fields && is_null(PyList_GET_ITEM(leading, last - 1))) {
            last--;
            size--;
        }
        fields = last;
    }
    size += PyBytes_GET_SIZE(rest);
    if (size > UINT32_MAX - 4 || fields > (size < 255 ? UINT8_MAX : UINT32_MAX))
        return not_supported();
    head_size = write_properties_head(head, (size_t)size, (size_t)fields);
    made = PyBytes_FromStringAndSize(
        NULL, da + PyBytes_GET_SIZE(args[2]) + start - ma + head_size + size + PyBytes_GET_SIZE(data) - app);
    if (made == NULL)
        return NULL;
    to = append_bytes(PyBytes_AS_STRING(made), data, 0, da);
    to = append_bytes(to, args[2], 0, PyBytes_GET_SIZE(args[2]));
    to = append_bytes(to, data, ma, start);
    memcpy(to, head, (size_t)head_size);
    to += head_size;
    for (index = 0; index < last; index++)
        to = append_bytes(to, PyList_GET_ITEM(leading, index), 0, PyBytes_GET_SIZE(PyList_GET_ITEM(leading, index)));
    to = append_bytes(to, rest, 0, PyBytes_GET_SIZE(rest));
    append_bytes(to, data, app, PyBytes_GET_SIZE(data));
    return made;
}
