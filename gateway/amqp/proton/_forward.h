/* Sends the messages of one link on another one, many in one call.
 *
 * Included by `_batch.c`, behind `send_message`.
 */

/* The bytes to send for a message: its own, or those in its place. NULL with an exception: it is no message. */
static PyObject *bytes_to_send(PyObject *item, PyObject *changed, Py_ssize_t index) {
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 3) {
        PyErr_SetString(PyExc_TypeError, "a message is a tuple of delivery, bytes and whether it is settled");
        return NULL;
    }
    return changed == Py_None ? PyTuple_GET_ITEM(item, 1) : PyList_GET_ITEM(changed, index);
}

/* Send one message; its context is a tuple of its origin and its delivery there. */
static int forward_message(pointer link, uint64_t number, PyObject *item, PyObject *data, const counters *into, PyObject *origin) {
    PyObject *context = PyTuple_Pack(2, origin, PyTuple_GET_ITEM(item, 0));
    int result = context == NULL ? -1 : send_message(link, number, data, into, context);
    Py_XDECREF(context);
    return result;
}

/* Send messages from index `start` up to `end`, or to the first settled one; `changed`: what to send in place of them, from
 * that of `start` on.
 *
 * forward(link, number of the last delivery, messages, start, end, changed or None, unsettled, origin) -> number of the last
 * delivery */
static PyObject *forward(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t index, start, end;
    uint64_t number;
    pointer link;
    PyObject *messages, *changed, *item, *data;
    counters into;
    if (!check_count("forward", count, 8) || !parse_counters(args[6], &into))
        return NULL;
    link = PyLong_AsVoidPtr(args[0]);
    number = PyLong_AsUnsignedLongLong(args[1]);
    messages = args[2], changed = args[5];
    start = PyLong_AsSsize_t(args[3]), end = PyLong_AsSsize_t(args[4]);
    if (PyErr_Occurred())
        return NULL;
    if (into.unsettled == NULL || !PyList_Check(messages) || (changed != Py_None && !PyList_Check(changed)) || start < 0 ||
        end < start || end > PyList_GET_SIZE(messages) || (changed != Py_None && PyList_GET_SIZE(changed) < end - start)) {
        PyErr_SetString(PyExc_TypeError, "expected messages, a range of them, perhaps bytes for each, and `Unsettled`");
        return NULL;
    }
    for (index = start; index < end; index++) {
        item = PyList_GET_ITEM(messages, index);
        if ((data = bytes_to_send(item, changed, index - start)) == NULL)
            return NULL;
        if (PyTuple_GET_ITEM(item, 2) != Py_False)
            break;
        if (forward_message(link, number + 1, item, data, &into, args[7]) < 0)
            return NULL;
        number++;
    }
    return PyLong_FromUnsignedLongLong(number);
}
