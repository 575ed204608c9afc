/* Inspects and changes the complete frames that proton has written. */

typedef struct {
    uint8_t head[8];
    size_t known;            /* bytes of the head */
    uint32_t size, left;     /* of the frame, and what has not come of it behind its head */
    uint32_t largest;
    bool begun, broken;      /* something has come; it is no sequence of frames from here on */
} frame_walk; /* through frames that come in pieces */

static void end_head(frame_walk *walk) {
    bool header = !walk->begun && memcmp(walk->head, "AMQP", 4) == 0;
    walk->begun = true;
    walk->known = 0;
    if (header)
        return;
    walk->size = frame_size(walk->head);
    walk->broken = walk->size < sizeof walk->head;
    walk->left = walk->size - (uint32_t)sizeof walk->head;
    if (walk->left == 0 && walk->size > walk->largest)
        walk->largest = walk->size;
}

/* Walk through the next piece: heads, and what is between them. */
static void walk_piece(frame_walk *walk, const uint8_t *at, size_t count) {
    size_t step;
    while (count > 0 && !walk->broken) {
        if (walk->left > 0) {
            step = walk->left < count ? walk->left : count;
            walk->left -= (uint32_t)step;
            if (walk->left == 0 && walk->size > walk->largest)
                walk->largest = walk->size;
        } else {
            step = sizeof walk->head - walk->known < count ? sizeof walk->head - walk->known : count;
            memcpy(walk->head + walk->known, at, step);
            walk->known += step;
            if (walk->known == sizeof walk->head)
                end_head(walk);
        }
        at += step, count -= step;
    }
}

/* largest_frame(pieces) -> the size of the largest complete frame in the pieces, which may end within a frame; skips a
 * protocol header */
static PyObject *largest_frame(PyObject *module, PyObject *pieces) {
    frame_walk walk = {.known = 0};
    Py_ssize_t index;
    PyObject *piece;
    for (index = 0; PyList_Check(pieces) && index < PyList_GET_SIZE(pieces); index++) {
        if (!PyBytes_Check(piece = PyList_GET_ITEM(pieces, index)))
            break;
        walk_piece(&walk, (const uint8_t *)PyBytes_AS_STRING(piece), (size_t)PyBytes_GET_SIZE(piece));
    }
    if (PyList_Check(pieces) && index == PyList_GET_SIZE(pieces))
        return PyLong_FromUnsignedLong(walk.largest);
    PyErr_SetString(PyExc_TypeError, "frames are a list of bytes");
    return NULL;
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

/* The size of a boolean, uint or null; 0 for any other type. */
static size_t simple_size(const uint8_t *at, size_t left) {
    size_t size = uint_size(at, left);
    return size != 0 ? size : boolean_size(at, left);
}

/* Where the state `accepted` begins in a disposition, whose list begins at `at`, and its first field at `*fields`; NULL:
 * it has another state, or none. */
static const uint8_t *accepted_state(const uint8_t *at, const uint8_t *end, const uint8_t **fields) {
    static const uint8_t accepted[] = {0, 0x53, ACCEPTED};
    size_t size = end - at < 3 || (at[0] != 0xC0 && at[0] != 0xD0) ? 0 : at[0] == 0xC0 ? 3 : 9;
    int field;
    if (size == 0 || (size_t)(end - at) < size || at[size - 1] != 5)
        return NULL;
    *fields = at += size;
    for (field = 0; field < 4; field++, at += size) /* role, first, last, settled */
        if ((size = simple_size(at, (size_t)(end - at))) == 0)
            return NULL;
    return (size_t)(end - at) > sizeof accepted && memcmp(at, accepted, sizeof accepted) == 0 ? at : NULL;
}

static uint8_t *put_u32(uint8_t *at, size_t value) {
    at[0] = (uint8_t)(value >> 24), at[1] = (uint8_t)(value >> 16), at[2] = (uint8_t)(value >> 8), at[3] = (uint8_t)value;
    return at + 4;
}

#define RESTATED 32 /* more bytes than a disposition has without its fields */

/* Write a disposition with other fields than those of `frame`: some of its own, and a state. */
static uint8_t *put_disposition(uint8_t *to, const uint8_t *frame, const uint8_t *fields, size_t size, PyObject *state) {
    size_t state_bytes = (size_t)PyBytes_GET_SIZE(state), items = size + state_bytes;
    bool wide = items > 254;
    to = put_u32(to, 11 + (wide ? 9 : 3) + items);
    memcpy(to, frame + 4, 7); /* the rest of the frame's header, and the descriptor */
    to += 7;
    *to++ = wide ? 0xD0 : 0xC0;
    if (wide)
        to = put_u32(put_u32(to, items + 4), 5);
    else
        *to++ = (uint8_t)(items + 1), *to++ = 5;
    memcpy(to, fields, size);
    memcpy(to + size, PyBytes_AS_STRING(state), state_bytes);
    return to + items;
}

static bool is_disposition(const uint8_t *frame, size_t size) {
    return size >= 11 && frame[4] == 2 && frame[5] == 0 && frame[8] == 0 && frame[9] == 0x53 && frame[10] == 0x15;
}

/* How many dispositions are in the data; -1: it is no sequence of whole frames. */
static Py_ssize_t count_dispositions(const uint8_t *at, const uint8_t *end) {
    Py_ssize_t found = 0;
    size_t size;
    for (; at < end; at += size) {
        if (end - at < 8 || (size = frame_size(at)) < 8 || size > (size_t)(end - at))
            return -1;
        found += is_disposition(at, size);
    }
    return found;
}

/* restated(data, state) -> the frames with this state, described and encoded, in place of each `accepted`; a disposition of
 * any other state must not be among them */
static PyObject *restated(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    const uint8_t *at, *end, *fields, *state;
    uint8_t *to;
    size_t size;
    Py_ssize_t dispositions;
    PyObject *made;
    if (!check_count("restated", count, 2))
        return NULL;
    if (!PyBytes_Check(args[0]) || !PyBytes_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "frames and a state are bytes");
        return NULL;
    }
    at = (const uint8_t *)PyBytes_AS_STRING(args[0]), end = at + PyBytes_GET_SIZE(args[0]);
    dispositions = count_dispositions(at, end);
    made = dispositions < 0 ? NULL : PyBytes_FromStringAndSize(NULL, (end - at) + dispositions * (PyBytes_GET_SIZE(args[1]) + RESTATED));
    if (dispositions >= 0 && made == NULL)
        return NULL;
    for (to = made == NULL ? NULL : (uint8_t *)PyBytes_AS_STRING(made); to != NULL && at < end; at += size) {
        size = frame_size(at);
        if (!is_disposition(at, size)) {
            memcpy(to, at, size);
            to += size;
        } else if ((state = accepted_state(at + 11, at + size, &fields)) != NULL)
            to = put_disposition(to, at, fields, (size_t)(state - fields), args[1]);
        else
            to = NULL;
    }
    if (to != NULL) {
        _PyBytes_Resize(&made, (char *)to - PyBytes_AS_STRING(made));
        return made;
    }
    Py_XDECREF(made);
    PyErr_SetString(PyExc_ValueError, "these frames are not those of accepted messages");
    return NULL;
}
