/* The deliveries that were sent on one link and have no outcome yet, by delivery number.
 *
 * Numbers only grow, and outcomes mostly arrive in that order. So this is an array in the order of sending: a lookup
 * mostly finds its delivery first, and numbers need no Python objects. An outcome out of order leaves a hole; holes are
 * closed when room is needed (each `add` pays for at most two moves).
 */
#define MIN_CAPACITY 16
#define MAX_IDLE_CAPACITY 256 /* an empty array with more places is freed: there may be many thousand links */

typedef struct {
    uint64_t number;
    Py_ssize_t size;
    PyObject *context; /* NULL: a hole */
} sent;

typedef struct {
    PyObject_HEAD
    PyObject *owner;
    Tally *tally; /* or NULL */
    sent *all;
    Py_ssize_t first, end, capacity; /* `all` from `first` up to, but not including, `end`; neither end is a hole */
    Py_ssize_t count, bytes;
    Measures *measures; /* or NULL */
    uint64_t timed;     /* the delivery that is timed; 0: none, since numbers begin with 1 */
    double since;       /* when it was sent */
    char in_batches;    /* the owner gets outcomes in batches */
} Unsettled;

static PyTypeObject unsettled_type;

/* Close the holes, or grow the array. */
static int grow(Unsettled *self) {
    Py_ssize_t index, to = 0, capacity = self->capacity ? 2 * self->capacity : MIN_CAPACITY;
    if (2 * self->count > self->capacity || self->capacity == 0) {
        sent *grown = self->all; /* PyMem_Resize sets its argument to NULL if memory is exhausted */
        PyMem_Resize(grown, sent, (size_t)capacity);
        if (grown == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        self->all = grown;
        self->capacity = capacity;
        return 0;
    }
    for (index = self->first; index < self->end; index++)
        if (self->all[index].context != NULL)
            self->all[to++] = self->all[index];
    self->first = 0;
    self->end = to;
    return 0;
}

/* The bytes that a context keeps alive: an event of a log is a tuple that begins with its message, for redelivery.
 * Other contexts refer to the incoming delivery, which is counted on its own connection. */
static Py_ssize_t data_kept_by(PyObject *context) {
    PyObject *data;
    if (!PyTuple_Check(context) || PyTuple_GET_SIZE(context) == 0)
        return 0;
    data = PyTuple_GET_ITEM(context, 0);
    return PyBytes_Check(data) ? PyBytes_GET_SIZE(data) : 0;
}

/* `count`: 1 adds, -1 subtracts. */
static void count_sent(Unsettled *self, const sent *place, Py_ssize_t count) {
    if (self->tally != NULL) {
        self->tally->out_bytes += count * proton_memory(place->size);
        self->tally->out_data += count * data_kept_by(place->context);
        self->tally->out_count += count;
    }
}

static int add_sent(Unsettled *self, uint64_t number, Py_ssize_t size, PyObject *context) {
    if (self->end > self->first && number <= self->all[self->end - 1].number) {
        PyErr_SetString(PyExc_ValueError, "the numbers of deliveries grow");
        return -1;
    }
    if (self->end == self->capacity && grow(self) < 0)
        return -1;
    self->all[self->end++] = (sent){number, size, Py_NewRef(context)};
    self->count++;
    self->bytes += size;
    count_sent(self, self->all + self->end - 1, 1);
    if (self->measures != NULL && self->timed == 0) {
        self->timed = number;
        self->since = monotonic_seconds();
    }
    return 0;
}

/* The index of a number; -1: not found. Numbers grow, so the distance from the first entry bounds the search. */
static Py_ssize_t find_sent(const Unsettled *self, uint64_t number) {
    Py_ssize_t low = self->first, high = self->end - 1, middle;
    if (low > high || number < self->all[low].number)
        return -1;
    if (number - self->all[low].number < (uint64_t)(high - low))
        high = low + (Py_ssize_t)(number - self->all[low].number);
    for (middle = high; low <= high; middle = low + (high - low) / 2) {
        if (self->all[middle].number == number)
            return self->all[middle].context == NULL ? -1 : middle;
        if (self->all[middle].number < number)
            low = middle + 1;
        else
            high = middle - 1;
    }
    return -1;
}

static void trim(Unsettled *self) {
    while (self->first < self->end && self->all[self->first].context == NULL)
        self->first++;
    while (self->first < self->end && self->all[self->end - 1].context == NULL)
        self->end--;
    if (self->first < self->end)
        return;
    self->first = self->end = 0;
    if (self->capacity > MAX_IDLE_CAPACITY) {
        PyMem_Free(self->all);
        self->all = NULL;
        self->capacity = 0;
    }
}

/* Remove the entry that `find_sent` found; returns its context as a new reference. */
static PyObject *take_context(Unsettled *self, Py_ssize_t index) {
    sent *place = self->all + index;
    PyObject *context = place->context;
    if (self->timed != 0 && self->timed == place->number) {
        self->timed = 0;
        if (self->measures != NULL)
            observe_seconds(&self->measures->sent, monotonic_seconds() - self->since);
    }
    count_sent(self, place, -1);
    place->context = NULL;
    self->count--;
    self->bytes -= place->size;
    if (index == self->first || index == self->end - 1)
        trim(self);
    return context;
}

static Py_ssize_t index_of(Unsettled *self, PyObject *number) {
    uint64_t number_value = PyLong_AsUnsignedLongLong(number);
    return number_value == (uint64_t)-1 && PyErr_Occurred() ? -1 : find_sent(self, number_value);
}

static PyObject *unsettled_add(Unsettled *self, PyObject *args) {
    unsigned long long number;
    Py_ssize_t size;
    PyObject *context;
    if (!PyArg_ParseTuple(args, "KnO", &number, &size, &context) || add_sent(self, number, size, context) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *unsettled_take(Unsettled *self, PyObject *const *args, Py_ssize_t count) {
    Py_ssize_t index;
    if (count != 1 && count != 2) {
        PyErr_SetString(PyExc_TypeError, "take expects a number, and optionally a default");
        return NULL;
    }
    index = index_of(self, args[0]);
    if (index >= 0)
        return take_context(self, index);
    if (PyErr_Occurred())
        return NULL;
    if (count == 2)
        return Py_NewRef(args[1]);
    PyErr_SetObject(PyExc_KeyError, args[0]);
    return NULL;
}

static PyObject *unsettled_get(Unsettled *self, PyObject *number) {
    Py_ssize_t index = index_of(self, number);
    if (index >= 0)
        return Py_NewRef(self->all[index].context);
    if (!PyErr_Occurred())
        PyErr_SetObject(PyExc_KeyError, number);
    return NULL;
}

static int unsettled_contains(Unsettled *self, PyObject *number) {
    Py_ssize_t index = index_of(self, number);
    return PyErr_Occurred() ? -1 : index >= 0;
}

static PyObject *unsettled_contexts(Unsettled *self, void *unused) {
    PyObject *found = PyList_New(0);
    Py_ssize_t index;
    for (index = self->first; found != NULL && index < self->end; index++)
        if (self->all[index].context != NULL && PyList_Append(found, self->all[index].context) < 0)
            Py_CLEAR(found);
    return found;
}

static int unsettled_clear(Unsettled *self) {
    sent *all = self->all;
    Py_ssize_t index, first = self->first, end = self->end;
    for (index = first; index < end; index++)
        if (all[index].context != NULL)
            count_sent(self, all + index, -1);
    self->all = NULL; /* code that runs while the contexts are freed finds the array empty */
    self->first = self->end = self->capacity = self->count = self->bytes = 0;
    self->timed = 0;
    for (index = first; index < end; index++)
        Py_XDECREF(all[index].context);
    PyMem_Free(all);
    return 0;
}

static PyObject *unsettled_take_all(Unsettled *self, PyObject *unused) {
    PyObject *found = unsettled_contexts(self, NULL);
    if (found != NULL)
        unsettled_clear(self);
    return found;
}

static Py_ssize_t unsettled_length(Unsettled *self) { return self->count; }

static int unsettled_forget(Unsettled *self) {
    Py_CLEAR(self->owner);
    return unsettled_clear(self);
}

static int unsettled_visit(Unsettled *self, visitproc visit, void *arg) {
    Py_ssize_t index;
    Py_VISIT(self->owner);
    for (index = self->first; index < self->end; index++)
        Py_VISIT(self->all[index].context);
    return 0;
}

static void unsettled_free(Unsettled *self) {
    PyObject_GC_UnTrack(self);
    unsettled_forget(self);
    Py_CLEAR(self->tally);
    Py_CLEAR(self->measures);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *unsettled_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *owner;
    Tally *tally;
    Unsettled *self;
    if (!parse_owner(args, named, &owner, &tally))
        return NULL;
    self = (Unsettled *)type->tp_alloc(type, 0);
    if (self != NULL) {
        self->owner = Py_NewRef(owner);
        self->tally = (Tally *)Py_XNewRef((PyObject *)tally);
    }
    return (PyObject *)self;
}

static PyObject *unsettled_disown(Unsettled *self, PyObject *Py_UNUSED(none)) {
    Py_SETREF(self->owner, Py_NewRef(Py_None));
    Py_RETURN_NONE;
}

static PyMethodDef unsettled_methods[] = {
    {"add", (PyCFunction)unsettled_add, METH_VARARGS, "Keep a context until the outcome of delivery `number`."},
    {"take", (PyCFunction)(void (*)(void))unsettled_take, METH_FASTCALL, "The context of a delivery, settled now."},
    {"get", (PyCFunction)unsettled_get, METH_O, "The context of a delivery, which stays unsettled."},
    {"take_all", (PyCFunction)unsettled_take_all, METH_NOARGS, "All contexts, oldest first; none is kept."},
    {"disown", (PyCFunction)unsettled_disown, METH_NOARGS, "Drop the reference to the owner, whose link has ended."},
    {NULL, NULL, 0, NULL},
};

static PyObject *unsettled_measures(const Unsettled *self, void *Py_UNUSED(closure)) {
    return shown_measures(self->measures);
}

static int unsettled_set_measures(Unsettled *self, PyObject *given, void *Py_UNUSED(closure)) {
    return replace_measures(&self->measures, given);
}

static PyGetSetDef unsettled_fields[] = {
    {"measures", (getter)unsettled_measures, (setter)unsettled_set_measures, "Of its rule, or None.", NULL},
    {"contexts", (getter)unsettled_contexts, NULL, "Of all deliveries, oldest first.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef unsettled_members[] = {
    {"bytes", T_PYSSIZET, offsetof(Unsettled, bytes), READONLY, "The size of the messages in bytes."},
    {"in_batches", T_BOOL, offsetof(Unsettled, in_batches), 0, "Whether the owner gets accepted deliveries in batches."},
    {NULL, 0, 0, 0, NULL},
};

static PySequenceMethods unsettled_sequence = {.sq_length = (lenfunc)unsettled_length,
                                               .sq_contains = (objobjproc)unsettled_contains};

static PyTypeObject unsettled_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "gateway.amqp.proton._batch.Unsettled",
    .tp_basicsize = sizeof(Unsettled),
    .tp_dealloc = (destructor)unsettled_free,
    .tp_traverse = (traverseproc)unsettled_visit,
    .tp_clear = (inquiry)unsettled_forget,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "The deliveries that were sent on one link and have no outcome yet.",
    .tp_as_sequence = &unsettled_sequence,
    .tp_methods = unsettled_methods,
    .tp_getset = unsettled_fields,
    .tp_members = unsettled_members,
    .tp_new = unsettled_new,
};
