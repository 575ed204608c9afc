/* Batched calls of proton: one call for each turn of the event loop instead of several for each message.
 *
 * proton's Python binding makes a C call for each step (create a delivery, write it, advance, settle, get an event's
 * delivery ...), and each call releases the interpreter lock and takes it again. For a message that costs more than
 * what proton does. This module calls the same functions of the same library in a loop. It does nothing else: it reads
 * and writes no frames and keeps no protocol state. `bind` receives the addresses of the functions, so nothing is
 * linked.
 *
 * Pointers of proton are Python integers. The tag of an outgoing delivery is a number, eight bytes in native byte
 * order; unsettled deliveries are stored under that number (`_unsettled.h`), because it is never reused (an address
 * is).
 */
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <structmember.h>

#include "_log_capture.h"
#include "_measures.h"
#include "_received.h"
#include "../message/_section.h"
#include "_unsettled.h"

#define ACCEPTED 0x24 /* the descriptor of the outcome, part 3, 3.4.2 */

typedef void *pointer;
typedef struct {
    size_t size;
    const char *start;
} bytes_view; /* pn_bytes_t */

static struct {
    pointer (*deliver)(pointer link, bytes_view tag);
    ssize_t (*send)(pointer link, const char *data, size_t size);
    bool (*advance)(pointer link);
    void (*settle)(pointer delivery);
    void (*update)(pointer delivery, uint64_t state);
    pointer (*peek)(pointer collector);
    bool (*pop)(pointer collector);
    int (*type)(pointer event);
    pointer (*delivery_of)(pointer event);
    pointer (*link_of)(pointer delivery);
    bool (*is_sender)(pointer link);
    bytes_view (*tag)(pointer delivery);
    uint64_t (*remote_state)(pointer delivery);
    bool (*is_settled)(pointer delivery);
    bool (*readable)(pointer delivery);
    bool (*partial)(pointer delivery);
    bool (*aborted)(pointer delivery);
    size_t (*held)(pointer delivery);
    ssize_t (*receive)(pointer link, char *data, size_t size);
    ssize_t (*pending)(pointer transport);
    ssize_t (*read)(pointer transport, char *data, size_t size);
    void (*written)(pointer transport, size_t size);
    size_t (*incoming)(pointer session);
    size_t (*outgoing)(pointer session);
    pointer (*remote)(pointer delivery);
    pointer (*local)(pointer delivery);
    pointer (*state_data)(pointer disposition);
    ssize_t (*encode)(pointer data, char *bytes, size_t size);
    ssize_t (*encoded_size)(pointer data);
    ssize_t (*decode)(pointer data, const char *bytes, size_t size);
    void (*clear)(pointer data);
} pn;

#define FUNCTIONS ((Py_ssize_t)(sizeof pn / sizeof(pointer)))

static PyObject *bind(PyObject *module, PyObject *addresses) {
    pointer table[FUNCTIONS];
    Py_ssize_t index;
    if (!PyTuple_Check(addresses) || PyTuple_GET_SIZE(addresses) != FUNCTIONS) {
        PyErr_Format(PyExc_TypeError, "expected a tuple of %zd addresses", FUNCTIONS);
        return NULL;
    }
    for (index = 0; index < FUNCTIONS; index++) {
        table[index] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, index));
        if (table[index] == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no function is at address 0");
            return NULL;
        }
    }
    memcpy(&pn, table, sizeof pn);
    Py_RETURN_NONE;
}

static int check_count(const char *name, Py_ssize_t given, Py_ssize_t count) {
    if (given == count)
        return 1;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, count, given);
    return 0;
}

#include "_scan.h"
#include "_written_frames.h"

/* -- outgoing messages */

/* Where outgoing messages are counted: `unsettled`, or only `tally` for links that send settled. */
typedef struct {
    Unsettled *unsettled;
    Tally *tally;
} counters;

/* Write one message and store its context until its outcome; on a link that sends settled, settle it at once. */
static int send_message(pointer link, uint64_t number, PyObject *data, const counters *into, PyObject *context) {
    bytes_view tag = {sizeof number, (const char *)&number};
    pointer delivery;
    if (!PyBytes_Check(data)) {
        PyErr_SetString(PyExc_TypeError, "a message is bytes");
        return -1;
    }
    if (into->unsettled != NULL && add_sent(into->unsettled, number, PyBytes_GET_SIZE(data), context) < 0)
        return -1;
    if (into->tally != NULL)
        into->tally->unflushed += PyBytes_GET_SIZE(data);
    delivery = pn.deliver(link, tag);
    pn.send(link, PyBytes_AS_STRING(data), (size_t)PyBytes_GET_SIZE(data));
    if (into->unsettled == NULL)
        pn.settle(delivery); /* which advances the link, too */
    else
        pn.advance(link);
    return 0;
}

/* Read where to count: an `Unsettled`, a `Tally` for links that send settled, or None. */
static int parse_counters(PyObject *given, counters *into) {
    into->unsettled = Py_TYPE(given) == &unsettled_type ? (Unsettled *)given : NULL;
    into->tally = into->unsettled != NULL          ? into->unsettled->tally
                  : Py_TYPE(given) == &tally_type ? (Tally *)given
                                                   : NULL;
    if (into->unsettled != NULL || into->tally != NULL || given == Py_None)
        return 1;
    PyErr_SetString(PyExc_TypeError, "expected `Unsettled`, `Tally` or None");
    return 0;
}

/* send(link, number, data, unsettled, tally or None, context) -> whether the connection has enough to write for now */
static PyObject *send(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    pointer link;
    uint64_t number;
    counters into;
    if (!check_count("send", count, 5) || !parse_counters(args[3], &into))
        return NULL;
    link = PyLong_AsVoidPtr(args[0]);
    number = PyLong_AsUnsignedLongLong(args[1]);
    if (PyErr_Occurred() || send_message(link, number, args[2], &into, args[4]) < 0)
        return NULL;
    return PyBool_FromLong(into.tally != NULL && is_full(into.tally));
}

/* send_all(link, number of the last delivery, messages, unsettled, tally or None) -> number of the last delivery */
static PyObject *send_all(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    pointer link;
    uint64_t number;
    Py_ssize_t index;
    PyObject *messages;
    counters into;
    if (!check_count("send_all", count, 4) || !parse_counters(args[3], &into))
        return NULL;
    link = PyLong_AsVoidPtr(args[0]);
    number = PyLong_AsUnsignedLongLong(args[1]);
    messages = args[2];
    if (PyErr_Occurred())
        return NULL;
    if (!PyList_Check(messages)) {
        PyErr_SetString(PyExc_TypeError, "messages are a list");
        return NULL;
    }
    for (index = 0; index < PyList_GET_SIZE(messages); index++) {
        PyObject *message = PyList_GET_ITEM(messages, index);
        if (!PyTuple_Check(message) || PyTuple_GET_SIZE(message) == 0) {
            PyErr_SetString(PyExc_TypeError, "a message is a tuple that begins with its bytes");
            return NULL;
        }
        if (send_message(link, ++number, PyTuple_GET_ITEM(message, 0), &into, message) < 0)
            return NULL;
    }
    return PyLong_FromUnsignedLongLong(number);
}

#include "_forward.h"

/* -- incoming messages */

static PyObject *no_delivery(void) {
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "no delivery is at address 0");
    return NULL;
}

/* Parse the optional `Received` of a link. */
static int parse_received(PyObject *const *args, Py_ssize_t count, const char *name, Received **received) {
    *received = NULL;
    if (count == 1)
        return 1;
    if (!check_count(name, count, 2))
        return 0;
    *received = (Received *)args[1];
    if (Py_TYPE(args[1]) == &received_type)
        return 1;
    PyErr_SetString(PyExc_TypeError, "expected `Received`");
    return 0;
}

/* accept(delivery, received=None) */
static PyObject *accept(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    pointer delivery;
    Received *received;
    if (!parse_received(args, count, "accept", &received))
        return NULL;
    delivery = PyLong_AsVoidPtr(args[0]);
    if (delivery == NULL)
        return no_delivery();
    if (received != NULL)
        remove_delivery(received, delivery);
    pn.update(delivery, ACCEPTED);
    pn.settle(delivery);
    Py_RETURN_NONE;
}

/* accept_all(deliveries, received=None) */
static PyObject *accept_all(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t index;
    pointer delivery;
    Received *received;
    PyObject *deliveries;
    if (!parse_received(args, count, "accept_all", &received))
        return NULL;
    deliveries = args[0];
    if (!PyList_Check(deliveries)) {
        PyErr_SetString(PyExc_TypeError, "deliveries are a list");
        return NULL;
    }
    for (index = 0; index < PyList_GET_SIZE(deliveries); index++) {
        delivery = PyLong_AsVoidPtr(PyList_GET_ITEM(deliveries, index));
        if (delivery == NULL)
            return no_delivery();
        if (received != NULL)
            remove_delivery(received, delivery);
        pn.update(delivery, ACCEPTED);
        pn.settle(delivery);
    }
    Py_RETURN_NONE;
}

#include "_states.h"

/* The number of an outgoing delivery that the peer has accepted; 0: the caller has to inspect it. */
static uint64_t accepted_number(pointer delivery) {
    uint64_t number;
    bytes_view tag;
    if (pn.remote_state(delivery) != ACCEPTED)
        return 0;
    tag = pn.tag(delivery);
    if (tag.size != sizeof number)
        return 0;
    memcpy(&number, tag.start, sizeof number);
    return number;
}

/* Append (owner, new list) to `run`; returns the list as a borrowed reference. */
static PyObject *append_owner(PyObject *run, PyObject *owner) {
    PyObject *found = PyList_New(0), *item = found == NULL ? NULL : PyTuple_Pack(2, owner, found);
    int result = item == NULL ? -1 : PyList_Append(run, item);
    Py_XDECREF(found);
    Py_XDECREF(item);
    return result < 0 ? NULL : found;
}

/* (delivery, message, settled); steals the reference to the message */
static PyObject *delivery_tuple(pointer delivery, PyObject *data) {
    PyObject *number = PyLong_FromVoidPtr(delivery), *settled = pn.is_settled(delivery) ? Py_True : Py_False;
    PyObject *item = number == NULL ? NULL : PyTuple_Pack(3, number, data, settled);
    Py_XDECREF(number);
    Py_DECREF(data);
    return item;
}

static bool may_have_annotations(PyObject *data) {
    return may_be_annotated((const uint8_t *)PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data));
}

/* The message with only the delivery annotations that its link understands; steals the reference to the message. */
static PyObject *filter_annotations(PyObject *owner, PyObject *data) {
    PyObject *left = PyObject_CallMethod(owner, "understood", "O", data);
    Py_DECREF(data);
    if (left == NULL || PyBytes_Check(left))
        return left;
    Py_DECREF(left);
    PyErr_SetString(PyExc_TypeError, "a message is bytes");
    return NULL;
}

/* Append a complete message to `found`, the list of its link, which is created if it is NULL. Returns 1 if done, 0
 * if the caller has to inspect the delivery, -1 on an exception. */
static int take_message(pointer link, Received *received, pointer delivery, size_t most, PyObject *run,
                        PyObject **found) {
    PyObject *data, *item;
    size_t size = pn.held(delivery);
    int result;
    if (size == 0 || size > most || !pn.readable(delivery) || pn.partial(delivery) || pn.aborted(delivery))
        return 0;
    if (*found == NULL && (*found = append_owner(run, received->owner)) == NULL)
        return -1;
    data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
    if (data == NULL)
        return -1;
    if (pn.receive(link, PyBytes_AS_STRING(data), size) != (ssize_t)size) {
        Py_DECREF(data);
        PyErr_SetString(PyExc_RuntimeError, "proton returned another size than it announced");
        return -1;
    }
    pn.advance(link);
    if (!received->all_annotations && may_have_annotations(data) && (data = filter_annotations(received->owner, data)) == NULL)
        return -1;
    if (add_delivery(received, delivery, (Py_ssize_t)size) < 0) {
        Py_DECREF(data);
        return -1;
    }
    if (received->timed == NULL && !pn.is_settled(delivery))
        time_delivery(received, delivery);
    item = delivery_tuple(delivery, data);
    if (item == NULL)
        return -1;
    result = PyList_Append(*found, item);
    Py_DECREF(item);
    return result < 0 ? -1 : 1;
}

/* The item to report for an accepted delivery: its context, or its number if outcomes are reported one by one. */
static PyObject *accepted_item(Unsettled *unsettled, Py_ssize_t index) {
    return unsettled->in_batches ? take_context(unsettled, index)
                                 : PyLong_FromUnsignedLongLong(unsettled->all[index].number);
}

/* Append an outgoing delivery that the peer has accepted to `found`; returns the same as `take_message`. */
static int take_accepted(pointer delivery, Unsettled *unsettled, PyObject *run, PyObject **found) {
    uint64_t number = accepted_number(delivery);
    Py_ssize_t index = number == 0 ? -1 : find_sent(unsettled, number);
    PyObject *item;
    int result;
    if (index < 0)
        return 0;
    if (*found == NULL && (*found = append_owner(run, unsettled->owner)) == NULL)
        return -1;
    item = accepted_item(unsettled, index);
    if (item == NULL)
        return -1;
    pn.settle(delivery);
    result = PyList_Append(*found, item);
    Py_DECREF(item);
    return result < 0 ? -1 : 1;
}

/* The entry of a link in `links`, by its address; borrowed. */
static PyObject *link_entry(PyObject *links, pointer link) {
    PyObject *key = PyLong_FromVoidPtr(link), *found = key == NULL ? NULL : PyDict_GetItemWithError(links, key);
    Py_XDECREF(key);
    return found;
}

/* Whether there is a handler for this kind of event. */
static bool has_handler(PyObject *handled, int kind) {
    return kind < 0 || kind >= PyBytes_GET_SIZE(handled) || PyBytes_AS_STRING(handled)[kind] != 0;
}

/* Take the events that need no decision from a collector: complete messages on one of the `receivers` (`Received` by
 * link address), and deliveries of one of the `senders` (`Unsettled` by link address) that were accepted. They are
 * appended to `run` in order, as (owner, list); a list has consecutive items of one link. Events of kinds without a
 * handler (`handled` is 0) are discarded.
 *
 * drain_events(collector, senders, receivers, most, run, handled) -> whether an event of another kind comes next, which stays
 * in the collector
 */
static PyObject *drain_events(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    pointer collector, event, delivery, link, last = NULL;
    PyObject *senders, *receivers, *run, *owner = NULL, *found = NULL;
    bool is_sender = false;
    size_t most;
    if (!check_count("drain_events", count, 6))
        return NULL;
    collector = PyLong_AsVoidPtr(args[0]);
    most = PyLong_AsSize_t(args[3]);
    if (PyErr_Occurred())
        return NULL;
    senders = args[1], receivers = args[2], run = args[4];
    if (!PyDict_Check(senders) || !PyDict_Check(receivers) || !PyList_Check(run) || !PyBytes_Check(args[5])) {
        PyErr_SetString(PyExc_TypeError, "expected two dicts, a list and bytes");
        return NULL;
    }
    while ((event = pn.peek(collector)) != NULL) {
        int taken;
        if ((delivery = pn.delivery_of(event)) == NULL) {
            if (has_handler(args[5], pn.type(event)))
                break;
            pn.pop(collector);
            continue;
        }
        link = pn.link_of(delivery);
        if (link != last) { /* usually the same link as before */
            is_sender = pn.is_sender(link);
            owner = link_entry(is_sender ? senders : receivers, link);
            if (PyErr_Occurred())
                return NULL;
            if (owner != NULL && Py_TYPE(owner) != (is_sender ? &unsettled_type : &received_type)) {
                PyErr_SetString(PyExc_TypeError, "expected `Unsettled` for senders and `Received` for receivers");
                return NULL;
            }
            last = link;
            found = NULL;
        }
        taken = owner == NULL ? 0
                : is_sender   ? take_accepted(delivery, (Unsettled *)owner, run, &found)
                              : take_message(link, (Received *)owner, delivery, most, run, &found);
        if (taken < 0)
            return NULL;
        if (taken == 0)
            break;
        pn.pop(collector);
    }
    return PyBool_FromLong(event != NULL);
}

/* all_plain(messages, most, largest annotated message, whether annotations are allowed, whether settled is allowed) ->
 * whether all messages are plain: none is larger than `most`; none has delivery annotations, except in a small enough
 * message where they are allowed; and none is settled where that is not allowed */
static PyObject *all_plain(PyObject *module, PyObject *args) {
    PyObject *messages, *item, *data;
    Py_ssize_t most, annotated_most, index;
    int annotations, settled;
    bool all = true;
    if (!PyArg_ParseTuple(args, "O!nnpp", &PyList_Type, &messages, &most, &annotated_most, &annotations, &settled))
        return NULL;
    for (index = 0; all && index < PyList_GET_SIZE(messages); index++) {
        item = PyList_GET_ITEM(messages, index);
        if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 3 || !PyBytes_Check(data = PyTuple_GET_ITEM(item, 1))) {
            PyErr_SetString(PyExc_TypeError, "a message is a tuple of delivery, bytes and whether it is settled");
            return NULL;
        }
        all = PyBytes_GET_SIZE(data) <= most && (settled || PyTuple_GET_ITEM(item, 2) == Py_False) &&
              ((annotations && PyBytes_GET_SIZE(data) <= annotated_most) || !may_have_annotations(data));
    }
    return PyBool_FromLong(all);
}

/* -- bytes */

static Tally *tally_of(PyObject *given) {
    if (Py_TYPE(given) == &tally_type)
        return (Tally *)given;
    PyErr_SetString(PyExc_TypeError, "expected a tally");
    return NULL;
}

/* take_output(transport, tally) -> the bytes to write now, in proton's pieces, which may end within a frame; afterwards the
 * tally shows whether more can follow. Pieces are not joined: that would copy all output once or twice. */
static PyObject *take_output(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    pointer transport;
    PyObject *pieces, *piece;
    Tally *tally;
    ssize_t size;
    int result = 0;
    if (!check_count("take_output", count, 2) || (tally = tally_of(args[1])) == NULL)
        return NULL;
    transport = PyLong_AsVoidPtr(args[0]);
    if (transport == NULL && PyErr_Occurred())
        return NULL;
    pieces = PyList_New(0);
    while (pieces != NULL && (size = pn.pending(transport)) > 0) {
        if ((piece = PyBytes_FromStringAndSize(NULL, size)) != NULL) {
            pn.read(transport, PyBytes_AS_STRING(piece), (size_t)size);
            pn.written(transport, (size_t)size);
            result = PyList_Append(pieces, piece);
            Py_DECREF(piece);
        }
        if (piece == NULL || result < 0)
            Py_CLEAR(pieces);
    }
    if (pieces != NULL)
        tally->ended = size < 0;
    return pieces;
}

/* measure_memory(tally, sessions, early) -> the memory that a connection uses for messages, in proton and here, including
 * `early` bytes that were taken from proton and are not written yet */
static PyObject *measure_memory(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t place = 0, unread = 0, unwritten;
    PyObject *address;
    pointer session;
    Tally *tally;
    if (!check_count("measure_memory", count, 3) || (tally = tally_of(args[0])) == NULL)
        return NULL;
    unwritten = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (!PyDict_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "the addresses of sessions are the keys of a dict");
        return NULL;
    }
    while (PyDict_Next(args[1], &place, &address, NULL)) {
        session = PyLong_AsVoidPtr(address);
        if (session == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no session is at address 0");
            return NULL;
        }
        unread += (Py_ssize_t)pn.incoming(session);
        unwritten += (Py_ssize_t)pn.outgoing(session);
    }
    tally->unread = unread;
    tally->unwritten = unwritten;
    return PyLong_FromSsize_t(tally->in_bytes + tally->out_bytes + unread + unwritten);
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_O, "Give the addresses of proton's functions, once."},
    {"send", (PyCFunction)(void (*)(void))send, METH_FASTCALL, "Send one message."},
    {"send_all", (PyCFunction)(void (*)(void))send_all, METH_FASTCALL, "Send several messages of one link."},
    {"forward", (PyCFunction)(void (*)(void))forward, METH_FASTCALL, "Send several messages of one link on another one."},
    {"accept", (PyCFunction)(void (*)(void))accept, METH_FASTCALL, "Accept and settle a delivery."},
    {"accept_all", (PyCFunction)(void (*)(void))accept_all, METH_FASTCALL, "Accept and settle deliveries."},
    {"same_state", (PyCFunction)(void (*)(void))same_state, METH_FASTCALL, "The next messages that came with one state."},
    {"settle_all", (PyCFunction)(void (*)(void))settle_all, METH_FASTCALL, "Settle deliveries with one state."},
    {"restated", (PyCFunction)(void (*)(void))restated, METH_FASTCALL, "Frames with another state than `accepted`."},
    {"all_plain", all_plain, METH_VARARGS, "Whether no message needs a closer look."},
    {"drain_events", (PyCFunction)(void (*)(void))drain_events, METH_FASTCALL, "Take the events that need no decision."},
    {"take_output", (PyCFunction)(void (*)(void))take_output, METH_FASTCALL, "The bytes to write now."},
    {"measure_memory", (PyCFunction)(void (*)(void))measure_memory, METH_FASTCALL, "The memory that a connection uses for messages."},
    {"scan", (PyCFunction)(void (*)(void))scan, METH_FASTCALL, "Find the frames that need a closer look than proton's."},
    {"sender_attaches", sender_attaches, METH_O, "The senders whose attach frames are in the data."},
    {"largest_frame", largest_frame, METH_O, "The size of the largest frame."},
    {"bind_log", bind_log, METH_VARARGS, "Give the addresses of proton's functions for logging, once."},
    {"capture_log", capture_log, METH_O, "Capture the errors that proton logs about a transport."},
    {"take_error", take_error, METH_O, "Why a transport stopped writing, or None."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_batch", "proton, many deliveries at a time", -1, methods,
                                        NULL,                  NULL,    NULL,                                NULL};

PyMODINIT_FUNC PyInit__batch(void) {
    PyObject *module;
    if (PyType_Ready(&unsettled_type) < 0 || PyType_Ready(&received_type) < 0 || PyType_Ready(&tally_type) < 0 ||
        PyType_Ready(&measures_type) < 0)
        return NULL;
    module = PyModule_Create(&definition);
    if (module != NULL && (PyModule_AddObjectRef(module, "Unsettled", (PyObject *)&unsettled_type) < 0 ||
                           PyModule_AddObjectRef(module, "Received", (PyObject *)&received_type) < 0 ||
                           PyModule_AddObjectRef(module, "Measures", (PyObject *)&measures_type) < 0 ||
                           PyModule_AddObjectRef(module, "Tally", (PyObject *)&tally_type) < 0))
        Py_CLEAR(module);
    if (module != NULL && (PyModule_AddIntConstant(module, "SCAN_STATE", sizeof(scan_state)) < 0 ||
                           PyModule_AddIntConstant(module, "ONE_STATE", offsetof(scan_state, one_state)) < 0 ||
                           PyModule_AddIntConstant(module, "CONTROL", offsetof(scan_state, control)) < 0 ||
                           PyModule_AddIntMacro(module, OTHER_FORMAT) < 0 || PyModule_AddIntMacro(module, WITH_STATE) < 0 || PyModule_AddIntMacro(module, BEFORE_END) < 0 ||
                           PyModule_AddIntMacro(module, ECHO_SESSION) < 0 || PyModule_AddIntMacro(module, BEFORE_ACQUISITION) < 0 ||
                           PyModule_AddIntMacro(module, ACQUISITION) < 0 || PyModule_AddIntMacro(module, ECHO_LINK) < 0 ||
                           PyModule_AddIntMacro(module, READ_STATE) < 0 || PyModule_AddIntMacro(module, LONG_DISPOSITION) < 0 || PyModule_AddIntMacro(module, SPLIT_DISPOSITION) < 0 || PyModule_AddIntMacro(module, LARGE_CREDIT) < 0 || PyModule_AddIntMacro(module, EMPTY_DRAIN) < 0))
        Py_CLEAR(module);
    if (module != NULL && (add_bounds(module, "SECOND_BOUNDS", second_bounds, SECOND_BUCKETS - 1) < 0 ||
                           add_bounds(module, "SIZE_BOUNDS", size_bounds, SIZE_BUCKETS - 1) < 0))
        Py_CLEAR(module);
    return module;
}
