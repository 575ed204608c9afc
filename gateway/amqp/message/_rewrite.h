/* Rewrites a request to another scope in one pass, if its reply-to is known already (gateway/response/rewrite.py).
 *
 * Included by `_sections.c`, behind `_assemble.h`. The result is `...` for a request of another kind and for a malformed one.
 */

enum { MESSAGE_ID = 0, CORRELATION_ID = 5 };

typedef struct {
    const char *data;
    Py_ssize_t size;
} field_span;

/* Read the leading fields, null where absent, and the rest behind them; false: malformed. */
static bool read_leading(list_view *list, field_span fields[LEADING], field_span *rest) {
    Py_ssize_t index, start;
    for (index = 0; index < LEADING; index++) {
        fields[index] = (field_span){"\x40", 1};
        if (index >= list->count)
            continue;
        if ((start = skip_field(list)) < 0)
            return false;
        fields[index] = (field_span){(const char *)list->data + start, list->at - start};
    }
    *rest = (field_span){(const char *)list->data + list->at, list->end - list->at};
    return list->count > LEADING || rest->size == 0;
}

static bool is_null_field(field_span field) { return (uint8_t)field.data[0] == NULL_VALUE; }

/* Whether a field is null or an id (3.2.11 to 3.2.14) that contains no `mark`. */
static bool is_foreign_id(field_span field, PyObject *mark) {
    static const uint8_t forms[] = {NULL_VALUE, 0x80, 0x53, 0x44, 0x98, 0xA0, 0xB0, 0xA1, 0xB1};
    return memchr(forms, (uint8_t)field.data[0], sizeof forms) != NULL &&
           !contains_bytes(field.data, field.data + field.size, mark);
}

static bool ends_with_me(field_span field) {
    return field.size >= 3 && memcmp(field.data + field.size - 3, "$me", 3) == 0;
}

static char *append_span(char *to, const char *from, Py_ssize_t size) {
    memcpy(to, from, (size_t)size);
    return to + size;
}

/* The message with these leading fields in place of its own; NULL with an exception. It has no delivery annotations. */
static PyObject *with_fields(PyObject *data, const Py_ssize_t *starts, const field_span *fields, field_span rest, Py_ssize_t count) {
    Py_ssize_t size = rest.size, last = LEADING, index, head_size, length = PyBytes_GET_SIZE(data);
    uint8_t head[12];
    PyObject *made;
    char *to;
    if (count < LEADING) {
        while (last > count && is_null_field(fields[last - 1]))
            last--;
        count = last;
    }
    for (index = 0; index < last; index++)
        size += fields[index].size;
    if (size > UINT32_MAX - 4 || count > (size < 255 ? UINT8_MAX : UINT32_MAX))
        return not_supported();
    head_size = write_properties_head(head, (size_t)size, (size_t)count);
    made = PyBytes_FromStringAndSize(NULL, starts[BARE] + head_size + size + length - starts[APPLICATION]);
    if (made == NULL)
        return NULL;
    to = append_span(PyBytes_AS_STRING(made), PyBytes_AS_STRING(data), starts[BARE]);
    to = append_span(to, (const char *)head, head_size);
    for (index = 0; index < last; index++)
        to = append_span(to, fields[index].data, fields[index].size);
    to = append_span(to, rest.data, rest.size);
    append_span(to, PyBytes_AS_STRING(data) + starts[APPLICATION], length - starts[APPLICATION]);
    return made;
}

/* The request with another reply-to, and the message-id that `mint` makes of its own. */
static PyObject *readdressed(PyObject *data, const Py_ssize_t *starts, list_view *list, field_span *fields, field_span rest,
                             PyObject *address, PyObject *mint) {
    PyObject *own = PyBytes_FromStringAndSize(fields[MESSAGE_ID].data, fields[MESSAGE_ID].size), *minted, *made;
    minted = own == NULL ? NULL : PyObject_CallOneArg(mint, own);
    Py_XDECREF(own);
    if (minted == NULL)
        return NULL;
    if (!PyBytes_Check(minted)) {
        Py_DECREF(minted);
        return not_supported();
    }
    fields[MESSAGE_ID] = (field_span){PyBytes_AS_STRING(minted), PyBytes_GET_SIZE(minted)};
    fields[REPLY_TO] = (field_span){PyBytes_AS_STRING(address), PyBytes_GET_SIZE(address)};
    made = with_fields(data, starts, fields, rest, list->count);
    Py_DECREF(minted);
    return made;
}

/* rewrite_request(data, addresses by encoded reply-to, mark of ids of ours, mint) -> the request with the address for its
 * reply-to and a minted id; as it is without a reply-to; or ... if its reply-to is not known, or it needs a look */
static PyObject *rewrite_request(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t starts[SECTIONS];
    field_span fields[LEADING], rest;
    list_view list;
    PyObject *address, *made;
    int usual = parse_boundary_args(args, count == 4 && PyBytes_Check(args[2]), starts);
    if (usual <= 0 || starts[ANNOTATIONS] != starts[MESSAGE])
        return usual < 0 ? NULL : not_supported();
    if (starts[BARE] == starts[APPLICATION])
        return Py_NewRef(args[0]);
    if (!open_properties(args[0], starts[BARE], &list) || !read_leading(&list, fields, &rest) ||
        !is_foreign_id(fields[CORRELATION_ID], args[2]))
        return not_supported();
    if (is_null_field(fields[REPLY_TO]))
        return Py_NewRef(args[0]);
    if (!is_foreign_id(fields[MESSAGE_ID], args[2]) || ends_with_me(fields[REPLY_TO]))
        return not_supported();
    address = look_up(args[1], PyBytes_FromStringAndSize(fields[REPLY_TO].data, fields[REPLY_TO].size));
    if (address == NULL || !PyBytes_Check(address))
        return PyErr_Occurred() ? NULL : not_supported();
    Py_INCREF(address); /* `mint` may run any code */
    made = readdressed(args[0], starts, &list, fields, rest, address, args[3]);
    Py_DECREF(address);
    return made;
}
