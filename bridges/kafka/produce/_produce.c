/* Hands records to librdkafka, and reads its delivery reports, without a Python object for each record.
 *
 * confluent-kafka's `produce` takes eight Python arguments and releases the interpreter lock for each record; for each
 * report `poll` takes the lock, creates a message object with copies of topic, key and value, and calls a callback.
 * Here one call returns the reports of all records, as lists of the contexts that were stored for them, and whole runs
 * of messages become records (`_record.h`) and go to librdkafka without Python.
 *
 * Reports arrive as events (`rd_kafka_queue_poll`), which call no callbacks: confluent-kafka's callback for reports
 * would interpret our numbers as its own pointers. So `poll` and `flush` must not be called on a client that has an
 * `Outbox`.
 *
 * The opaque value of a record is the index of its place in the outbox plus one. Its context is returned with its
 * report, or freed with the outbox, whichever comes first.
 *
 * A replay produces records from columns (Arrow's buffers) in a transaction, which is written as a whole or not at all.
 * These records, and those of AMQP transactions (whose owner is None), have no context and the opaque value NULL, which
 * confluent-kafka's callback ignores; their reports are counted, and the first error is kept.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../../../gateway/observability/_histogram.h"
#include "../_client.h"
#include "_record.h"

#define REPORTS 0x1 /* RD_KAFKA_EVENT_DR */
#define ERROR 0x8   /* RD_KAFKA_EVENT_ERROR */
#define FATAL -150  /* RD_KAFKA_RESP_ERR__FATAL: the real code has to be queried */
#define INVALID -186 /* RD_KAFKA_RESP_ERR__INVALID_ARG */
#define OUTSIDE (-1000000) /* no code of librdkafka */
#define COPY 0x2    /* RD_KAFKA_MSG_F_COPY */
#define ANY_PARTITION -1
#define REASON 512
#define LEAST_ROOM 64
#define MAX_IDLE_CAPACITY 8192 /* an empty outbox with more places is freed */

enum { END = 0, TOPIC = 2, PARTITION = 3, VALUE = 4, KEY = 5, OPAQUE = 6, FLAGS = 7, TIMESTAMP = 8, HEADERS = 10 }; /* rd_kafka_vtype_t */

static struct {
    pointer (*opaque)(pointer client);
    pointer (*queue)(pointer client);
    void (*leave)(pointer queue);
    pointer (*poll)(pointer queue, int milliseconds);
    int (*kind)(pointer event);
    const message *(*next)(pointer event);
    void (*drop)(pointer event);
    int (*code)(pointer event);
    const char *(*reason)(pointer event);
    int (*is_fatal)(pointer event);
    int (*fatal)(pointer client, char *reason, size_t size);
    pointer (*topic)(pointer client, const char *name, pointer settings);
    void (*let_go)(pointer topic);
    int (*produce)(pointer client, ...);
    pointer (*make_headers)(size_t count);
    int (*add_header)(pointer headers, const char *name, Py_ssize_t name_size, const char *value, Py_ssize_t size);
    void (*drop_headers)(pointer headers);
    int (*waiting)(pointer client);
    void (*wake)(pointer queue, int file, const void *payload, size_t size);
} kafka;

#define FUNCTIONS ((Py_ssize_t)(sizeof kafka / sizeof(pointer)))

static PyTypeObject *client_type; /* confluent_kafka.Producer */

/* -- contexts of records */

typedef struct {
    PyObject *owner; /* NULL: the place is free */
    union {
        PyObject *context;
        size_t next; /* the next free place */
    } its;
    size_t size; /* bytes that librdkafka needs for the record, roughly */
    double since; /* when it was handed over */
} place;

#define NO_PLACE SIZE_MAX /* of a record without a context */
#define BESIDE 256 /* bytes that librdkafka needs for a record beside its key, value and headers, roughly */

typedef struct {
    PyObject_HEAD
    PyObject *client;
    pointer handle, queue;
    place *places;
    size_t capacity, free, count; /* `free` is the first free place; if it equals `capacity`, there is none */
    size_t bytes; /* the sum of all sizes */
    int failed; /* the first error code of a record without a context, since `settle` */
    Py_ssize_t reported; /* records without a context, since `settle` */
    size_t anonymous; /* bytes of records without a context that were put one by one or as messages */
    double now; /* at the start of the present call */
    seconds_histogram written; /* from handing a record over to its report */
} Outbox;

static PyTypeObject outbox_type;

static bool grow(Outbox *self) {
    size_t index, room = self->capacity ? 2 * self->capacity : LEAST_ROOM;
    place *grown = self->places; /* PyMem_Resize sets its argument to NULL if memory is exhausted */
    PyMem_Resize(grown, place, room);
    if (grown == NULL) {
        PyErr_NoMemory();
        return false;
    }
    for (index = self->capacity; index < room; index++)
        grown[index] = (place){NULL, {.next = index + 1}, 0, 0.0};
    self->places = grown;
    self->free = self->capacity;
    self->capacity = room;
    return true;
}

/* Make sure that there is a free place for a record of this owner. */
static bool has_place(Outbox *self, PyObject *owner) { return owner == Py_None || self->free != self->capacity || grow(self); }

/* Store owner and context; returns the index of their place, NO_PLACE if the owner is None. */
static size_t store_context(Outbox *self, PyObject *owner, PyObject *context, size_t size) {
    size_t index = self->free;
    place *place = self->places + index;
    if (owner == Py_None) {
        self->anonymous += size + BESIDE;
        return NO_PLACE;
    }
    self->free = place->its.next;
    self->count++;
    place->owner = Py_NewRef(owner);
    place->its.context = Py_NewRef(context);
    self->bytes += place->size = size + BESIDE;
    place->since = self->now;
    return index;
}

/* Free a place; its contents now belong to the caller. False: it was free. */
static bool take_context(Outbox *self, size_t index, PyObject **owner, PyObject **context) {
    place *place = self->places + index;
    if (index >= self->capacity || place->owner == NULL)
        return false;
    *owner = place->owner;
    *context = place->its.context;
    place->owner = NULL;
    place->its.next = self->free;
    self->free = index;
    self->count--;
    self->bytes -= place->size;
    return true;
}

static void discard(Outbox *self, size_t index, size_t size) {
    PyObject *owner, *context;
    if (index == NO_PLACE)
        self->anonymous -= size + BESIDE;
    else if (take_context(self, index, &owner, &context)) {
        Py_DECREF(owner);
        Py_DECREF(context);
    }
}

static void trim(Outbox *self) {
    if (self->count > 0 || self->capacity <= MAX_IDLE_CAPACITY)
        return;
    PyMem_Free(self->places);
    self->places = NULL;
    self->capacity = self->free = 0;
}

/* -- handing records to librdkafka */

/* librdkafka's error code; 0: it has taken the record and its headers, and will report it. */
static int produce(Outbox *self, pointer topic, int partition, piece key, piece value, pointer headers, size_t kept) {
    return kafka.produce(self->handle, TOPIC, topic, PARTITION, partition, FLAGS, COPY, VALUE, value.data, value.size, KEY,
                         key.data, key.size, HEADERS, headers, OPAQUE, (pointer)(uintptr_t)(kept + 1), END);
}

static bool parse_bytes(PyObject *given, piece *found) {
    *found = (piece){NULL, 0};
    if (given == Py_None)
        return true;
    if (!PyBytes_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "keys and values are bytes or None");
        return false;
    }
    *found = (piece){PyBytes_AS_STRING(given), (size_t)PyBytes_GET_SIZE(given)};
    return true;
}

/* Add one header, a tuple of name and value. As in confluent-kafka, a name ends at its first NUL. */
static bool add_header(pointer headers, PyObject *given, size_t *size) {
    const char *name;
    piece value;
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != 2 || !PyUnicode_Check(PyTuple_GET_ITEM(given, 0))) {
        PyErr_SetString(PyExc_TypeError, "a header is a tuple of a text and bytes or None");
        return false;
    }
    if (!parse_bytes(PyTuple_GET_ITEM(given, 1), &value) || (name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(given, 0))) == NULL)
        return false;
    *size += strlen(name) + value.size;
    if (kafka.add_header(headers, name, -1, value.data, (Py_ssize_t)value.size) == 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "librdkafka does not take the header");
    return false;
}

/* `headers` is NULL if there are none; their size is added to `size`. */
static bool read_headers(PyObject *given, pointer *headers, size_t *size) {
    Py_ssize_t index;
    *headers = NULL;
    if (given == Py_None)
        return true;
    if (!PyList_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "headers are a list or None");
        return false;
    }
    if (PyList_GET_SIZE(given) > 0)
        *headers = kafka.make_headers((size_t)PyList_GET_SIZE(given));
    for (index = 0; index < PyList_GET_SIZE(given); index++)
        if (!add_header(*headers, PyList_GET_ITEM(given, index), size)) {
            kafka.drop_headers(*headers);
            return false;
        }
    return true;
}

static bool is_open(const Outbox *self) {
    if (self->handle == NULL)
        PyErr_SetString(PyExc_RuntimeError, "the outbox is closed");
    return self->handle != NULL;
}

/* librdkafka's handle of a topic, to be released by the caller; NULL: the name is invalid. It is looked up by name
 * each time, as in confluent-kafka: a stored handle would keep outdated metadata of a topic that was deleted and
 * created again. */
static pointer topic_handle(Outbox *self, const char *name) { return kafka.topic(self->handle, name, NULL); }

/* put(topic, partition, key, value, headers, owner, context) -> librdkafka's error code; 0: it will be reported */
static PyObject *outbox_put(Outbox *self, PyObject *args) {
    const char *name;
    int partition, code = INVALID;
    PyObject *given_key, *given_value, *given_headers, *owner, *context;
    piece key, value;
    pointer headers = NULL, topic;
    size_t kept, size;
    if (!PyArg_ParseTuple(args, "siOOOOO", &name, &partition, &given_key, &given_value, &given_headers, &owner, &context))
        return NULL;
    if (!is_open(self) || !parse_bytes(given_key, &key) || !parse_bytes(given_value, &value))
        return NULL;
    size = key.size + value.size;
    self->now = monotonic_seconds();
    if (!has_place(self, owner) || !read_headers(given_headers, &headers, &size))
        return NULL;
    kept = store_context(self, owner, context, size);
    if ((topic = topic_handle(self, name)) != NULL) {
        code = produce(self, topic, partition, key, value, headers, kept);
        kafka.let_go(topic);
    }
    if (code != 0)
        discard(self, kept, size);
    if (code != 0 && headers != NULL)
        kafka.drop_headers(headers);
    return PyLong_FromLong(code);
}

/* The headers of a record for librdkafka, NULL if there are none; their size is added to `size`. False: it refuses them. */
static bool make_headers(const record *made, pointer *headers, size_t *size) {
    size_t index;
    *headers = made->count == 0 ? NULL : kafka.make_headers(made->count);
    for (index = 0; index < made->count; index++) {
        piece name = made->headers[index].name, content = made->headers[index].content;
        *size += name.size + content.size;
        if (kafka.add_header(*headers, name.data, (Py_ssize_t)name.size, content.data, (Py_ssize_t)content.size) != 0) {
            kafka.drop_headers(*headers);
            return false;
        }
    }
    return true;
}

/* Hand over one message; false: the caller does so by itself, and gets the error there. */
static bool put_message(Outbox *self, pointer topic, int partition, PyObject *delivery, const record *made, PyObject *owner) {
    size_t kept, size = made->key.size + made->value.size;
    pointer headers;
    if (!has_place(self, owner) || !make_headers(made, &headers, &size))
        return false;
    kept = store_context(self, owner, delivery, size);
    if (produce(self, topic, partition, made->key, made->value, headers, kept) == 0)
        return true;
    discard(self, kept, size);
    if (headers != NULL)
        kafka.drop_headers(headers);
    return false;
}

/* The value of a row, a tuple that begins with it; false: it is none. */
static bool read_row(PyObject *row, piece *value) {
    if (PyTuple_Check(row) && PyTuple_GET_SIZE(row) > 0 && PyBytes_Check(PyTuple_GET_ITEM(row, 0)))
        return parse_bytes(PyTuple_GET_ITEM(row, 0), value);
    PyErr_SetString(PyExc_TypeError, "a row is a tuple that begins with bytes");
    return false;
}

/* put_rows(topic, key, rows, owner) -> how many were handed over; each row is its own context */
static PyObject *outbox_put_rows(Outbox *self, PyObject *args) {
    const char *name;
    PyObject *given_key, *rows, *owner;
    Py_ssize_t index = 0;
    piece key, value;
    pointer topic;
    size_t kept;
    bool failed = false;
    if (!PyArg_ParseTuple(args, "sOO!O", &name, &given_key, &PyList_Type, &rows, &owner) || !is_open(self) ||
        !parse_bytes(given_key, &key))
        return NULL;
    if ((topic = topic_handle(self, name)) == NULL)
        return PyLong_FromSsize_t(0);
    self->now = monotonic_seconds();
    for (; index < PyList_GET_SIZE(rows); index++) {
        failed = !read_row(PyList_GET_ITEM(rows, index), &value) || !has_place(self, owner);
        if (failed)
            break;
        kept = store_context(self, owner, PyList_GET_ITEM(rows, index), key.size + value.size);
        if (produce(self, topic, ANY_PARTITION, key, value, NULL, kept) != 0) {
            discard(self, kept, key.size + value.size);
            break;
        }
    }
    kafka.let_go(topic);
    return failed ? NULL : PyLong_FromSsize_t(index);
}

/* Messages are tuples (delivery, message, settled); this hands over those that are unsettled. */
static bool is_unsettled(PyObject *item) {
    return PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 3 && PyTuple_GET_ITEM(item, 2) == Py_False;
}

/* put_messages(topic, partition, messages, start, owner, rules) -> the index of the first message that was not handed over */
static PyObject *outbox_put_messages(Outbox *self, PyObject *args) {
    const char *name;
    int partition, rules = 0;
    PyObject *messages, *owner, *item;
    Py_ssize_t index;
    pointer topic;
    record made;
    if (!PyArg_ParseTuple(args, "siO!nO|i", &name, &partition, &PyList_Type, &messages, &index, &owner, &rules))
        return NULL;
    if (index < 0) {
        PyErr_SetString(PyExc_IndexError, "a list begins with 0");
        return NULL;
    }
    if (!is_open(self))
        return NULL;
    if ((topic = topic_handle(self, name)) == NULL)
        return PyLong_FromSsize_t(index);
    self->now = monotonic_seconds();
    for (; index < PyList_GET_SIZE(messages) && is_unsettled(item = PyList_GET_ITEM(messages, index)); index++)
        if (!map_record(PyTuple_GET_ITEM(item, 1), rules, &made) ||
            !put_message(self, topic, partition, PyTuple_GET_ITEM(item, 0), &made, owner))
            break;
    kafka.let_go(topic);
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(index);
}

/* usual(messages, start, rules) -> the index of the first message from `start` on that `put_messages` does not hand over */
static PyObject *usual(PyObject *module, PyObject *args) {
    PyObject *messages, *item;
    Py_ssize_t index;
    int rules;
    record made;
    if (!PyArg_ParseTuple(args, "O!ni", &PyList_Type, &messages, &index, &rules))
        return NULL;
    if (index < 0) {
        PyErr_SetString(PyExc_IndexError, "a list begins with 0");
        return NULL;
    }
    while (index < PyList_GET_SIZE(messages) && is_unsettled(item = PyList_GET_ITEM(messages, index)) &&
           map_record(PyTuple_GET_ITEM(item, 1), rules, &made))
        index++;
    return PyErr_Occurred() ? NULL : PyLong_FromSsize_t(index);
}

/* -- records for tests, and for messages that are handed over one by one */

static PyObject *bytes_or_none(piece found) {
    return found.data == NULL ? Py_NewRef(Py_None) : PyBytes_FromStringAndSize(found.data, (Py_ssize_t)found.size);
}

static PyObject *header_list(const record *made) {
    PyObject *list = PyList_New((Py_ssize_t)made->count), *pair;
    size_t index;
    for (index = 0; list != NULL && index < made->count; index++) {
        piece name = made->headers[index].name;
        pair = Py_BuildValue("(s#N)", name.data, (Py_ssize_t)name.size, bytes_or_none(made->headers[index].content));
        if (pair == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, (Py_ssize_t)index, pair);
    }
    return list;
}

/* record_of(message, rules) -> (key, value, headers), or ...: Python has to make it, or says what is wrong */
static PyObject *record_of(PyObject *module, PyObject *args) {
    PyObject *message;
    int rules;
    record made;
    if (!PyArg_ParseTuple(args, "Si", &message, &rules))
        return NULL;
    if (!map_record(message, rules, &made))
        return Py_NewRef(Py_Ellipsis);
    return Py_BuildValue("(NNN)", bytes_or_none(made.key), bytes_or_none(made.value), header_list(&made));
}

/* -- records from columns */

/* A column of texts or binaries in Arrow's layout: `ends` has one item more than the column has values, `valid` is a
 * bitmap (NULL: none is null), and the first row of the column is the one with the number `first`. */
typedef struct {
    Py_buffer ends, data, valid;
    Py_ssize_t first;
} binaries;

typedef struct {
    Py_buffer partitions, times, headers; /* int32, int64; int32 positions in the columns of the headers */
    binaries keys, values, names, contents;
    Py_ssize_t count, first_header; /* `first_header`: the number of the first row in `headers` */
} columns;

static int optional_buffer(PyObject *given, void *found) {
    Py_buffer *buffer = found;
    if (given == NULL) {
        PyBuffer_Release(buffer);
        return 1;
    }
    if (given != Py_None && PyObject_GetBuffer(given, buffer, PyBUF_SIMPLE) < 0)
        return 0;
    return Py_CLEANUP_SUPPORTED;
}

static void release_binaries(binaries *column) {
    PyBuffer_Release(&column->ends);
    PyBuffer_Release(&column->data);
    PyBuffer_Release(&column->valid);
}

static void release_columns(columns *records) {
    PyBuffer_Release(&records->partitions);
    PyBuffer_Release(&records->times);
    PyBuffer_Release(&records->headers);
    release_binaries(&records->keys);
    release_binaries(&records->values);
    release_binaries(&records->names);
    release_binaries(&records->contents);
}

static bool read_binaries(PyObject *given, binaries *column) {
    if (!PyArg_ParseTuple(given, "O&O&O&n", optional_buffer, &column->ends, optional_buffer, &column->data,
                          optional_buffer, &column->valid, &column->first))
        return false;
    if (column->first >= 0)
        return true;
    PyErr_SetString(PyExc_ValueError, "a column begins with a row before the first");
    return false;
}

static bool read_columns(PyObject *given, columns *records) {
    PyObject *keys, *values, *names, *contents;
    if (!PyArg_ParseTuple(given, "nO&O&O!O!O&nO!O!", &records->count, optional_buffer, &records->partitions,
                          optional_buffer, &records->times, &PyTuple_Type, &keys, &PyTuple_Type, &values,
                          optional_buffer, &records->headers, &records->first_header, &PyTuple_Type, &names,
                          &PyTuple_Type, &contents))
        return false;
    return read_binaries(keys, &records->keys) && read_binaries(values, &records->values) &&
           read_binaries(names, &records->names) && read_binaries(contents, &records->contents);
}

/* Whether a buffer has `count` items of this size from item `first` on. */
static bool holds(const Py_buffer *buffer, Py_ssize_t first, Py_ssize_t count, size_t size) {
    return first >= 0 && count >= 0 && (size_t)(buffer->len) / size >= (size_t)first &&
           (size_t)(buffer->len) / size - (size_t)first >= (size_t)count;
}

static bool is_null(const binaries *column, Py_ssize_t row) {
    const unsigned char *bits = column->valid.buf;
    return bits != NULL && (bits[row >> 3] >> (row & 7) & 1) == 0;
}

/* The value of a row; false: a position is outside of its buffer. */
static bool value_at(const binaries *column, Py_ssize_t row, piece *found) {
    const int32_t *ends = column->ends.buf;
    row += column->first;
    *found = (piece){NULL, 0};
    if (!holds(&column->ends, row, 2, sizeof *ends) || (column->valid.buf != NULL && row >> 3 >= column->valid.len))
        return false;
    if (is_null(column, row))
        return true;
    if (ends[row] < 0 || ends[row + 1] < ends[row] || ends[row + 1] > column->data.len)
        return false;
    found->data = column->data.len > 0 ? (const char *)column->data.buf + ends[row] : "";
    found->size = (size_t)(ends[row + 1] - ends[row]);
    return true;
}

/* The headers of a row for librdkafka, which may be NULL; false: a position is outside of its buffer. */
static bool headers_at(const columns *records, Py_ssize_t row, pointer *headers) {
    const int32_t *ends = records->headers.buf;
    int32_t at;
    piece name, value;
    *headers = NULL;
    row += records->first_header;
    if (!holds(&records->headers, row, 2, sizeof *ends))
        return false;
    for (at = ends[row]; at < ends[row + 1]; at++) {
        if (at < 0 || !value_at(&records->names, at, &name) || !value_at(&records->contents, at, &value))
            return false;
        if (*headers == NULL)
            *headers = kafka.make_headers((size_t)(ends[row + 1] - ends[row]));
        /* librdkafka takes a length of -1 for "up to the first NUL", and NULL only for a value */
        if (kafka.add_header(*headers, name.data == NULL ? "" : name.data, (Py_ssize_t)name.size, value.data,
                             (Py_ssize_t)value.size) != 0)
            return false;
    }
    return true;
}

/* librdkafka's error code, 0 if it has taken the record; OUTSIDE: a position is outside of its buffer. */
static int produce_row(Outbox *self, pointer topic, const columns *records, Py_ssize_t row) {
    piece key, value;
    pointer headers = NULL;
    int code = OUTSIDE;
    if (value_at(&records->keys, row, &key) && value_at(&records->values, row, &value) &&
        headers_at(records, row, &headers))
        code = kafka.produce(self->handle, TOPIC, topic, PARTITION, ((const int32_t *)records->partitions.buf)[row],
                             FLAGS, COPY, VALUE, value.data, value.size, KEY, key.data, key.size, TIMESTAMP,
                             ((const int64_t *)records->times.buf)[row], HEADERS, headers, OPAQUE, (pointer)NULL, END);
    if (code != 0 && headers != NULL)
        kafka.drop_headers(headers);
    return code;
}

static PyObject *produce_columns(Outbox *self, const char *name, const columns *records, Py_ssize_t row) {
    int code = 0;
    pointer topic;
    if (row < 0 || !holds(&records->partitions, 0, records->count, 4) || !holds(&records->times, 0, records->count, 8)) {
        PyErr_SetString(PyExc_ValueError, "a column has fewer rows than there are records");
        return NULL;
    }
    if ((topic = topic_handle(self, name)) == NULL)
        return Py_BuildValue("(ni)", row, INVALID);
    while (row < records->count && (code = produce_row(self, topic, records, row)) == 0)
        row++;
    kafka.let_go(topic);
    if (code == OUTSIDE) {
        PyErr_Format(PyExc_ValueError, "row %zd of a column is outside of its buffers", row);
        return NULL;
    }
    return Py_BuildValue("(ni)", row, code);
}

/* put_columns(topic, columns, start) -> the first row that was not handed over, and librdkafka's error code for it */
static PyObject *outbox_put_columns(Outbox *self, PyObject *args) {
    const char *name;
    PyObject *given, *found = NULL;
    Py_ssize_t start;
    columns records;
    memset(&records, 0, sizeof records);
    if (!PyArg_ParseTuple(args, "sO!n", &name, &PyTuple_Type, &given, &start) || !is_open(self))
        return NULL;
    if (read_columns(given, &records))
        found = produce_columns(self, name, &records, start);
    release_columns(&records);
    return found;
}

/* -- reports */

typedef struct {
    PyObject *groups, *errors;
    PyObject *owner, *found; /* of the last group; borrowed */
    int code;
    bool keyed;
} reports;

/* Start a group: (owner, code, whether the records have keys, contexts). */
static bool append_group(reports *reports, PyObject *owner, int code, bool keyed) {
    PyObject *found = PyList_New(0);
    PyObject *group = found == NULL ? NULL : Py_BuildValue("(OiOO)", owner, code, keyed ? Py_True : Py_False, found);
    bool done = group != NULL && PyList_Append(reports->groups, group) == 0;
    Py_XDECREF(found);
    Py_XDECREF(group);
    reports->owner = owner;
    reports->found = done ? found : NULL;
    reports->code = code;
    reports->keyed = keyed;
    return done;
}

static bool add_report(Outbox *self, reports *reports, const message *record) {
    PyObject *owner, *context;
    bool keyed = record->code != 0 && record->key != NULL, done = true;
    if (record->own == NULL) {
        self->reported++;
        self->failed = self->failed == 0 ? record->code : self->failed;
    }
    if (record->own == NULL || !take_context(self, (size_t)(uintptr_t)record->own - 1, &owner, &context))
        return true;
    if (record->code == 0) /* what was in the place is there until the next record */
        observe_seconds(&self->written, self->now - self->places[(size_t)(uintptr_t)record->own - 1].since);
    if (reports->found == NULL || reports->owner != owner || reports->code != record->code || reports->keyed != keyed)
        done = append_group(reports, owner, record->code, keyed);
    done = done && PyList_Append(reports->found, context) == 0;
    Py_DECREF(owner); /* the group has a reference */
    Py_DECREF(context);
    return done;
}

/* (code, reason, whether the error is fatal) */
static bool add_error(Outbox *self, reports *reports, pointer event) {
    char room[REASON] = "";
    int code = kafka.code(event);
    const char *reason = kafka.reason(event);
    bool fatal = code == FATAL || kafka.is_fatal(event) != 0, done;
    PyObject *error;
    if (code == FATAL && (code = kafka.fatal(self->handle, room, sizeof room)) != 0)
        reason = room;
    if (reason == NULL)
        reason = "";
    error = Py_BuildValue("(iNO)", code, PyUnicode_DecodeUTF8(reason, (Py_ssize_t)strlen(reason), "replace"),
                          fatal ? Py_True : Py_False);
    done = error != NULL && PyList_Append(reports->errors, error) == 0;
    Py_XDECREF(error);
    return done;
}

static bool add_event(Outbox *self, reports *reports, pointer event) {
    const message *record;
    int kind = kafka.kind(event);
    bool done = true;
    if (kind == ERROR)
        return add_error(self, reports, event);
    self->now = monotonic_seconds();
    while (kind == REPORTS && done && (record = kafka.next(event)) != NULL)
        done = add_report(self, reports, record);
    return done;
}

/* reports() -> the outcomes of records in the order of their reports, and the errors of the client */
static PyObject *outbox_reports(Outbox *self, PyObject *unused) {
    reports reports = {PyList_New(0), PyList_New(0), NULL, NULL, 0, false};
    bool done = reports.groups != NULL && reports.errors != NULL && is_open(self);
    pointer event;
    while (done && (event = kafka.poll(self->queue, 0)) != NULL) {
        done = add_event(self, &reports, event);
        kafka.drop(event);
    }
    if (done) {
        trim(self);
        return Py_BuildValue("(NN)", reports.groups, reports.errors);
    }
    Py_XDECREF(reports.groups);
    Py_XDECREF(reports.errors);
    return NULL;
}

/* settle(milliseconds) -> (how many records are not reported yet, the first error code of a record without a context, how
 * many of these were reported since the last call)
 *
 * Takes reports for at most this time, and forgets the error and the number. Only for a client whose records have no context. */
static PyObject *outbox_settle(Outbox *self, PyObject *args) {
    reports unused = {NULL, NULL, NULL, NULL, 0, false};
    int milliseconds, left, failed;
    Py_ssize_t reported;
    pointer event;
    const message *record;
    if (!PyArg_ParseTuple(args, "i", &milliseconds) || !is_open(self))
        return NULL;
    do {
        Py_BEGIN_ALLOW_THREADS
        event = kafka.poll(self->queue, milliseconds);
        Py_END_ALLOW_THREADS
        milliseconds = 0;
        while (event != NULL && kafka.kind(event) == REPORTS && (record = kafka.next(event)) != NULL)
            if (record->own == NULL)
                add_report(self, &unused, record);
        if (event != NULL)
            kafka.drop(event);
    } while (event != NULL);
    left = kafka.waiting(self->handle);
    failed = self->failed, reported = self->reported;
    self->failed = 0, self->reported = 0;
    if (left == 0) /* what each record took is not known, but there is none */
        self->anonymous = 0;
    return Py_BuildValue("(iin)", left, failed, reported);
}

/* wake(file): librdkafka's thread writes a byte to this file when there are reports again; -1: no longer.
 *
 * The file must stay open until then. After a byte there is no other one until reports were taken. */
static PyObject *outbox_wake(Outbox *self, PyObject *args) {
    int file;
    if (!PyArg_ParseTuple(args, "i", &file) || !is_open(self))
        return NULL;
    kafka.wake(self->queue, file, "", 1);
    Py_RETURN_NONE;
}

/* -- the outbox */

static int outbox_visit(Outbox *self, visitproc visit, void *arg) {
    size_t index;
    Py_VISIT(self->client);
    for (index = 0; index < self->capacity; index++)
        if (self->places[index].owner != NULL) {
            Py_VISIT(self->places[index].owner);
            Py_VISIT(self->places[index].its.context);
        }
    return 0;
}

/* The contexts are freed first and the client last: it must not be freed before the queue that is read from it. */
static int outbox_clear(Outbox *self) {
    place *places = self->places;
    size_t index, room = self->capacity;
    pointer queue = self->queue;
    self->places = NULL; /* code that runs while the contexts are freed finds the array empty */
    self->capacity = self->free = self->count = self->bytes = 0;
    self->handle = self->queue = NULL;
    for (index = 0; index < room; index++)
        if (places[index].owner != NULL) {
            Py_DECREF(places[index].owner);
            Py_DECREF(places[index].its.context);
        }
    PyMem_Free(places);
    if (queue != NULL) {
        kafka.wake(queue, -1, NULL, 0); /* the file may be another one soon */
        kafka.leave(queue);
    }
    Py_CLEAR(self->client);
    return 0;
}

static void outbox_free(Outbox *self) {
    PyObject_GC_UnTrack(self);
    outbox_clear(self);
    Py_TYPE(self)->tp_free((PyObject *)self);
}

static PyObject *outbox_new(PyTypeObject *type, PyObject *args, PyObject *named) {
    PyObject *client;
    pointer handle;
    Outbox *self;
    if ((named != NULL && PyDict_GET_SIZE(named) > 0) || !PyArg_ParseTuple(args, "O", &client))
        return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_TypeError, "one client is wanted"), NULL);
    if ((handle = handle_of(client, client_type, &kafka.opaque)) == NULL)
        return NULL;
    self = (Outbox *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->client = Py_NewRef(client);
    self->handle = handle;
    self->queue = kafka.queue(handle);
    return (PyObject *)self;
}

static Py_ssize_t outbox_length(Outbox *self) { return (Py_ssize_t)self->count; }

static PyObject *outbox_bytes(Outbox *self, void *unused) { return PyLong_FromSize_t(self->bytes + self->anonymous); }

static PyObject *outbox_written(const Outbox *self, void *unused) { return seconds_reading(&self->written); }

static PyGetSetDef outbox_values[] = {
    {"written", (getter)outbox_written, NULL, "Seconds until records were written: counts by bucket, and their sum.", NULL},
    {"size", (getter)outbox_bytes, NULL, "What the records take that librdkafka has not reported, roughly.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef outbox_methods[] = {
    {"put", (PyCFunction)outbox_put, METH_VARARGS, "Hand one record over."},
    {"put_messages", (PyCFunction)outbox_put_messages, METH_VARARGS, "Hand over messages, as records."},
    {"put_rows", (PyCFunction)outbox_put_rows, METH_VARARGS, "Hand over records of one key."},
    {"put_columns", (PyCFunction)outbox_put_columns, METH_VARARGS, "Hand over records that are rows of columns."},
    {"settle", (PyCFunction)outbox_settle, METH_VARARGS, "Take reports of records without a context."},
    {"wake", (PyCFunction)outbox_wake, METH_VARARGS, "Write a byte to a file when there are reports."},
    {"reports", (PyCFunction)outbox_reports, METH_NOARGS, "What became of records since the last call."},
    {NULL, NULL, 0, NULL},
};

static PySequenceMethods outbox_sequence = {.sq_length = (lenfunc)outbox_length};

static PyTypeObject outbox_type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "bridges.kafka.produce._produce.Outbox",
    .tp_basicsize = sizeof(Outbox),
    .tp_dealloc = (destructor)outbox_free,
    .tp_traverse = (traverseproc)outbox_visit,
    .tp_clear = (inquiry)outbox_clear,
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "Records that a client has and has not reported yet, and what is kept for them.",
    .tp_as_sequence = &outbox_sequence,
    .tp_methods = outbox_methods,
    .tp_getset = outbox_values,
    .tp_new = outbox_new,
};

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
    {"bind_sha256", bind_sha256, METH_VARARGS, "Give the addresses of libcrypto's functions."},
    {"usual", usual, METH_VARARGS, "Where messages end of which the records are made here."},
    {"record_of", record_of, METH_VARARGS, "The record for a message."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_produce", "Records on their way to Kafka", -1, methods,
                                        NULL,                  NULL,       NULL,                            NULL};

PyMODINIT_FUNC PyInit__produce(void) {
    PyObject *module;
    if (PyType_Ready(&outbox_type) < 0)
        return NULL;
    module = PyModule_Create(&definition);
    if (module != NULL && PyModule_AddObjectRef(module, "Outbox", (PyObject *)&outbox_type) < 0)
        Py_CLEAR(module);
    return module;
}
