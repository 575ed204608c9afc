/* Whether a transfer among a peer's bytes has another message-format than 0 or is resumed (part 2, 2.7.5); proton shows
 * neither.
 *
 * Called for all bytes that come, in pieces of any size, so it does no more than to step from frame to frame and to look
 * at the first fields of each transfer. A head that is not of the usual forms counts as another format: whoever asked
 * looks closely then. */
#define HEAD 80 /* of a usual transfer: frame header 8, descriptor 3, list 9, handle 5, id 5, tag 34, format 5, flags 7 */

typedef struct {
    uint32_t skip;    /* bytes of the current frame that are still to come and need no look */
    uint16_t held;    /* bytes of a head that is not complete */
    uint16_t started; /* the protocol header is behind */
    uint8_t head[HEAD];
} format_state;

/* The bytes that an unsigned integer or null takes here, 0 where it is something else. */
static size_t field(const uint8_t *at, size_t left) {
    size_t size;
    if (left == 0)
        return 0;
    size = at[0] == 0x43 || at[0] == 0x40 ? 1 : at[0] == 0x52 ? 2 : at[0] == 0x70 ? 5 : 0;
    return size <= left ? size : 0;
}

/* Whether the fields behind the message-format say that the transfer is resumed, or cannot be read here: settled, more,
 * rcv-settle-mode, state (any is unusual), resume. */
static bool odd_flags(const uint8_t *at, size_t left, size_t count) {
    size_t index, size;
    for (index = 0; index < 5 && index < count; index++) {
        if (left == 0)
            return true;
        size = at[0] == 0x40 || (index != 3 && (at[0] == 0x42 || (at[0] == 0x41 && index != 4))) ? 1
               : (at[0] == 0x56 && index < 2) || (at[0] == 0x50 && index == 2)                   ? 2
                                                                                                 : 0;
        if (size == 0 || size > left)
            return true;
        at += size, left -= size;
    }
    return false;
}

/* Whether the fields of a transfer show another format than 0, or cannot be read here. */
static bool odd_fields(const uint8_t *at, size_t left) {
    size_t size, count, index;
    if (left >= 1 && at[0] == 0x45)
        return false;
    if (left >= 3 && at[0] == 0xC0)
        count = at[2], size = 3;
    else if (left >= 9 && at[0] == 0xD0 && !at[5] && !at[6] && !at[7])
        count = at[8], size = 9;
    else
        return true;
    at += size, left -= size;
    for (index = 0; index < 2 && index < count; index++) {
        if ((size = field(at, left)) == 0)
            return true;
        at += size, left -= size;
    }
    if (count < 4)
        return false;
    if (left >= 2 && at[0] == 0xA0)
        size = 2 + (size_t)at[1];
    else if ((size = left >= 1 && at[0] == 0x40) == 0)
        return true;
    if (size > left)
        return true;
    at += size, left -= size;
    if ((size = field(at, left)) == 0)
        return true;
    if (!(size == 1 || (size == 2 && at[1] == 0) || (size == 5 && !at[1] && !at[2] && !at[3] && !at[4])))
        return true;
    return odd_flags(at + size, left - size, count - 4);
}

/* Whether a frame that begins with these bytes is a transfer to be looked at. */
static bool odd_frame(const uint8_t *frame, size_t size) {
    size_t body = 4 * (size_t)frame[4];
    if (frame[5] != 0 || body < 8 || body + 3 > size)
        return body > 8; /* an empty frame, or one with an extended header that hides the rest */
    if (frame[body] == 0 && frame[body + 1] == 0x53)
        return frame[body + 2] == 0x14 && odd_fields(frame + body + 3, size - body - 3);
    return true;
}

static uint32_t frame_size(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static bool odd_formats(format_state *state, const uint8_t *at, size_t left) {
    const uint8_t *frame;
    size_t size, wanted, more;
    bool found = false;
    while (left > 0) {
        if (state->skip) {
            more = left < state->skip ? left : state->skip;
            at += more, left -= more, state->skip -= (uint32_t)more;
            continue;
        }
        if (state->held == 0 && left >= HEAD)
            frame = at;
        else { /* put it together */
            wanted = state->held < 8 ? 8 : frame_size(state->head) < HEAD ? frame_size(state->head) : HEAD;
            more = wanted > state->held ? wanted - state->held : 0;
            if (more > left)
                more = left;
            memcpy(state->head + state->held, at, more);
            at += more, left -= more, state->held += (uint16_t)more;
            if (state->held < 8 || (memcmp(state->head, "AMQP", 4) != 0 && state->held < HEAD &&
                                    state->held < frame_size(state->head)))
                continue;
            frame = state->head;
        }
        size = frame_size(frame);
        if (!state->started && memcmp(frame, "AMQP", 4) == 0)
            size = 8;
        else if (size < 8)
            return found; /* malformed, as proton says */
        else
            found |= odd_frame(frame, size < HEAD ? size : HEAD);
        state->started = 1;
        if (frame == at) {
            more = left < size ? left : size;
            at += more, left -= more;
            state->skip = (uint32_t)(size - more);
        } else {
            if (size >= state->held)
                state->skip = (uint32_t)(size - state->held);
            state->held = 0;
        }
    }
    return found;
}

/* other_formats(state, data, start, end) -> whether a transfer there is not of format 0; `state` is a bytearray */
static PyObject *other_formats(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t start, end;
    if (!wanted("other_formats", count, 4))
        return NULL;
    start = PyLong_AsSsize_t(args[2]), end = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (!PyByteArray_Check(args[0]) || PyByteArray_GET_SIZE(args[0]) != sizeof(format_state) ||
        !PyBytes_Check(args[1]) || start < 0 || end < start || end > PyBytes_GET_SIZE(args[1])) {
        PyErr_SetString(PyExc_TypeError, "a state, bytes and a part of them are wanted");
        return NULL;
    }
    return PyBool_FromLong(odd_formats((format_state *)(void *)PyByteArray_AS_STRING(args[0]),
                                       (const uint8_t *)PyBytes_AS_STRING(args[1]) + start, (size_t)(end - start)));
}

/* largest_frame(data) -> the size of the largest of the whole frames in the data, behind a protocol header */
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
