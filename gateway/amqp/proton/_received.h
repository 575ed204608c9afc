/* Memory that proton uses for deliveries, counted as they arrive and are settled: one `Tally` for each connection.
 *
 * proton keeps the buffer of a delivery until it is settled, rounded up to a power of two, and state of its own.
 * `Received` has the deliveries that a peer sent on one link and that have no outcome yet, by their address: a hash
 * table with open addressing, so that an outcome costs one lookup in any order. When a link is freed, its deliveries
 * are no longer counted.
 */
#define DELIVERY_OVERHEAD 640 /* bytes that proton needs for a delivery beside its data, measured */
#define MIN_SLOTS 16
#define MAX_IDLE_SLOTS 256 /* an empty table with more slots is freed: there may be many thousand links */

typedef struct {
    PyObject_HEAD
    Py_ssize_t in_bytes, in_count, out_bytes, out_data, out_count;
    Py_ssize_t unflushed, write_limit; /* bytes given to proton since the last write, and the limit for them; 0: no limit */
    Py_ssize_t unread, unwritten; /* bytes in proton's buffers, as `weigh` measured them */
    char ended; /* proton will write nothing more */
} Tally;

static PyTypeObject tally_type;

/* The memory that an outgoing delivery with `size` bytes of data needs. */
static Py_ssize_t proton_memory(Py_ssize_t size) {
    Py_ssize_t room = 64;
    while (room < size)
        room *= 2;
    return room + DELIVERY_OVERHEAD;
}

/* The same for an incoming delivery: whoever has it holds a second copy of its data. */
static Py_ssize_t received_memory(Py_ssize_t size) { return proton_memory(size) + size; }

static bool is_full(const Tally *self) { return self->write_limit > 0 && self->unflushed >= self->write_limit; }

static PyMemberDef tally_members[] = {
    {"in_bytes", T_PYSSIZET, offsetof(Tally, in_bytes), READONLY, "Memory of incoming messages without outcome."},
    {"in_count", T_PYSSIZET, offsetof(Tally, in_count), READONLY, "The number of these messages."},
    {"out_bytes", T_PYSSIZET, offsetof(Tally, out_bytes), READONLY, "Memory of outgoing messages without outcome."},
    {"out_data", T_PYSSIZET, offsetof(Tally, out_data), READONLY, "Bytes that their contexts keep alive besides."},
    {"out_count", T_PYSSIZET, offsetof(Tally, out_count), READONLY, "The number of these messages."},
    {"unflushed", T_PYSSIZET, offsetof(Tally, unflushed), 0, "Bytes given to proton since the last write."},
    {"write_limit", T_PYSSIZET, offsetof(Tally, write_limit), 0, "The limit for `unflushed`; 0: no limit."},
    {"unread", T_PYSSIZET, offsetof(Tally, unread), READONLY, "Bytes of messages that were not yet read from proton."},
    {"unwritten", T_PYSSIZET, offsetof(Tally, unwritten), READONLY, "Bytes that are not yet written."},
    {"ended", T_BOOL, offsetof(Tally, ended), READONLY, "Whether proton will write nothing more."},
    {NULL, 0, 0, 0, NULL},
};

static PyObject *tally_is_full(const Tally *self, void *Py_UNUSED(closure)) { return PyBool_FromLong(is_full(self)); }

static PyGetSetDef tally_getset[] = {
    {"full", (getter)tally_is_full, NULL, "Whether `unflushed` has reached its limit.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject tally_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gateway.amqp.proton._batch.Tally",
    .tp_basicsize = sizeof(Tally),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_doc = "The memory that the deliveries of one connection use.",
    .tp_members = tally_members,
    .tp_getset = tally_getset,
    .tp_new = PyType_GenericNew,
};

typedef struct {
    void *delivery; /* NULL: never used; GONE: removed */
    Py_ssize_t size;
} slot;

static char removed_marker;
#define REMOVED ((void *)&removed_marker)

typedef struct {
    PyObject_HEAD
    PyObject *owner;
    Tally *tally; /* or NULL */
    slot *slots;
    size_t capacity, used; /* capacity: a power of two, or 0; used: slots that are not NULL */
    Py_ssize_t count, bytes;
    Measures *measures;  /* or NULL */
    const void *timed;   /* the delivery that is timed, or NULL */
    double since;        /* when it came */
    char all_annotations; /* messages pass with all of their delivery annotations */
} Received;

static PyTypeObject received_type;

static size_t first_slot(const Received *self, const void *delivery) {
    return (size_t)(((uint64_t)(uintptr_t)delivery >> 4) * 0x9E3779B97F4A7C15u >> 20) & (self->capacity - 1);
}

static slot *slot_of(const Received *self, const void *delivery) {
    size_t at;
    if (self->capacity == 0)
        return NULL;
    for (at = first_slot(self, delivery); self->slots[at].delivery != NULL; at = (at + 1) & (self->capacity - 1))
        if (self->slots[at].delivery == delivery)
            return self->slots + at;
    return NULL;
}

static void insert_slot(Received *self, void *delivery, Py_ssize_t size) {
    size_t at = first_slot(self, delivery);
    while (self->slots[at].delivery != NULL && self->slots[at].delivery != REMOVED)
        at = (at + 1) & (self->capacity - 1);
    self->used += self->slots[at].delivery == NULL;
    self->slots[at] = (slot){delivery, size};
}

/* Make room for one more delivery, with at most half of the slots in use; removed entries are dropped. */
static int grow_slots(Received *self) {
    size_t capacity = MIN_SLOTS, old_capacity = self->capacity, at;
    slot *old = self->slots, *slots;
    if (2 * (self->used + 1) <= self->capacity)
        return 0;
    while (capacity < 4 * ((size_t)self->count + 1))
        capacity *= 2;
    slots = PyMem_Calloc(capacity, sizeof(slot));
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->slots = slots;
    self->capacity = capacity;
    self->used = 0;
    for (at = 0; at < old_capacity; at++)
        if (old[at].delivery != NULL && old[at].delivery != REMOVED)
            insert_slot(self, old[at].delivery, old[at].size);
    PyMem_Free(old);
    return 0;
}

static void count_received(Received *self, Py_ssize_t bytes, Py_ssize_t count) {
    self->bytes += bytes;
    self->count += count;
    if (self->tally != NULL) {
        self->tally->in_bytes += bytes;
        self->tally->in_count += count;
    }
}

/* Add a delivery that has arrived; a known one stays unchanged. */
static int add_delivery(Received *self, void *delivery, Py_ssize_t size) {
    if (slot_of(self, delivery) != NULL)
        return 0;
    if (grow_slots(self) < 0)
        return -1;
    insert_slot(self, delivery, received_memory(size));
    count_received(self, received_memory(size), 1);
    if (self->measures != NULL)
        count_size(self->measures, size);
    return 0;
}

/* Time a delivery that waits for its outcome, unless another one is timed. */
static void time_delivery(Received *self, const void *delivery) {
    if (self->measures == NULL || self->timed != NULL)
        return;
    self->timed = delivery;
    self->since = monotonic_seconds();
}

static void free_slots(Received *self) {
    PyMem_Free(self->slots);
    self->slots = NULL;
    self->capacity = self->used = 0;
}

/* Remove a delivery that has its outcome. */
static void remove_delivery(Received *self, const void *delivery) {
    slot *found = slot_of(self, delivery);
    if (found == NULL)
        return;
    if (self->timed == delivery) {
        self->timed = NULL;
        if (self->measures != NULL)
            observe_seconds(&self->measures->received, monotonic_seconds() - self->since);
    }
    count_received(self, -found->size, -1);
    found->delivery = REMOVED;
    if (self->count > 0)
        return;
    if (self->capacity > MAX_IDLE_SLOTS)
        free_slots(self);
    else if (2 * self->used >= self->capacity)
        memset(self->slots, 0, self->capacity * sizeof(slot)), self->used = 0;
}

static PyObject *received_add(Received *self, PyObject *args) {
    unsigned long long delivery;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Kn", &delivery, &size) || add_delivery(self, (void *)(uintptr_t)delivery, size) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *received_remove(Received *self, PyObject *address) {
    void *delivery = PyLong_AsVoidPtr(address);
    if (delivery == NULL && PyErr_Occurred())
        return NULL;
    remove_delivery(self, delivery);
    Py_RETURN_NONE;
}

static PyObject *received_clear(Received *self, PyObject *unused) {
    count_received(self, -self->bytes, -self->count);
    free_slots(self);
    self->timed = NULL;
    Py_RETURN_NONE;
}

static Py_ssize_t received_length(Received *self) { return self->count; }

static int received_visit(Received *self, visitproc visit, void *arg) {
    Py_VISIT(self->owner);
    return 0;
}

static int received_forget(Received *self) {
    Py_CLEAR(self->owner);
    return 0;
}

static void received_free(Received *self) {
    PyObject_GC_UnTrack(self);
    count_received(self, -self->bytes, -self->count);
    free_slots(self);
    Py_CLEAR(self->owner);
    Py_CLEAR(self->tally);
    Py_CLEAR(self->measures);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

/* Parse the owner and an optional tally of the connection; 0 with an exception for other arguments. */
static int parse_owner(PyObject *args, PyObject *named, PyObject **owner, Tally **tally) {
    PyObject *given = NULL;
    if (named != NULL && PyDict_GET_SIZE(named) > 0) {
        PyErr_SetString(PyExc_TypeError, "expected an owner and a tally");
        return 0;
    }
    if (!PyArg_ParseTuple(args, "O|O!", owner, &tally_type, &given))
        return 0;
    *tally = (Tally *)given;
    return 1;
}

static PyObject *received_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *owner;
    Tally *tally;
    Received *self;
    if (!parse_owner(args, named, &owner, &tally))
        return NULL;
    self = (Received *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->tally = (Tally *)Py_XNewRef((PyObject *)tally);
    }
    return (PyObject *)self;
}

static PyObject *received_disown(Received *self, PyObject *Py_UNUSED(none)) {
    Py_SETREF(self->owner, Py_NewRef(Py_None));
    Py_RETURN_NONE;
}

static PyMethodDef received_methods[] = {
    {"add", (PyCFunction)received_add, METH_VARARGS, "Add a delivery of this size."},
    {"remove", (PyCFunction)received_remove, METH_O, "Remove a delivery that has its outcome."},
    {"clear", (PyCFunction)received_clear, METH_NOARGS, "Remove all: proton has freed their link."},
    {"disown", (PyCFunction)received_disown, METH_NOARGS, "Drop the reference to the owner, whose link has ended."},
    {NULL, NULL, 0, NULL},
};

static PyObject *received_deliveries(const Received *self, void *Py_UNUSED(closure)) {
    PyObject *all = PyList_New(0), *delivery;
    size_t at;
    int failed = all == NULL;
    for (at = 0; at < self->capacity && !failed; at++) {
        if (self->slots[at].delivery == NULL || self->slots[at].delivery == REMOVED)
            continue;
        delivery = PyLong_FromVoidPtr(self->slots[at].delivery);
        failed = delivery == NULL || PyList_Append(all, delivery) < 0;
        Py_XDECREF(delivery);
    }
    if (failed)
        Py_CLEAR(all);
    return all;
}

static PyObject *received_measures(const Received *self, void *Py_UNUSED(closure)) {
    return shown_measures(self->measures);
}

static int received_set_measures(Received *self, PyObject *given, void *Py_UNUSED(closure)) {
    return replace_measures(&self->measures, given);
}

static PyGetSetDef received_getset[] = {
    {"measures", (getter)received_measures, (setter)received_set_measures, "Of its rule, or None.", NULL},
    {"deliveries", (getter)received_deliveries, NULL, "All of them, in no order.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef received_members[] = {
    {"all_annotations", T_BOOL, offsetof(Received, all_annotations), 0, "Whether messages keep all delivery annotations."},
    {"bytes", T_PYSSIZET, offsetof(Received, bytes), READONLY, "Their memory in bytes."},
    {NULL, 0, 0, 0, NULL},
};

static PySequenceMethods received_sequence = {.sq_length = (lenfunc)received_length};

static PyTypeObject received_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gateway.amqp.proton._batch.Received",
    .tp_basicsize = sizeof(Received),
    .tp_dealloc = (destructor)received_free,
    .tp_traverse = (traverseproc)received_visit,
    .tp_clear = (inquiry)received_forget,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The deliveries that arrived on one link and have no outcome yet.",
    .tp_as_sequence = &received_sequence,
    .tp_methods = received_methods,
    .tp_getset = received_getset,
    .tp_members = received_members,
    .tp_new = received_new,
};
