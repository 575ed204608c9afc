/* What the links of one address rule measure, for metrics: sizes of messages, and the time from a transfer to its outcome.
 *
 * All links of a rule share a `Measures`. Every size is counted. Of each link one delivery at a time is timed, so that
 * the clock is read twice for each measurement and not for each message.
 */
#include "../../observability/_histogram.h"

typedef struct {
    PyObject_HEAD
    uint64_t sizes[SIZE_BUCKETS];
    double size_total;
    seconds_histogram received, sent;
} Measures;

static PyTypeObject measures_type;

static void count_size(Measures *self, Py_ssize_t size) {
    size_t at = 0;
    while (at < SIZE_BUCKETS - 1 && (double)size > size_bounds[at])
        at++;
    self->sizes[at]++;
    self->size_total += (double)size;
}

static PyObject *measures_sizes(const Measures *self, void *Py_UNUSED(closure)) {
    return Py_BuildValue("(Nd)", counts_tuple(self->sizes, SIZE_BUCKETS), self->size_total);
}

static PyObject *measures_received(const Measures *self, void *Py_UNUSED(closure)) {
    return seconds_reading(&self->received);
}

static PyObject *measures_sent(const Measures *self, void *Py_UNUSED(closure)) { return seconds_reading(&self->sent); }

static PyGetSetDef measures_getset[] = {
    {"sizes", (getter)measures_sizes, NULL, "Of received messages, in bytes: counts by bucket, and their sum.", NULL},
    {"received", (getter)measures_received, NULL, "Seconds from a received transfer to our outcome, likewise.", NULL},
    {"sent", (getter)measures_sent, NULL, "Seconds from a transfer of ours to the peer's outcome, likewise.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject measures_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gateway.amqp.proton._batch.Measures",
    .tp_basicsize = sizeof(Measures),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "What the links of one address rule measure.",
    .tp_getset = measures_getset,
    .tp_new = PyType_GenericNew,
};

/* Set or read the attribute `measures` of a link's deliveries: a `Measures`, or None. */
static int replace_measures(Measures **place, PyObject *given) {
    Measures *before = *place;
    if (given != NULL && given != Py_None && Py_TYPE(given) != &measures_type) {
        PyErr_SetString(PyExc_TypeError, "expected `Measures` or None");
        return -1;
    }
    *place = given == NULL || given == Py_None ? NULL : (Measures *)Py_NewRef(given);
    Py_XDECREF(before);
    return 0;
}

static PyObject *shown_measures(const Measures *measures) {
    return Py_NewRef(measures == NULL ? Py_None : (PyObject *)measures);
}
