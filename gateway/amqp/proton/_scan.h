/* Finds the frames of a peer that need a closer look than proton's (see `_frame_fields.h`), and each end frame.
 *
 * It is called for all incoming bytes, in chunks of any size, so it only steps from frame to frame and reads the first
 * fields of transfers and flows. A transfer in an unusual encoding counts as one with another message-format: the
 * caller then inspects it fully.
 */
#define MAX_HEAD 80 /* of a usual transfer: frame header 8, descriptor 3, list 9, handle 5, id 5, tag 34, format 5, flags 7 */
#define LONG_DISPOSITION 256 /* bytes of a frame above which its state is read once, not for each message */

enum { OTHER_FORMAT, BEFORE_END, ECHO_SESSION, ECHO_LINK, READ_STATE, SPLIT_DISPOSITION, BEFORE_ACQUISITION, ACQUISITION, WITH_STATE, LARGE_CREDIT, EMPTY_DRAIN, NO_ECHO = 0 };

#include "_frame_fields.h"

typedef struct {
    uint32_t skip;    /* bytes of the current frame that are still to come and can be skipped */
    uint16_t held;    /* bytes of an incomplete frame head */
    uint16_t started; /* the protocol header has been read */
    uint16_t echo;    /* what to report at the end of the current frame */
    uint16_t acquires; /* the current frame is a flow that names a transaction */
    uint16_t channel; /* the channel of that frame */
    uint8_t head[MAX_HEAD];
    uint8_t one_state; /* the messages that end in the scanned bytes came with one state, if they came in one frame each */
    uint8_t control;   /* a frame in the scanned bytes may be another than a transfer, flow or disposition */
    uint8_t unfinished_control; /* that is so of the last one, which is not complete */
    uint8_t size;      /* of the state of the last transfer; 0: none, or not known */
    uint8_t state[MAX_HEAD];
} scan_state;

typedef struct {
    PyObject *list;
    bool format, state;
} findings;

static uint32_t frame_size(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The performative's code, and the size of its descriptor; -1: not a performative. */
static int performative_code(const uint8_t *at, size_t left, size_t *size) {
    static const uint8_t wide[] = {0, 0x80, 0, 0, 0, 0, 0, 0, 0};
    if (left >= 3 && at[0] == 0 && at[1] == 0x53)
        return *size = 3, at[2];
    if (left >= 10 && memcmp(at, wide, sizeof wide) == 0)
        return *size = 10, at[9];
    return -1;
}

static int add_finding(findings *findings, size_t position, int what, int channel) {
    PyObject *item;
    int result;
    if ((what == OTHER_FORMAT && findings->format) || (what == WITH_STATE && findings->state))
        return 0; /* already reported */
    findings->format |= what == OTHER_FORMAT, findings->state |= what == WITH_STATE;
    if (findings->list == NULL && (findings->list = PyList_New(0)) == NULL)
        return -1;
    if ((item = Py_BuildValue("(nii)", (Py_ssize_t)position, what, channel)) == NULL)
        return -1;
    result = PyList_Append(findings->list, item);
    Py_DECREF(item);
    return result;
}

/* Compare the state of a transfer with that of the one before; size 0: none, or not known. */
static void note_state(scan_state *state, const uint8_t *found, size_t size) {
    state->one_state &= size > 0 && size == state->size && memcmp(found, state->state, size) == 0;
    state->size = (uint8_t)size; /* it is within a head */
    if (size > 0)
        memcpy(state->state, found, size);
}

/* Inspect the frame that begins with these bytes; `position` is its place in the scanned data. -1 on an exception. */
static int inspect_frame(scan_state *state, const uint8_t *frame, size_t size, size_t position, findings *findings) {
    size_t body = 4 * (size_t)frame[4], head = 0;
    int code, kind = USUAL_TRANSFER, channel = frame[6] << 8 | frame[7];
    const uint8_t *stated = NULL;
    size_t state_bytes = 0;
    if (frame[5] != 0 || body < 8 || body + 3 > size) { /* an empty frame, or an extended header that hides the rest */
        state->unfinished_control = frame[5] != 0 || body != 8 || size != 8;
        if (body <= 8)
            return 0;
        note_state(state, NULL, 0);
        return add_finding(findings, position, OTHER_FORMAT, channel) < 0 ? -1 : add_finding(findings, position, BEFORE_END, channel);
    }
    code = performative_code(frame + body, size - body, &head);
    state->unfinished_control = code < 0x13 || code > 0x15;
    if (code == 0x14) {
        kind = transfer_kind(frame + body + head, size - body - head, &stated, &state_bytes);
        note_state(state, stated, state_bytes);
    }
    if ((head != 3 || kind == UNUSUAL_TRANSFER) && add_finding(findings, position, OTHER_FORMAT, channel) < 0)
        return -1;
    if (kind == STATED_TRANSFER && add_finding(findings, position, WITH_STATE, channel) < 0)
        return -1;
    if (code == 0x13) {
        state->echo = (uint16_t)requested_echo(frame + body + head, size - body - head);
        state->acquires = frame_size(frame) > MAX_HEAD || names_transaction(frame + body + head, size - body - head);
        state->channel = (uint16_t)channel;
        if (state->acquires && add_finding(findings, position, BEFORE_ACQUISITION, channel) < 0)
            return -1;
    }
    return code == 0x17 ? add_finding(findings, position, BEFORE_END, channel) : 0;
}

/* Report a credit that is too large for proton if its first byte is behind the first `known` bytes of this frame, of which
 * byte `known` is at `position`; `size` bytes of it are there. -1 on an exception. */
static int find_large_credit(const uint8_t *frame, size_t size, size_t known, size_t position, findings *findings) {
    size_t body = size < 8 ? 0 : 4 * (size_t)frame[4], head = 0, at;
    if (body < 8 || body >= size || frame[5] != 0 || performative_code(frame + body, size - body, &head) != 0x13)
        return 0;
    body += head;
    if ((at = large_credit(frame + body, size - body)) == 0 || body + at < known)
        return 0;
    return add_finding(findings, position + body + at - known, LARGE_CREDIT, frame[6] << 8 | frame[7]);
}

/* Whether the error's description contains a NUL, at which proton cuts it off. */
static bool has_cut_description(const uint8_t *frame, size_t size) {
    const uint8_t *end = frame + size, *at = memmem(frame, size, "\0S\x1d", 3);
    size_t length;
    int field;
    if (at == NULL)
        return false;
    at += 3;
    if (end - at < 9)
        return false;
    at += at[0] == 0xD0 ? 9 : 3;
    for (field = 0; field < 2; field++) { /* condition, description */
        if (end - at < 2)
            return false;
        if (at[0] == 0xA1 || at[0] == 0xA3)
            length = at[1], at += 2;
        else if ((at[0] == 0xB1 || at[0] == 0xB3) && end - at >= 5)
            length = frame_size(at + 1), at += 5;
        else
            return false;
        if (length > (size_t)(end - at))
            return false;
        if (field == 1)
            return memchr(at, 0, length) != NULL;
        at += length;
    }
    return false;
}

/* The offset of a disposition's performative in a frame of which `size` bytes are there; 0: not a disposition. */
static size_t disposition_body(const uint8_t *frame, size_t size) {
    size_t body = 4 * (size_t)frame[4], head = 0;
    return frame[5] == 0 && body >= 8 && body + 3 <= size && performative_code(frame + body, size - body, &head) == 0x15 ? body
                                                                                                                    : 0;
}

/* The current frame ends at this position. */
static int end_frame(scan_state *state, size_t position, findings *findings) {
    int echo = state->echo;
    bool acquires = state->acquires;
    state->echo = NO_ECHO, state->acquires = 0, state->unfinished_control = 0;
    if (acquires && add_finding(findings, position, ACQUISITION, state->channel) < 0)
        return -1;
    return echo == NO_ECHO ? 0 : add_finding(findings, position, echo, state->channel);
}

/* Complete a frame head that arrived in pieces; returns the number of bytes consumed. */
static size_t fill_head(scan_state *state, const uint8_t *at, size_t left) {
    size_t wanted = state->held < 8 ? 8 : frame_size(state->head) < MAX_HEAD ? frame_size(state->head) : MAX_HEAD;
    size_t more = wanted > state->held ? wanted - state->held : 0;
    if (more > left)
        more = left;
    memcpy(state->head + state->held, at, more);
    state->held += (uint16_t)more;
    return more;
}

static bool head_complete(const scan_state *state) {
    return state->held >= 8 && (memcmp(state->head, "AMQP", 4) == 0 || state->held >= MAX_HEAD ||
                                state->held >= frame_size(state->head));
}

/* Scan the bytes from `start` to `end`; -1 on an exception. */
static int scan_bytes(scan_state *state, const uint8_t *data, size_t start, size_t end, findings *findings) {
    const uint8_t *frame;
    size_t size, more, begin, body, held, at = start;
    state->one_state = 1, state->control = state->unfinished_control;
    while (at < end) {
        if (state->skip) {
            more = end - at < state->skip ? end - at : state->skip;
            at += more, state->skip -= (uint32_t)more;
            if (state->skip == 0 && end_frame(state, at, findings) < 0)
                return -1;
            continue;
        }
        if (state->held == 0 && end - at >= MAX_HEAD)
            frame = data + at;
        else {
            held = state->held;
            more = fill_head(state, data + at, end - at);
            if (find_large_credit(state->head, state->held, held, at, findings) < 0)
                return -1;
            at += more;
            if (!head_complete(state))
                continue;
            frame = state->head;
        }
        size = frame_size(frame);
        if (!state->started && memcmp(frame, "AMQP", 4) == 0)
            size = 8, state->unfinished_control = 1;
        else if (size < 8) {
            state->control = 1;
            return 0; /* malformed: proton reports it */
        } else {
            begin = frame != state->head ? at : at - start > state->held ? at - state->held : start;
            if (inspect_frame(state, frame, size < MAX_HEAD ? size : MAX_HEAD, begin, findings) < 0)
                return -1;
            if (frame != state->head && find_large_credit(frame, size < MAX_HEAD ? size : MAX_HEAD, 0, at, findings) < 0)
                return -1;
            if ((body = disposition_body(frame, size < MAX_HEAD ? size : MAX_HEAD)) != 0) {
                if ((frame == state->head && at - begin != state->held) || size > end - begin)
                    state->echo = SPLIT_DISPOSITION;
                else if ((size > LONG_DISPOSITION || has_cut_description(data + begin + body, size - body)) && add_finding(findings, begin, READ_STATE, (int)size) < 0)
                    return -1;
            }
        }
        state->started = 1, state->control |= state->unfinished_control;
        if (frame != state->head)
            state->skip = (uint32_t)size; /* the rest is still to come */
        else {
            state->skip = size > state->held ? (uint32_t)(size - state->held) : 0;
            state->held = 0;
            if (state->skip == 0 && end_frame(state, at, findings) < 0)
                return -1;
        }
    }
    return 0;
}

/* scan(state, data, start, end) -> None, or a list of (position, what, channel); `state` is a bytearray.
 *
 * `what` is OTHER_FORMAT: inspect transfers fully from now on; BEFORE_END: an end frame begins here, or not before this
 * position; ECHO_SESSION, ECHO_LINK: a flow that requests an echo ends here; READ_STATE: a disposition begins here that is
 * long, or whose error description proton cuts off (the third item is its size instead of a channel); SPLIT_DISPOSITION: a disposition
 * ends here of which a part arrived earlier; BEFORE_ACQUISITION: a flow begins here, or not before this
 * position, that may name a transaction; ACQUISITION: it ends here, and its echo is reported after it; WITH_STATE: a
 * transfer has a state, so that from now on messages may be those of transactions; LARGE_CREDIT: here is the first byte of a
 * link-credit of 2^31 or more; EMPTY_DRAIN: a flow that drains a link without credit ends here. Afterwards the byte ONE_STATE of
 * `state` is 1 if the messages that end in the data came with the same state, except those that began in earlier data and
 * have several frames: these are never in a run. The byte CONTROL is 0 if all of the data belongs to transfers, flows,
 * dispositions and empty frames.
 */
static PyObject *scan(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t start, end;
    findings findings = {NULL, false, false};
    if (!check_count("scan", count, 4))
        return NULL;
    start = PyLong_AsSsize_t(args[2]), end = PyLong_AsSsize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    if (!PyByteArray_Check(args[0]) || PyByteArray_GET_SIZE(args[0]) != sizeof(scan_state) || !PyBytes_Check(args[1]) ||
        start < 0 || end < start || end > PyBytes_GET_SIZE(args[1])) {
        PyErr_SetString(PyExc_TypeError, "expected a state, bytes and a range in them");
        return NULL;
    }
    if (scan_bytes((scan_state *)(void *)PyByteArray_AS_STRING(args[0]), (const uint8_t *)PyBytes_AS_STRING(args[1]),
                (size_t)start, (size_t)end, &findings) < 0) {
        Py_XDECREF(findings.list);
        return NULL;
    }
    if (findings.list == NULL)
        Py_RETURN_NONE;
    return findings.list;
}
