/* States of transfers and dispositions in transactions (part 4, 4.5.6), for many deliveries at a time.
 *
 * The messages of a transaction come in runs with the same state, and their outcomes have the same one, too. Here a
 * state is encoded bytes: the fields of a transactional-state.
 */
#define TRANSACTIONAL 0x34
#define STATE_ROOM 256 /* bytes of a usual state */

/* The state with which a delivery came, as bytes; `None`: it came with another one, or none. NULL: an exception. */
static PyObject *state_of(pointer delivery, char *room, size_t *size) {
    pointer data;
    PyObject *raw;
    ssize_t length;
    *size = 0;
    if (pn.remote_state(delivery) != TRANSACTIONAL)
        return Py_NewRef(Py_None);
    if ((data = pn.state_data(pn.remote(delivery))) == NULL)
        return PyBytes_FromStringAndSize(NULL, 0);
    if ((length = pn.encode(data, room, STATE_ROOM)) >= 0) {
        *size = (size_t)length;
        return PyBytes_FromStringAndSize(room, length);
    }
    if ((length = pn.encoded_size(data)) < 0)
        return PyBytes_FromStringAndSize(NULL, 0);
    if ((raw = PyBytes_FromStringAndSize(NULL, length)) == NULL)
        return NULL;
    if (pn.encode(data, PyBytes_AS_STRING(raw), (size_t)length) == length)
        return raw;
    Py_DECREF(raw);
    return PyBytes_FromStringAndSize(NULL, 0);
}

/* Whether a delivery came with this state; `size` is 0 for one that does not fit, which is the same as no other. */
static bool has_state(pointer delivery, const char *state, size_t size) {
    char room[STATE_ROOM];
    pointer data;
    if (pn.remote_state(delivery) != TRANSACTIONAL)
        return state == NULL;
    return state != NULL && size > 0 && (data = pn.state_data(pn.remote(delivery))) != NULL &&
           pn.encode(data, room, sizeof room) == (ssize_t)size && memcmp(room, state, size) == 0;
}

static pointer delivery_of_item(PyObject *item) {
    pointer delivery = NULL;
    if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 3)
        PyErr_SetString(PyExc_TypeError, "a message is a tuple of delivery, bytes and whether it is settled");
    else if ((delivery = PyLong_AsVoidPtr(PyTuple_GET_ITEM(item, 0))) == NULL)
        no_delivery();
    return delivery;
}

/* same_state(messages, start, all=False) -> the end of the messages from `start` on that came with the same state, and that
 * state: the fields of a transactional-state; None: any other, or none. `all`: it is known that all came with the same. */
static PyObject *same_state(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    char room[STATE_ROOM];
    Py_ssize_t index;
    PyObject *messages, *state;
    pointer delivery;
    size_t size;
    bool all = count == 3 && args[2] == Py_True;
    if (!check_count("same_state", count, count == 3 ? 3 : 2))
        return NULL;
    messages = args[0], index = PyLong_AsSsize_t(args[1]);
    if (PyErr_Occurred())
        return NULL;
    if (!PyList_Check(messages) || index < 0 || index >= PyList_GET_SIZE(messages)) {
        PyErr_SetString(PyExc_TypeError, "expected a list and a place in it");
        return NULL;
    }
    if ((delivery = delivery_of_item(PyList_GET_ITEM(messages, index))) == NULL || (state = state_of(delivery, room, &size)) == NULL)
        return NULL;
    for (index = all ? PyList_GET_SIZE(messages) : index + 1; index < PyList_GET_SIZE(messages); index++) {
        if ((delivery = delivery_of_item(PyList_GET_ITEM(messages, index))) == NULL) {
            Py_DECREF(state);
            return NULL;
        }
        if (!has_state(delivery, state == Py_None ? NULL : room, size))
            break;
    }
    return Py_BuildValue("(nN)", index, state);
}

/* settle_all(deliveries, received, state, fields) -> None: settle deliveries with this state, whose fields are encoded */
static PyObject *settle_all(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t index;
    uint64_t state;
    pointer delivery, data;
    PyObject *fields;
    if (!check_count("settle_all", count, 4))
        return NULL;
    state = PyLong_AsUnsignedLongLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    fields = args[3];
    if (!PyList_Check(args[0]) || Py_TYPE(args[1]) != &received_type || !PyBytes_Check(fields)) {
        PyErr_SetString(PyExc_TypeError, "expected a list, `Received`, a number and bytes");
        return NULL;
    }
    for (index = 0; index < PyList_GET_SIZE(args[0]); index++) {
        delivery = PyLong_AsVoidPtr(PyList_GET_ITEM(args[0], index));
        if (delivery == NULL)
            return no_delivery();
        remove_delivery((Received *)args[1], delivery);
        data = pn.state_data(pn.local(delivery));
        pn.clear(data);
        pn.decode(data, PyBytes_AS_STRING(fields), (size_t)PyBytes_GET_SIZE(fields));
        pn.update(delivery, state);
        pn.settle(delivery);
    }
    Py_RETURN_NONE;
}
