/* Encodes records as the messages that links send, for the kinds that nearly all records have (KM-3 to KM-5, KM-13).
 *
 * - plain: neither key nor headers. Only the offset, time and value of the messages differ. - exact: written by the
 * gateway, with `amqp.bare` as the last header, which restores the message in any of its legal forms (envelope.py). - shown: written by other
 * applications. Headers become application properties, a key becomes annotations (decode.py).
 *
 * For anything unusual the result is `false`, and the Python code encodes the message; for what is encoded here it
 * gives the same bytes (tests/property/bridges/kafka/consume/test_poll.py). If a called Python function fails, the
 * result is `true` with no message and an exception set.
 */
#pragma once
#include "../../../gateway/amqp/message/_list.h"
#include "../../../gateway/amqp/message/_section_offsets.h"
#include "_digest.h"
#include "_run.h"

typedef struct {
    PyObject *head, *middle, *end; /* the delivery annotations before the offset, up to the time, and after it */
    PyObject *plain;               /* what follows them in a plain message, up to the size of the value */
    PyObject *group, *key;         /* for a key: the bytes before it as text, and before it as binary */
} template;

#define KINDS 3 /* timestamp types: none, the producer's, the log's */
#define DIGITS 20
#define DIGEST 16

typedef struct {
    template forms[KINDS];
    PyObject *bare;           /* the name of the last header of what the gateway wrote */
    PyObject *cookie, *request_prefix; /* a name, and a prefix of names, with a special meaning */
    PyObject *names, *digest; /* functions: encode the names of headers (or None), and SHA-256 */
    const Run *run;
    const entry *known; /* the record whose names `encoded` has: the next one mostly has the same */
    PyObject *encoded;
} maker;

typedef struct {
    const char *at; /* where the next one is */
    const char *name, *value;
    header_sizes sizes;
} header;

static bool next_header(header *each) {
    each->at = read_header(each->at, &each->sizes, &each->name, &each->value);
    return true;
}

static bool is_ascii(const char *data, Py_ssize_t size) {
    unsigned char all = 0;
    Py_ssize_t index;
    for (index = 0; index < size; index++)
        all |= (unsigned char)data[index];
    return all < 0x80;
}

static bool is_text(const char *data, Py_ssize_t size) {
    PyObject *text;
    if (is_ascii(data, size))
        return true;
    text = PyUnicode_DecodeUTF8(data, size, NULL);
    if (text == NULL)
        PyErr_Clear();
    Py_XDECREF(text);
    return text != NULL;
}

static bool is_same(PyObject *bytes, const char *data, int32_t size) {
    return PyBytes_GET_SIZE(bytes) == size && memcmp(PyBytes_AS_STRING(bytes), data, (size_t)size) == 0;
}

static bool begins_with(PyObject *bytes, const char *data, int32_t size) {
    return PyBytes_GET_SIZE(bytes) < size && memcmp(PyBytes_AS_STRING(bytes), data, (size_t)PyBytes_GET_SIZE(bytes)) == 0;
}

/* -- writing */

static char *put_data(char *at, const void *data, size_t size) {
    memcpy(at, data, size);
    return at + size;
}

static char *put_bytes(char *at, PyObject *bytes) {
    return put_data(at, PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes));
}

static char *put_digits(char *at, uint64_t number) {
    int left;
    for (left = DIGITS - 1; left >= 0; left--, number /= 10)
        at[left] = (char)('0' + number % 10);
    return at + DIGITS;
}

static char *put_number(char *at, uint64_t number, int size) {
    for (; size > 0; size--)
        *at++ = (char)(number >> 8 * (size - 1));
    return at;
}

enum { BINARY = 0xa0, STRING = 0xa1, NOTHING = 0x40 };

/* A binary or a string (part 1, 1.6.19 and 1.6.20) with a size of one byte or four. */
static char *put_sized(char *at, int kind, const char *data, size_t size) {
    *at++ = (char)(size < 256 ? kind : kind + WIDE);
    return put_data(put_number(at, size, size < 256 ? 1 : 4), data, size);
}

static size_t encoded_size(size_t size) { return (size < 256 ? 2 : 5) + size; }

static char *put_text(char *at, const char *data, size_t size) {
    return put_sized(at, is_text(data, (Py_ssize_t)size) ? STRING : BINARY, data, size);
}

static bool is_narrow(size_t size, size_t count) { return size < 255 && count < 256; }

/* The head of a section that is a map (1.6.23) with this count of keys and values and this size. */
static char *put_map(char *at, int code, size_t size, size_t count) {
    bool narrow = is_narrow(size, count);
    int width = narrow ? 1 : 4;
    *at++ = 0, *at++ = SMALL_ULONG, *at++ = (char)code;
    *at++ = (char)(narrow ? MAP : MAP + WIDE);
    return put_number(put_number(at, size + (size_t)width, width), count, width);
}

static size_t map_size(size_t size, size_t count) { return 3 + (is_narrow(size, count) ? 3 : 9) + size; }

/* -- the delivery annotations, and the value as data */

static size_t annotations_size(const template *template) {
    return (size_t)(PyBytes_GET_SIZE(template->head) + PyBytes_GET_SIZE(template->middle) + PyBytes_GET_SIZE(template->end)) + DIGITS + 8;
}

static char *put_annotations(char *at, const template *template, const entry *each) {
    uint64_t time = each->time < 0 ? 0 : (uint64_t)each->time;
    at = put_digits(put_bytes(at, template->head), (uint64_t)each->offset);
    return put_bytes(put_number(put_bytes(at, template->middle), time, 8), template->end);
}

static size_t data_size(const entry *each) { return 3 + encoded_size((size_t)each->value_size); }

static char *put_data_section(char *at, const Run *run, const entry *each) {
    *at++ = 0, *at++ = SMALL_ULONG, *at++ = DATA_SECTION;
    return put_sized(at, BINARY, value_of(run, each), (size_t)each->value_size);
}

/* -- plain */

static bool is_plain(const entry *each) { return each->key_size < 0 && each->headers <= 0; }

static PyObject *plain_message(const Run *run, const entry *each, const template *template) {
    size_t size = (size_t)each->value_size;
    size_t whole = annotations_size(template) + (size_t)PyBytes_GET_SIZE(template->plain) + encoded_size(size);
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)whole);
    if (data != NULL)
        put_sized(put_bytes(put_annotations(PyBytes_AS_STRING(data), template, each), template->plain), BINARY, value_of(run, each), size);
    return data;
}

/* -- shown */

static bool same_names(const Run *run, const entry *left, const entry *right) {
    header one = {.at = headers_of(run, left)}, other = {.at = headers_of(run, right)};
    int32_t count;
    if (left->headers != right->headers)
        return false;
    for (count = left->headers; count > 0; count--) {
        next_header(&one), next_header(&other);
        if (one.sizes.name != other.sizes.name || memcmp(one.name, other.name, (size_t)one.sizes.name) != 0)
            return false;
    }
    return true;
}

/* Header names as text; invalid UTF-8 is decoded with replacement characters. */
static PyObject *header_names(const Run *run, const entry *each) {
    header header = {.at = headers_of(run, each)};
    PyObject *names = PyTuple_New(each->headers), *name;
    int32_t index;
    for (index = 0; names != NULL && index < each->headers; index++) {
        next_header(&header);
        name = PyUnicode_DecodeUTF8(header.name, header.sizes.name, "replace");
        if (name == NULL)
            Py_CLEAR(names);
        else
            PyTuple_SET_ITEM(names, index, name);
    }
    return names;
}

static bool is_encoded(PyObject *encoded, int32_t count) {
    Py_ssize_t index;
    if (encoded == Py_None)
        return true;
    if (!PyTuple_Check(encoded) || PyTuple_GET_SIZE(encoded) != count)
        return false;
    for (index = 0; index < count; index++)
        if (!PyBytes_Check(PyTuple_GET_ITEM(encoded, index)))
            return false;
    return true;
}

/* The encoded header names: a tuple of bytes, or None if one of them has a special meaning; borrowed. */
static PyObject *encode_names(maker *maker, const Run *run, const entry *each) {
    PyObject *names;
    if (maker->encoded != NULL && maker->run == run && same_names(run, maker->known, each))
        return maker->encoded;
    Py_CLEAR(maker->encoded);
    names = header_names(run, each);
    maker->encoded = names == NULL ? NULL : PyObject_CallOneArg(maker->names, names);
    Py_XDECREF(names);
    maker->run = run;
    maker->known = each;
    if (maker->encoded != NULL && !is_encoded(maker->encoded, each->headers)) {
        PyErr_SetString(PyExc_TypeError, "the encoded names are a tuple of bytes");
        Py_CLEAR(maker->encoded);
    }
    return maker->encoded;
}

static size_t properties_size(const Run *run, const entry *each, PyObject *names) {
    header header = {.at = headers_of(run, each)};
    size_t size = 0;
    int32_t index;
    for (index = 0; index < each->headers; index++) {
        next_header(&header);
        size += (size_t)PyBytes_GET_SIZE(PyTuple_GET_ITEM(names, index));
        size += header.sizes.value < 0 ? 1 : encoded_size((size_t)header.sizes.value);
    }
    return size;
}

static char *put_properties(char *at, const Run *run, const entry *each, PyObject *names) {
    header header = {.at = headers_of(run, each)};
    int32_t index;
    for (index = 0; index < each->headers; index++) {
        next_header(&header);
        at = put_bytes(at, PyTuple_GET_ITEM(names, index));
        if (header.sizes.value < 0)
            *at++ = NOTHING;
        else
            at = put_text(at, header.value, (size_t)header.sizes.value);
    }
    return at;
}

typedef struct {
    size_t size, count;
    bool text;
} key_map;

static key_map measure_key(const Run *run, const entry *each, const template *template) {
    size_t key = encoded_size((size_t)each->key_size);
    bool text = is_text(key_of(run, each), each->key_size);
    size_t size = (size_t)PyBytes_GET_SIZE(template->key) + key;
    if (!text)
        return (key_map){size, 2, text};
    return (key_map){size + (size_t)PyBytes_GET_SIZE(template->group) + key, 4, text};
}

static char *put_key(char *at, const Run *run, const entry *each, const template *template, key_map map) {
    const char *key = key_of(run, each);
    size_t size = (size_t)each->key_size;
    at = put_map(at, MESSAGE_ANNOTATIONS, map.size, map.count);
    if (map.text)
        at = put_sized(put_bytes(at, template->group), STRING, key, size);
    return put_sized(put_bytes(at, template->key), BINARY, key, size);
}

static PyObject *build_with_headers(const Run *run, const entry *each, const template *template, PyObject *names) {
    bool keyed = each->key_size >= 0;
    key_map key = keyed ? measure_key(run, each, template) : (key_map){0, 0, false};
    size_t properties = names == NULL ? 0 : properties_size(run, each, names), count = 2 * (size_t)positive_size(each->headers);
    size_t whole = annotations_size(template) + (keyed ? map_size(key.size, key.count) : 0) +
                   (count ? map_size(properties, count) : 0) + data_size(each);
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)whole);
    char *at;
    if (data == NULL)
        return NULL;
    at = put_annotations(PyBytes_AS_STRING(data), template, each);
    if (keyed)
        at = put_key(at, run, each, template, key);
    if (count)
        at = put_properties(put_map(at, APPLICATION_PROPERTIES, properties, count), run, each, names);
    put_data_section(at, run, each);
    return data;
}

static bool message_with_headers(maker *maker, const Run *run, const entry *each, PyObject **data) {
    PyObject *names = NULL;
    if (each->headers > 0) {
        names = encode_names(maker, run, each);
        if (names == NULL)
            return true;
        if (names == Py_None)
            return false;
    }
    *data = build_with_headers(run, each, maker->forms + each->time_kind, names);
    return true;
}

/* -- exact */

#define HASHED 13    /* the kind, and the sizes of key, value and the rest of `amqp.bare` */
#define REPEATED 255 /* sections of a body; Python restores messages with more */

enum { DATA_VALUE = 1, SECTIONS_VALUE = 2 }; /* kinds of `amqp.bare` (envelope.py) */

typedef struct {
    const char *digest, *prefix, *sections;
    size_t exact, whole; /* bytes of the rest of `amqp.bare`, and of the hashed content */
    size_t prefixed;     /* bytes of the prefix */
    Py_ssize_t size;     /* of the sections */
    Py_ssize_t starts[SECTIONS];
} envelope;

static bool last_is_bare(PyObject *bare, const Run *run, const entry *each, header *header) {
    int32_t left;
    header->at = headers_of(run, each);
    for (left = each->headers; left > 0; left--)
        next_header(header);
    return each->headers > 0 && is_same(bare, header->name, header->sizes.name);
}

/* Open `amqp.bare`; false if it is not one, or has sections that do not belong there. */
static bool open_envelope(const header *header, envelope *envelope) {
    if (header->sizes.value < 1 + DIGEST + 1 || (header->value[0] != DATA_VALUE && header->value[0] != SECTIONS_VALUE))
        return false;
    envelope->digest = header->value;
    envelope->exact = (size_t)header->sizes.value - 1 - DIGEST;
    envelope->prefix = header->value + 1 + DIGEST + 1;
    envelope->prefixed = (uint8_t)header->value[1 + DIGEST];
    if (envelope->prefixed > envelope->exact - 1)
        return false;
    envelope->sections = envelope->prefix + envelope->prefixed;
    envelope->size = (Py_ssize_t)(envelope->exact - 1 - envelope->prefixed);
    return find_sections((const uint8_t *)envelope->sections, envelope->size, envelope->starts, 0) && envelope->starts[1] == envelope->starts[2] &&
           envelope->starts[BODY] == envelope->starts[BODY + 1];
}

/* Whether all names of headers are texts without a special meaning. */
static bool has_usual_names(const maker *maker, const Run *run, const entry *each) {
    header header = {.at = headers_of(run, each)};
    int32_t left;
    for (left = each->headers - 1; left > 0; left--) {
        next_header(&header);
        if (!is_text(header.name, header.sizes.name) || is_same(maker->cookie, header.name, header.sizes.name) ||
            begins_with(maker->request_prefix, header.name, header.sizes.name))
            return false;
    }
    return true;
}

/* Compute the size of the hashed content, the value included. */
static void measure_envelope(const Run *run, const entry *each, envelope *envelope) {
    header header = {.at = headers_of(run, each)};
    int32_t left;
    envelope->whole = HASHED + (size_t)positive_size(each->key_size) + envelope->exact + (size_t)each->value_size;
    for (left = each->headers - 1; left > 0; left--) {
        next_header(&header);
        envelope->whole += (size_t)header.sizes.name + 4 + (size_t)positive_size(header.sizes.value);
    }
}

/* Write what is hashed of a record before its value; returns where the value belongs. */
static char *put_hashed(char *at, const Run *run, const entry *each, const envelope *envelope) {
    header header = {.at = headers_of(run, each)};
    int32_t left;
    *at++ = envelope->digest[0];
    at = put_number(put_number(at, (uint64_t)(int64_t)each->key_size, 4), (uint64_t)each->value_size, 4);
    at = put_data(put_number(at, envelope->exact, 4), key_of(run, each), (size_t)positive_size(each->key_size));
    at = put_data(at, envelope->digest + 1 + DIGEST, envelope->exact);
    for (left = each->headers - 1; left > 0; left--) {
        next_header(&header);
        at = put_number(put_data(at, header.name, (size_t)header.sizes.name), (uint64_t)(int64_t)header.sizes.value, 4);
        at = put_data(at, header.value, (size_t)positive_size(header.sizes.value));
    }
    return at;
}

/* Whether the digest that a Python function makes matches; -1: an exception. */
static int is_intact_by(PyObject *function, PyObject *input, const char *wanted) {
    PyObject *digest = PyObject_CallOneArg(function, input);
    int found = -1;
    if (digest != NULL && PyBytes_Check(digest) && PyBytes_GET_SIZE(digest) >= DIGEST)
        found = memcmp(PyBytes_AS_STRING(digest), wanted, DIGEST) == 0;
    else if (digest != NULL)
        PyErr_SetString(PyExc_TypeError, "a digest is bytes");
    Py_XDECREF(digest);
    return found;
}

/* Whether the digest matches, by libcrypto: the value is hashed where it is. -1: no memory. Needs no interpreter lock. */
static int is_intact_in_place(const Run *run, const entry *each, const envelope *envelope) {
    char small[SMALL_INPUT];
    uint8_t digest[SHA256_SIZE];
    size_t value = (size_t)each->value_size, before = envelope->whole - value;
    char *at = before <= sizeof small ? small : PyMem_RawMalloc(before);
    if (at == NULL)
        return -1;
    put_hashed(at, run, each, envelope);
    sha256(at, before, value_of(run, each), value, digest);
    if (at != small)
        PyMem_RawFree(at);
    return memcmp(digest, envelope->digest + 1, DIGEST) == 0;
}

/* 1: the digest matches the record; 0: it does not; -1: an exception. */
static int is_intact(const maker *maker, const Run *run, const entry *each, envelope *envelope) {
    PyObject *input;
    int found;
    if (each->checked != UNCHECKED)
        return each->checked == INTACT;
    measure_envelope(run, each, envelope);
    if (knows_sha256()) {
        if ((found = is_intact_in_place(run, each, envelope)) < 0)
            PyErr_NoMemory();
        return found;
    }
    if ((input = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)envelope->whole)) == NULL)
        return -1;
    put_data(put_hashed(PyBytes_AS_STRING(input), run, each, envelope), value_of(run, each), (size_t)each->value_size);
    found = is_intact_by(maker->digest, input, envelope->digest + 1);
    Py_DECREF(input);
    return found;
}

/* Compare the digest of a large record with its content before it is restored; needs no interpreter lock. */
static void check_digest(const Run *run, entry *each, PyObject *bare) {
    envelope envelope;
    header last;
    int intact;
    if (!last_is_bare(bare, run, each, &last) || !open_envelope(&last, &envelope))
        return;
    measure_envelope(run, each, &envelope);
    intact = is_intact_in_place(run, each, &envelope);
    each->checked = (int16_t)(intact < 0 ? UNCHECKED : intact ? INTACT : CHANGED);
}

/* Write the body; false if it is not one. */
static bool put_body(char *at, const Run *run, const entry *each, const envelope *envelope, size_t size) {
    Py_ssize_t starts[SECTIONS];
    if (envelope->digest[0] == DATA_VALUE && envelope->prefixed == 0) {
        put_data_section(at, run, each);
        return true;
    }
    put_data(put_data(at, envelope->prefix, envelope->prefixed), value_of(run, each), (size_t)each->value_size);
    return find_sections((const uint8_t *)at, (Py_ssize_t)size, starts, REPEATED) && starts[BODY] == 0 &&
           starts[BODY + 1] == (Py_ssize_t)size;
}

/* The message of a record; NULL without an exception: value and prefix are no body. */
static PyObject *build_restored(const Run *run, const entry *each, const template *template, const envelope *envelope) {
    bool plain = envelope->digest[0] == DATA_VALUE && envelope->prefixed == 0;
    size_t inner = plain ? data_size(each) : envelope->prefixed + (size_t)each->value_size;
    size_t whole = annotations_size(template) + (size_t)envelope->size + inner;
    Py_ssize_t bare = envelope->starts[1], body = envelope->starts[BODY];
    PyObject *data = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)whole);
    char *at;
    if (data == NULL)
        return NULL;
    at = put_data(PyBytes_AS_STRING(data), envelope->sections, (size_t)bare);
    at = put_annotations(at, template, each);
    at = put_data(at, envelope->sections + bare, (size_t)(body - bare));
    if (!put_body(at, run, each, envelope, inner)) {
        Py_DECREF(data);
        return NULL;
    }
    put_data(at + inner, envelope->sections + body, (size_t)(envelope->size - body));
    return data;
}

static bool restored_message(maker *maker, const Run *run, const entry *each, const header *bare, PyObject **data) {
    envelope envelope;
    int intact;
    if (!open_envelope(bare, &envelope) || !has_usual_names(maker, run, each))
        return false;
    intact = is_intact(maker, run, each, &envelope);
    if (intact > 0)
        *data = build_restored(run, each, maker->forms + each->time_kind, &envelope);
    return intact < 0 || (intact > 0 && (*data != NULL || PyErr_Occurred() != NULL));
}

/* -- any */

static bool fast_message(maker *maker, const Run *run, const entry *each, PyObject **data) {
    header last;
    *data = NULL;
    if (each->value_size < 0 || each->time_kind < 0 || each->time_kind >= KINDS)
        return false;
    if (is_plain(each)) {
        *data = plain_message(run, each, maker->forms + each->time_kind);
        return true;
    }
    if (last_is_bare(maker->bare, run, each, &last))
        return restored_message(maker, run, each, &last, data);
    return message_with_headers(maker, run, each, data);
}
