/* Reads records from librdkafka in batches, without a Python object for each record.
 *
 * confluent-kafka's `consume` creates an object with topic, key and value for every record, and `headers` creates a
 * list of tuples; that is most of the cost of reading. Here the available records are copied into one block of memory
 * for each partition, a `Run`, without the interpreter lock; if wanted, digests of large records are checked there as
 * well (decision 103). A `Record` is an index into it, with the methods of a client's message. Nothing of librdkafka
 * outlives `take`: a run owns its bytes, refers to no fetched buffer, and stays valid when the client is closed.
 *
 * Records arrive as events (`rd_kafka_queue_poll`): no callbacks are called for the other events of a consumer's queue.
 * confluent-kafka's callbacks must not be called from here, because they need a state that only its own calls set. The
 * functions are those of the library that confluent-kafka has loaded; `bind` receives their addresses.
 */
#define PY_SSIZE_T_CLEAN
#define _GNU_SOURCE
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../_client.h"
#include "_columns.h"

#define FETCH 0x2 /* RD_KAFKA_EVENT_FETCH */
#define ERROR 0x8 /* RD_KAFKA_EVENT_ERROR */

typedef struct {
    const char *topic;
    int32_t partition;
    int64_t offset;
} place; /* how rd_kafka_topic_partition_t begins */

static struct {
    pointer (*queue)(pointer client);
    void (*leave)(pointer queue);
    pointer (*opaque)(pointer client);
    pointer (*poll)(pointer queue, int milliseconds);
    int (*kind)(pointer event);
    const message *(*next)(pointer event);
    void (*drop)(pointer event);
    int (*code)(pointer event);
    const char *(*reason)(pointer event);
    int (*is_fatal)(pointer event);
    place *(*where)(pointer event);
    void (*forget)(place *where);
    const char *(*topic_name)(pointer topic);
    int64_t (*time)(const message *record, int *kind);
    int (*headers)(const message *record, pointer *headers);
    int (*header)(pointer headers, size_t index, const char **name, const char **value, size_t *size);
} kafka;

#define FUNCTIONS ((Py_ssize_t)(sizeof kafka / sizeof(pointer)))

static PyTypeObject *client_type; /* confluent_kafka.Consumer */

/* -- runs */

static PyTypeObject run_type, record_type;

static PyObject *bytes_or_none(const char *data, int32_t size) {
    if (size < 0)
        Py_RETURN_NONE;
    return PyBytes_FromStringAndSize(data, size);
}

static PyObject *record_at(Run *run, Py_ssize_t index) {
    Record *record = PyObject_New(Record, &record_type);
    if (record == NULL)
        return NULL;
    Py_INCREF(run);
    record->run = run;
    record->entry = run->entries + index;
    return (PyObject *)record;
}

static void record_free(Record *self) {
    Py_DECREF(self->run);
    PyObject_Free(self);
}

static PyObject *record_offset(Record *self, PyObject *unused) { return PyLong_FromLongLong(self->entry->offset); }

static PyObject *record_key(Record *self, PyObject *unused) {
    return bytes_or_none(key_of(self->run, self->entry), self->entry->key_size);
}

static PyObject *record_value(Record *self, PyObject *unused) {
    return bytes_or_none(value_of(self->run, self->entry), self->entry->value_size);
}

static PyObject *record_timestamp(Record *self, PyObject *unused) {
    return Py_BuildValue("(iL)", self->entry->time_kind, (long long)self->entry->time);
}

static PyObject *record_topic(Record *self, PyObject *unused) {
    Py_INCREF(self->run->topic);
    return self->run->topic;
}

static PyObject *record_partition(Record *self, PyObject *unused) { return PyLong_FromLong(self->run->partition); }

static PyObject *record_error(Record *self, PyObject *unused) { Py_RETURN_NONE; }

static Py_ssize_t record_length(Record *self) { return positive_size(self->entry->value_size); }

static PyObject *record_headers(Record *self, PyObject *unused) {
    const char *at = headers_of(self->run, self->entry), *name, *value;
    header_sizes sizes;
    Py_ssize_t index;
    PyObject *headers, *header;
    if (self->entry->headers < 0)
        Py_RETURN_NONE;
    headers = PyList_New(self->entry->headers);
    for (index = 0; headers != NULL && index < self->entry->headers; index++) {
        at = read_header(at, &sizes, &name, &value);
        /* invalid UTF-8 in a name is decoded with replacement characters */
        header = Py_BuildValue("(NN)", PyUnicode_DecodeUTF8(name, sizes.name, "replace"),
                               bytes_or_none(value, sizes.value));
        if (header == NULL)
            Py_CLEAR(headers);
        else
            PyList_SET_ITEM(headers, index, header);
    }
    return headers;
}

static void run_free(Run *self) {
    Py_XDECREF(self->topic);
    free(self->entries);
    free(self->data);
    PyObject_Free(self);
}

static Py_ssize_t run_length(Run *self) { return self->count; }

static PyObject *run_item(Run *self, Py_ssize_t index) {
    if (index < 0 || index >= self->count) {
        PyErr_SetString(PyExc_IndexError, "the run has no record with this number");
        return NULL;
    }
    return record_at(self, index);
}

/* -- the screen (filters/header_screen.py): which headers a record must have */

typedef struct {
    const char *name, *content;
    Py_ssize_t name_size, content_size;
} pair;

typedef struct {
    pair *pairs;
    Py_ssize_t count;
    pair bare, whole; /* of `bare` only the name; `reserved` is the prefix of our own headers */
    const char *reserved;
    Py_ssize_t reserved_size;
} screen;

static bool is_equal(const char *left, Py_ssize_t left_size, const char *right, Py_ssize_t right_size) {
    return left_size == right_size && memcmp(left, right, (size_t)left_size) == 0;
}

static bool is_pair(const pair *wanted, const header_sizes *sizes, const char *name, const char *value) {
    return is_equal(name, sizes->name, wanted->name, wanted->name_size) &&
           is_equal(value, sizes->value, wanted->content, wanted->content_size);
}

static bool is_stored_header(const screen *screen, const char *value, int32_t size) {
    Py_ssize_t index;
    for (index = 0; size >= 0 && index < screen->count; index++)
        if (memmem(value, (size_t)size, screen->pairs[index].content, (size_t)screen->pairs[index].content_size) != NULL)
            return true;
    return false;
}

static bool is_bare_name(const screen *screen, const header_sizes *sizes, const char *name) {
    return is_equal(name, sizes->name, screen->bare.name, screen->bare.name_size);
}

static bool may_match(const screen *screen, const Run *run, const entry *each) {
    const char *at = headers_of(run, each), *name = NULL, *value = NULL;
    header_sizes sizes = {0, 0};
    bool unsure = false; /* whether the message may have properties that no header says */
    int32_t left;
    Py_ssize_t index;
    for (left = each->headers; left > 0; left--) {
        at = read_header(at, &sizes, &name, &value);
        for (index = 0; index < screen->count; index++)
            if (is_pair(screen->pairs + index, &sizes, name, value))
                return true;
        unsure = unsure || is_pair(&screen->whole, &sizes, name, value) ||
                 (left > 1 && is_bare_name(screen, &sizes, name));
    }
    if (name == NULL || unsure)
        return unsure;
    if (is_bare_name(screen, &sizes, name))
        return is_stored_header(screen, value, sizes.value);
    return sizes.name >= screen->reserved_size && memcmp(name, screen->reserved, (size_t)screen->reserved_size) == 0;
}

static int parse_pairs(PyObject *given, screen *screen) {
    Py_ssize_t index;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a tuple of pairs of bytes is wanted");
        return -1;
    }
    screen->count = PyTuple_GET_SIZE(given);
    screen->pairs = PyMem_New(pair, screen->count + 1);
    if (screen->pairs == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (index = 0; index < screen->count; index++) {
        pair *each = screen->pairs + index;
        PyObject *item = PyTuple_GET_ITEM(given, index);
        if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "y#y#", &each->name, &each->name_size, &each->content,
                                                      &each->content_size)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_TypeError, "a pair is a tuple");
            return -1;
        }
    }
    return 0;
}

/* screened(pairs, bare, reserved, (name, content) of a whole message) -> the records that may match */
static PyObject *run_filter_headers(Run *self, PyObject *args) {
    screen screen = {0};
    PyObject *pairs, *found = NULL, *record;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "Oy#y#(y#y#)", &pairs, &screen.bare.name, &screen.bare.name_size, &screen.reserved,
                          &screen.reserved_size, &screen.whole.name, &screen.whole.name_size, &screen.whole.content,
                          &screen.whole.content_size))
        return NULL;
    if (parse_pairs(pairs, &screen) == 0)
        found = PyList_New(0);
    for (index = 0; found != NULL && index < self->count; index++) {
        if (!may_match(&screen, self, self->entries + index))
            continue;
        record = record_at(self, index);
        if (record == NULL || PyList_Append(found, record) < 0)
            Py_CLEAR(found);
        Py_XDECREF(record);
    }
    PyMem_Free(screen.pairs);
    return found;
}

/* -- events: records encoded as the messages that links send (encoding.py) */

static PyObject *build_message(maker *maker, Run *run, const entry *each, PyObject *other) {
    PyObject *record, *data;
    if (fast_message(maker, run, each, &data))
        return data;
    record = record_at(run, each - run->entries);
    data = record == NULL ? NULL : PyObject_CallOneArg(other, record);
    Py_XDECREF(record);
    if (data != NULL && (!PyBytes_Check(data) || PyBytes_GET_SIZE(data) < 3)) {
        PyErr_SetString(PyExc_TypeError, "a message is bytes of sections");
        Py_CLEAR(data);
    }
    return data;
}

/* `Event` (redelivery.py): message, partition, offset, attempts, failures, time. */
static PyObject *new_event(PyTypeObject *type, PyObject *data, PyObject *partition, const entry *each) {
    PyObject *event = type->tp_alloc(type, 6), *nothing = PyLong_FromLong(0);
    if (event == NULL || nothing == NULL) {
        Py_XDECREF(event);
        Py_XDECREF(nothing);
        Py_DECREF(data);
        return NULL;
    }
    PyTuple_SET_ITEM(event, 0, data);
    PyTuple_SET_ITEM(event, 1, Py_NewRef(partition));
    PyTuple_SET_ITEM(event, 2, PyLong_FromLongLong(each->offset));
    PyTuple_SET_ITEM(event, 3, Py_NewRef(nothing));
    PyTuple_SET_ITEM(event, 4, nothing);
    PyTuple_SET_ITEM(event, 5, PyLong_FromLongLong(each->time));
    if (PyTuple_GET_ITEM(event, 2) == NULL || PyTuple_GET_ITEM(event, 5) == NULL)
        Py_CLEAR(event);
    else
        PyObject_GC_UnTrack(event); /* it cannot be part of a reference cycle */
    return event;
}

static int parse_template(PyObject *given, template *template) {
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a form is a tuple");
        return -1;
    }
    return PyArg_ParseTuple(given, "SSSSSS", &template->head, &template->middle, &template->end, &template->plain, &template->group,
                            &template->key) ? 0 : -1;
}

/* Parse (form for each timestamp type, (name of `amqp.bare`, name of the cookie header, prefix of request headers),
 * function for names, function for digests). */
static int parse_maker(PyObject *given, maker *maker) {
    PyObject *forms, *own;
    Py_ssize_t kind;
    if (!PyTuple_Check(given) || !PyArg_ParseTuple(given, "O!O!OO", &PyTuple_Type, &forms, &PyTuple_Type, &own,
                                                   &maker->names, &maker->digest)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "how messages are made is a tuple");
        return -1;
    }
    if (PyTuple_GET_SIZE(forms) != KINDS) {
        PyErr_Format(PyExc_TypeError, "%d forms are wanted, one for each kind of time", KINDS);
        return -1;
    }
    for (kind = 0; kind < KINDS; kind++)
        if (parse_template(PyTuple_GET_ITEM(forms, kind), maker->forms + kind) < 0)
            return -1;
    return PyArg_ParseTuple(own, "SSS", &maker->bare, &maker->cookie, &maker->request_prefix) ? 0 : -1;
}

static int check_type(PyTypeObject *type) {
    if (PyType_IsSubtype(type, &PyTuple_Type))
        return 0;
    PyErr_SetString(PyExc_TypeError, "an event is a tuple");
    return -1;
}

static bool is_limited(PyObject *data) {
    return may_have_ttl((const uint8_t *)PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data));
}

/* Store the events of a run in `found`, and the messages that may have a ttl in `limited`. */
static int build_events(Run *run, PyTypeObject *type, maker *maker, PyObject *other, PyObject *found, PyObject *limited) {
    PyObject *partition = PyLong_FromLong(run->partition), *data, *event;
    Py_ssize_t index, made = 0;
    for (index = 0; partition != NULL && index < run->count; index++, made++) {
        data = build_message(maker, run, run->entries + index, other);
        if (data != NULL && is_limited(data) && PyList_Append(limited, data) < 0)
            Py_CLEAR(data);
        event = data == NULL ? NULL : new_event(type, data, partition, run->entries + index);
        if (event == NULL)
            break;
        PyList_SET_ITEM(found, index, event);
    }
    Py_XDECREF(partition);
    return partition != NULL && made == run->count ? 0 : -1;
}

/* events(type, maker, function for all other records) -> events, messages that may have a ttl */
static PyObject *run_events(Run *self, PyObject *args) {
    PyTypeObject *type;
    PyObject *given, *other, *found, *limited;
    maker maker = {0};
    int failed;
    if (!PyArg_ParseTuple(args, "O!OO", &PyType_Type, &type, &given, &other) || parse_maker(given, &maker) < 0 ||
        check_type(type) < 0)
        return NULL;
    found = PyList_New(self->count);
    limited = PyList_New(0);
    failed = found == NULL || limited == NULL || build_events(self, type, &maker, other, found, limited) < 0;
    Py_XDECREF(maker.encoded);
    if (!failed)
        return Py_BuildValue("(NN)", found, limited);
    Py_XDECREF(found);
    Py_XDECREF(limited);
    return NULL;
}

/* event(type, maker, function for all other records) -> event */
static PyObject *record_event(Record *self, PyObject *args) {
    PyTypeObject *type;
    PyObject *given, *other, *data, *partition, *event = NULL;
    maker maker = {0};
    if (!PyArg_ParseTuple(args, "O!OO", &PyType_Type, &type, &given, &other) || parse_maker(given, &maker) < 0 ||
        check_type(type) < 0 || (partition = PyLong_FromLong(self->run->partition)) == NULL)
        return NULL;
    data = build_message(&maker, self->run, self->entry, other);
    Py_XDECREF(maker.encoded);
    if (data != NULL)
        event = new_event(type, data, partition, self->entry);
    Py_DECREF(partition);
    return event;
}

static PyMethodDef record_methods[] = {
    {"offset", (PyCFunction)record_offset, METH_NOARGS, "Where it is in its partition."},
    {"key", (PyCFunction)record_key, METH_NOARGS, "Its key, or None."},
    {"value", (PyCFunction)record_value, METH_NOARGS, "Its value, or None."},
    {"headers", (PyCFunction)record_headers, METH_NOARGS, "Names and values, or None."},
    {"timestamp", (PyCFunction)record_timestamp, METH_NOARGS, "Kind and time in milliseconds since 1970."},
    {"topic", (PyCFunction)record_topic, METH_NOARGS, "The topic it is of."},
    {"partition", (PyCFunction)record_partition, METH_NOARGS, "The partition it is of."},
    {"error", (PyCFunction)record_error, METH_NOARGS, "None."},
    {"event", (PyCFunction)record_event, METH_VARARGS, "It as an event."},
    {NULL, NULL, 0, NULL},
};

static PySequenceMethods record_sequence = {.sq_length = (lenfunc)record_length};

static PyTypeObject record_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bridges.kafka.consume._fetch.Record",
    .tp_basicsize = sizeof(Record),
    .tp_dealloc = (destructor)record_free,
    .tp_as_sequence = &record_sequence,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "One record of a run; its methods are those of a client's message.",
    .tp_methods = record_methods,
};

static PyObject *run_topic(Run *self, void *unused) {
    Py_INCREF(self->topic);
    return self->topic;
}

static PyObject *run_partition(Run *self, void *unused) { return PyLong_FromLong(self->partition); }

static PyObject *run_size(Run *self, void *unused) { return PyLong_FromSize_t(self->size); }

static PyMethodDef run_methods[] = {
    {"events", (PyCFunction)run_events, METH_VARARGS, "All records as events."},
    {"screened", (PyCFunction)run_filter_headers, METH_VARARGS, "The records whose headers say that they may match."},
    {"columns", (PyCFunction)run_columns, METH_NOARGS, "All records as the buffers of Arrow arrays."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef run_fields[] = {
    {"topic", (getter)run_topic, NULL, "The topic it is of.", NULL},
    {"partition", (getter)run_partition, NULL, "The partition it is of.", NULL},
    {"size", (getter)run_size, NULL, "Bytes of all keys, values and headers.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PySequenceMethods run_sequence = {.sq_length = (lenfunc)run_length, .sq_item = (ssizeargfunc)run_item};

static PyTypeObject run_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bridges.kafka.consume._fetch.Run",
    .tp_basicsize = sizeof(Run),
    .tp_dealloc = (destructor)run_free,
    .tp_as_sequence = &run_sequence,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .tp_doc = "Records of one partition in their order, in one piece of memory.",
    .tp_methods = run_methods,
    .tp_getset = run_fields,
};

/* -- taking; up to `made` without the interpreter lock */

typedef struct {
    pointer event, headers; /* NULL: none */
    const message *record;
    Py_ssize_t part;
    int32_t count; /* of headers */
} fetched;

typedef struct {
    char *topic; /* NULL: not of a partition */
    char *reason;
    int32_t partition;
    int64_t offset;
    int code;
    bool fatal;
} failure;

typedef struct {
    pointer topic;
    char *name;
    int32_t partition;
    Py_ssize_t count;
    size_t size;
    entry *entries;
    char *data;
} part; /* a run being built */

typedef struct {
    fetched *records;
    failure *failures;
    part *parts;
    Py_ssize_t most, count, failed, partitions, last, least;
    size_t bytes;
    PyObject *bare;     /* the name of `amqp.bare`, if digests of values of `least` bytes are checked; NULL: none are */
    bool out_of_memory; /* memory is exhausted */
} batch;

static bool begin_part(batch *batch, const message *record) {
    part *part = batch->parts + batch->partitions;
    part->topic = record->topic;
    part->partition = record->partition;
    part->name = strdup(kafka.topic_name(record->topic));
    batch->last = batch->partitions++;
    return part->name != NULL;
}

static bool belongs_to(const part *part, const message *record) {
    return part->partition == record->partition &&
           (part->topic == record->topic || strcmp(part->name, kafka.topic_name(record->topic)) == 0);
}

/* Find the run of a record, mostly that of the record before, or begin one. */
static bool find_or_begin_part(batch *batch, const message *record) {
    if (batch->partitions > 0 && belongs_to(batch->parts + batch->last, record))
        return true;
    for (batch->last = 0; batch->last < batch->partitions; batch->last++)
        if (belongs_to(batch->parts + batch->last, record))
            return true;
    return begin_part(batch, record);
}

/* The size of a record's headers, which live as long as its event. */
static size_t measure_headers(fetched *each) {
    const char *name, *value;
    size_t size, sum = 0;
    each->count = -1;
    if (kafka.headers(each->record, &each->headers) != 0)
        return 0;
    for (each->count = 0; kafka.header(each->headers, (size_t)each->count, &name, &value, &size) == 0; each->count++)
        sum += sizeof(header_sizes) + strlen(name) + (value == NULL ? 0 : size);
    return sum;
}

static bool add_record(batch *batch, pointer event, const message *record) {
    fetched *each = batch->records + batch->count++;
    size_t size;
    *each = (fetched){.event = event, .record = record};
    if (!find_or_begin_part(batch, record))
        return false;
    size = measure_headers(each) + (record->value == NULL ? 0 : record->value_size) + (record->key == NULL ? 0 : record->key_size);
    each->part = batch->last;
    batch->parts[each->part].count++;
    batch->parts[each->part].size += size;
    batch->bytes += size;
    return true;
}

static bool add_failure(batch *batch, pointer event) {
    failure *each = batch->failures + batch->failed++;
    const char *reason = kafka.reason(event);
    place *where = kafka.where(event);
    *each = (failure){.code = kafka.code(event), .fatal = kafka.is_fatal(event) != 0, .partition = -1, .offset = -1};
    each->reason = strdup(reason == NULL ? "" : reason);
    if (where != NULL) {
        each->topic = strdup(where->topic);
        each->partition = where->partition;
        each->offset = where->offset;
        kafka.forget(where);
    }
    return each->reason != NULL && (where == NULL || each->topic != NULL);
}

static bool add(batch *batch, pointer event) {
    const message *record;
    int kind = kafka.kind(event);
    bool done = true;
    if (kind == FETCH && (record = kafka.next(event)) != NULL)
        return add_record(batch, event, record);
    if (kind == ERROR)
        done = add_failure(batch, event);
    kafka.drop(event);
    return done;
}

static char *put_headers(char *at, const fetched *each) {
    const char *name, *value;
    size_t size;
    int32_t index;
    for (index = 0; index < each->count; index++) {
        header_sizes sizes;
        kafka.header(each->headers, (size_t)index, &name, &value, &size);
        sizes = (header_sizes){(int32_t)strlen(name), value == NULL ? -1 : (int32_t)size};
        memcpy(at, &sizes, sizeof sizes);
        memcpy(at += sizeof sizes, name, (size_t)sizes.name);
        at += sizes.name;
        if (value != NULL)
            memcpy(at, value, size);
        at += positive_size(sizes.value);
    }
    return at;
}

/* Append the copy of a record to its run. */
static entry *copy_record(part *part, const fetched *each) {
    const message *record = each->record;
    entry *entry = part->entries + part->count++;
    char *at = part->data + part->size;
    int kind = 0;
    entry->start = part->size;
    entry->offset = record->offset;
    entry->time = kafka.time(record, &kind);
    entry->time_kind = (int16_t)kind;
    entry->checked = UNCHECKED;
    entry->headers = each->count;
    entry->value_size = record->value == NULL ? -1 : (int32_t)record->value_size;
    entry->key_size = record->key == NULL ? -1 : (int32_t)record->key_size;
    if (record->value != NULL)
        memcpy(at, record->value, record->value_size);
    at += positive_size(entry->value_size);
    if (record->key != NULL)
        memcpy(at, record->key, record->key_size);
    part->size = (size_t)(put_headers(at + positive_size(entry->key_size), each) - part->data);
    return entry;
}

/* Check the digest of a copy while it is in the processor's caches, if it is a large one. */
static void check_copy(const batch *batch, const part *part, entry *copy) {
    Run run = {.data = part->data}; /* all that is read of one */
    if (batch->bare != NULL && copy->value_size >= 0 && copy->value_size >= batch->least)
        check_digest(&run, copy, batch->bare);
}

static bool grow(batch *batch) {
    Py_ssize_t index;
    for (index = 0; index < batch->partitions; index++) {
        part *part = batch->parts + index;
        part->entries = malloc((size_t)part->count * sizeof(entry));
        part->data = malloc(part->size + 1);
        if (part->entries == NULL || part->data == NULL)
            return false;
        part->count = 0;
        part->size = 0;
    }
    return true;
}

static void copy_all(batch *batch) {
    Py_ssize_t index;
    bool room = !batch->out_of_memory && grow(batch);
    for (index = 0; index < batch->count; index++) {
        fetched *each = batch->records + index;
        if (room)
            check_copy(batch, batch->parts + each->part, copy_record(batch->parts + each->part, each));
        kafka.drop(each->event);
    }
    batch->out_of_memory = !room;
}

static void poll_records(pointer client, batch *batch, size_t bytes, int milliseconds) {
    pointer queue = kafka.queue(client), event = NULL;
    if (queue == NULL)
        return;
    while (batch->count < batch->most && batch->failed < batch->most && batch->bytes < bytes && !batch->out_of_memory &&
           (event = kafka.poll(queue, milliseconds)) != NULL) {
        batch->out_of_memory = !add(batch, event);
        milliseconds = 0;
    }
    kafka.leave(queue);
    copy_all(batch);
}

static bool allocate(batch *batch, Py_ssize_t most) {
    batch->most = most;
    batch->records = malloc((size_t)most * sizeof(fetched));
    batch->failures = malloc((size_t)most * sizeof(failure));
    batch->parts = calloc((size_t)most, sizeof(part));
    return batch->records != NULL && batch->failures != NULL && batch->parts != NULL;
}

static void release(batch *batch) {
    Py_ssize_t index;
    for (index = 0; index < batch->failed; index++) {
        free(batch->failures[index].topic);
        free(batch->failures[index].reason);
    }
    for (index = 0; index < batch->partitions; index++) {
        free(batch->parts[index].name);
        free(batch->parts[index].entries);
        free(batch->parts[index].data);
    }
    free(batch->records);
    free(batch->failures);
    free(batch->parts);
}

static PyObject *new_run(part *part) {
    Run *run = PyObject_New(Run, &run_type);
    if (run == NULL)
        return NULL;
    run->topic = PyUnicode_FromString(part->name);
    run->partition = part->partition;
    run->count = part->count;
    run->size = part->size;
    run->entries = part->entries;
    run->data = part->data;
    part->entries = NULL;
    part->data = NULL;
    if (run->topic == NULL)
        Py_CLEAR(run);
    return (PyObject *)run;
}

static PyObject *new_failure(const failure *each) {
    return Py_BuildValue("(iNOziL)", each->code, PyUnicode_DecodeUTF8(each->reason, (Py_ssize_t)strlen(each->reason), "replace"),
                         each->fatal ? Py_True : Py_False, each->topic, (int)each->partition, (long long)each->offset);
}

static PyObject *batch_result(batch *batch) {
    PyObject *runs = PyList_New(batch->partitions), *failures = PyList_New(batch->failed), *item;
    Py_ssize_t index;
    for (index = 0; runs != NULL && index < batch->partitions; index++) {
        item = new_run(batch->parts + index);
        if (item == NULL)
            Py_CLEAR(runs);
        else
            PyList_SET_ITEM(runs, index, item);
    }
    for (index = 0; failures != NULL && index < batch->failed; index++) {
        item = new_failure(batch->failures + index);
        if (item == NULL)
            Py_CLEAR(failures);
        else
            PyList_SET_ITEM(failures, index, item);
    }
    if (runs != NULL && failures != NULL)
        return Py_BuildValue("(NN)", runs, failures);
    Py_XDECREF(runs);
    Py_XDECREF(failures);
    return NULL;
}

/* take(consumer, most, bytes, milliseconds, name of `amqp.bare` = None, least bytes of a value whose digest is checked = 0)
 * -> runs, failures (code, reason, fatal, topic, partition, offset) */
static PyObject *poll_batch(PyObject *module, PyObject *args) {
    PyObject *client, *bare = Py_None, *result;
    pointer handle_of_client;
    Py_ssize_t most, bytes;
    int milliseconds;
    batch batch = {0};
    if (!PyArg_ParseTuple(args, "Onni|On", &client, &most, &bytes, &milliseconds, &bare, &batch.least))
        return NULL;
    if (bare != Py_None && !PyBytes_Check(bare)) {
        PyErr_SetString(PyExc_TypeError, "the name of a header is bytes, or None");
        return NULL;
    }
    if (bare != Py_None && knows_sha256())
        batch.bare = bare;
    if (most < 1 || bytes < 1) {
        PyErr_SetString(PyExc_ValueError, "expected at least one record and one byte");
        return NULL;
    }
    if ((handle_of_client = handle_of(client, client_type, &kafka.opaque)) == NULL)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    if ((batch.out_of_memory = !allocate(&batch, most)) == false)
        poll_records(handle_of_client, &batch, (size_t)bytes, milliseconds);
    Py_END_ALLOW_THREADS
    result = batch.out_of_memory ? PyErr_NoMemory() : batch_result(&batch);
    release(&batch);
    return result;
}

/* bind(addresses, type of the clients) */
static PyObject *bind(PyObject *module, PyObject *args) {
    PyObject *addresses, *type;
    if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &addresses, &PyType_Type, &type) ||
        bound(addresses, &kafka, FUNCTIONS) < 0)
        return NULL;
    Py_INCREF(type);
    Py_XSETREF(client_type, (PyTypeObject *)type);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"bind", bind, METH_VARARGS, "Give the addresses of librdkafka's functions, once."},
    {"bind_sha256", bind_sha256, METH_VARARGS, "Give the addresses of libcrypto's functions, or zeros."},
    {"seal", (PyCFunction)(void (*)(void))seal, METH_FASTCALL, "What `amqp.bare` of a record has, or None."},
    {"sha256", sha256_py, METH_O, "SHA-256 by these functions, or None without them."},
    {"take", poll_batch, METH_VARARGS, "Take the records that are at hand, and wait for the first one."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_fetch", "Records of a Kafka client, many at a time", -1,
                                        methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fetch(void) {
    PyObject *module;
    if (PyType_Ready(&record_type) < 0 || PyType_Ready(&run_type) < 0)
        return NULL;
    module = PyModule_Create(&definition);
    if (module == NULL || PyModule_AddObjectRef(module, "Run", (PyObject *)&run_type) < 0 ||
        PyModule_AddObjectRef(module, "Record", (PyObject *)&record_type) < 0) {
        Py_XDECREF(module);
        return NULL;
    }
    return module;
}
