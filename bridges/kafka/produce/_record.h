/* The record for a message, as bridges/kafka/records/encode.py makes it in mode `auto` (decision 57).
 *
 * A record consists of pieces of its message, and of a few bytes that are made for it; nothing is copied before librdkafka
 * copies it. What Python has to say more about is left to Python: malformed messages, those with delivery annotations (a
 * target partition, a request), CloudEvents, tombstones, values of types without a short text, names of headers that are
 * reserved or occur twice, headers in a given order, and more headers or bytes than below.
 */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "../../../gateway/amqp/message/_list.h"
#include "../../../gateway/amqp/message/_section_offsets.h"
#include "../../../gateway/amqp/message/_value_text.h"
#include "../_seal.h"

typedef value_span piece;

enum { MOST_HEADERS = 64, MOST_BARE = 8192, MOST_VALUES = 4096, MOST_DATA_SECTIONS = 1000 };
enum { MAPPED = 1, TOMBSTONES = 2, COMPACTED = 4 }; /* rules; without MAPPED only messages that are nothing but data */
enum { DATA_VALUE = 1, SECTIONS_VALUE = 2 };
enum { AT_ANNOTATIONS = 1, AT_MESSAGE = 2, AT_PROPERTIES = 3, AT_APPLICATION = 4, AT_FOOTER = 6 };
enum { KEY_UNUSUAL = -1, NO_KEY = 0, HAS_KEY = 1 };

typedef struct {
    piece name, content;
} record_header;

typedef struct {
    piece key, value;
    size_t count; /* of headers; `amqp.bare` is the last one, unless there is none at all */
    record_header headers[MOST_HEADERS + 2];
    char digits[MOST_HEADERS][DIGITS_OF_64_BITS];
    char bare[MOST_BARE];
} record;

#define TEXT(literal) ((piece){literal, sizeof literal - 1})

static bool is_text(piece found, piece text) {
    return found.size == text.size && memcmp(found.data, text.data, text.size) == 0;
}

static bool is_found(const uint8_t *data, ptrdiff_t start, ptrdiff_t end, piece text) {
    for (; end - start >= (ptrdiff_t)text.size; start++) {
        const uint8_t *at = memchr(data + start, text.data[0], (size_t)(end - start) - text.size + 1);
        if (at == NULL)
            return false;
        if (memcmp(at, text.data, text.size) == 0)
            return true;
        start = at - data;
    }
    return false;
}

/* -- the key */

/* The text of a symbol or string; false: it is neither. */
static bool key_text(const uint8_t *at, const uint8_t *end, piece *text) {
    bool wide = *at == SYMBOL + WIDE || *at == 0xB1;
    if (*at != SYMBOL && *at != 0xA1 && !wide)
        return false;
    at += wide ? 5 : 2;
    *text = (piece){(const char *)at, (size_t)(end - at)};
    return true;
}

/* Read an annotation of this type, `A0` or `A1`; KEY_UNUSUAL: it is of another type, or malformed. */
static int read_key(const uint8_t *at, const uint8_t *end, int form, piece *key) {
    char unused[DIGITS_OF_64_BITS];
    if (*at == NULL_VALUE)
        return NO_KEY;
    return (*at & ~WIDE) == form && read_text(at, end, unused, key) ? HAS_KEY : KEY_UNUSUAL;
}

typedef struct {
    const uint8_t *at, *end; /* NULL: there is none */
} annotation;

/* Find the annotations of the key, the first of each name; false: malformed, or headers in a given order. */
static bool find_keys(list_view *map, annotation *group, annotation *kafka_key) {
    static const annotation none = {NULL, NULL};
    *group = *kafka_key = none;
    while (map->at < map->end) {
        ptrdiff_t name = skip_field(map), name_end = map->at, value = name < 0 ? -1 : skip_field(map);
        annotation found;
        piece text;
        if (value < 0)
            return false;
        found = (annotation){map->data + value, map->data + map->at};
        if (!key_text(map->data + name, map->data + name_end, &text))
            continue;
        if (is_text(text, TEXT("x-opt-kafka-headers")))
            return false;
        if (group->at == NULL && is_text(text, TEXT("event-streams-group-key")))
            *group = found;
        else if (kafka_key->at == NULL && is_text(text, TEXT("x-opt-kafka-key")))
            *kafka_key = found;
    }
    return true;
}

static int find_key(const uint8_t *data, const ptrdiff_t *starts, ptrdiff_t length, piece *key) {
    list_view map = {.data = data};
    annotation group, kafka_key;
    ptrdiff_t value;
    int found = NO_KEY;
    *key = (piece){NULL, 0};
    if (starts[AT_MESSAGE] == starts[AT_PROPERTIES])
        return NO_KEY;
    if (section_code(data, starts[AT_MESSAGE], length, &value) < 0 || !open_items(&map, value, length, MAP) ||
        !find_keys(&map, &group, &kafka_key))
        return KEY_UNUSUAL;
    if (group.at != NULL)
        found = read_key(group.at, group.end, 0xA1, key);
    if (found == NO_KEY && kafka_key.at != NULL)
        found = read_key(kafka_key.at, kafka_key.end, 0xA0, key);
    return found;
}

/* -- readable headers */

/* Read the next value as the content of the next header; false: of another type, malformed, or too many. */
static bool read_content(record *made, list_view *list) {
    ptrdiff_t start = simple_end(list->data, list->at, list->end) < 0 ? -1 : skip_field(list);
    return start >= 0 && made->count < MOST_HEADERS &&
           read_text(list->data + start, list->data + list->at, made->digits[made->count], &made->headers[made->count].content);
}

static bool is_taken(const record *made, piece name) {
    size_t index;
    for (index = 0; index < made->count; index++)
        if (is_text(made->headers[index].name, name))
            return true;
    return false;
}

/* The name of the next header from the next key of a map; false: it is no string, or needs a look. */
static bool read_name(record *made, list_view *map) {
    ptrdiff_t start = simple_end(map->data, map->at, map->end) < 0 ? -1 : skip_field(map);
    piece name;
    if (start < 0 || map->data[start] != 0xA1 || made->count >= MOST_HEADERS)
        return false;
    name = (piece){(const char *)map->data + start + 2, (size_t)(map->at - start - 2)};
    made->headers[made->count].name = name;
    return is_utf8_text((const uint8_t *)name.data, name.size) && memchr(name.data, 0, name.size) == NULL &&
           !(name.size >= 5 && memcmp(name.data, "amqp.", 5) == 0) && !is_taken(made, name);
}

static bool add_application_headers(record *made, const uint8_t *data, const ptrdiff_t *starts, ptrdiff_t length) {
    list_view map = {.data = data};
    ptrdiff_t value;
    if (starts[AT_APPLICATION] == starts[BODY])
        return true;
    if (section_code(data, starts[AT_APPLICATION], length, &value) < 0 || !open_items(&map, value, length, MAP))
        return false;
    while (map.at < map.end) {
        if (!read_name(made, &map) || !read_content(made, &map))
            return false;
        made->count++;
    }
    return 2 * made->count == (size_t)map.count;
}

#define PROPERTY(name) {"amqp." name, sizeof "amqp." name - 1}
static const piece property_names[] = {
    PROPERTY("message-id"), PROPERTY("user-id"), PROPERTY("to"), PROPERTY("subject"), PROPERTY("reply-to"),
    PROPERTY("correlation-id"), {"content-type", 12}, PROPERTY("content-encoding"), PROPERTY("absolute-expiry-time"),
    PROPERTY("creation-time"), PROPERTY("group-id"), PROPERTY("group-sequence"), PROPERTY("reply-to-group-id"),
};
enum { PROPERTY_COUNT = sizeof property_names / sizeof property_names[0] };

static bool add_property_headers(record *made, const uint8_t *data, const ptrdiff_t *starts, ptrdiff_t length) {
    list_view list = {.data = data};
    ptrdiff_t value;
    int index;
    if (starts[AT_PROPERTIES] == starts[AT_APPLICATION])
        return true;
    if (section_code(data, starts[AT_PROPERTIES], length, &value) < 0 || !open_list(&list, value, length) ||
        list.count > PROPERTY_COUNT)
        return false;
    for (index = 0; index < list.count; index++) {
        if (list.at < list.end && data[list.at] == NULL_VALUE) {
            list.at++;
            continue;
        }
        if (!read_content(made, &list))
            return false;
        made->headers[made->count].name = property_names[index];
        if (!is_taken(made, property_names[index])) /* of an application property `content-type`, which counts */
            made->count++;
    }
    return list.at == list.end;
}

/* -- the value */

/* Set the value; returns its kind, with what is before it in its section as `prefix` if that is not the shortest form.
 * 0: a null, which may be a tombstone. */
static int read_value(record *made, const uint8_t *data, const ptrdiff_t *starts, piece *prefix) {
    ptrdiff_t start = starts[BODY], footer = starts[AT_FOOTER], value, content;
    int code = start < footer ? section_code(data, start, footer, &value) : -1;
    *prefix = (piece){(const char *)data + start, 0};
    made->value = (piece){(const char *)data + start, (size_t)(footer - start)};
    if (code == LAST_CODE - 1 && data[value] == NULL_VALUE)
        return 0;
    if (code != DATA_SECTION || simple_end(data, value, footer) != footer)
        return SECTIONS_VALUE;
    content = value + (data[value] == 0xA0 ? 2 : 5);
    made->value = (piece){(const char *)data + content, (size_t)(footer - content)};
    if (value != start + 3 || data[start + 1] != SMALL_ULONG || (data[value] == 0xB0 && made->value.size < 256))
        prefix->size = (size_t)(content - start);
    return DATA_VALUE;
}

/* -- `amqp.bare` */

static uint32_t size_or_null(piece found) { return found.data == NULL ? UINT32_MAX : (uint32_t)found.size; }

static void hash_record(const record *made, int kind, const char *rest, size_t size, unsigned char *digest) {
    _Alignas(16) unsigned char state[SHA256_STATE];
    unsigned char head[SEAL_HEAD] = {(unsigned char)kind};
    size_t index;
    put_size(put_size(put_size(head + 1, size_or_null(made->key)), size_or_null(made->value)), (uint32_t)size);
    libcrypto.init(state);
    libcrypto.update(state, head, sizeof head);
    libcrypto.update(state, made->key.data, made->key.size);
    libcrypto.update(state, rest, size);
    for (index = 0; index < made->count; index++) {
        piece name = made->headers[index].name, content = made->headers[index].content;
        put_size(head, size_or_null(content));
        libcrypto.update(state, name.data, name.size);
        libcrypto.update(state, head, 4);
        libcrypto.update(state, content.data, content.size);
    }
    libcrypto.update(state, made->value.data, made->value.size);
    libcrypto.final(digest, state);
}

/* Add `amqp.bare`: of the message all but its value, key and readable headers. */
static void add_bare(record *made, int kind, piece prefix, piece before, piece behind) {
    unsigned char digest[SHA256_SIZE];
    char *rest = made->bare + 1 + SEAL_DIGEST;
    size_t size = 1 + prefix.size + before.size + behind.size;
    rest[0] = (char)prefix.size;
    memcpy(rest + 1, prefix.data, prefix.size);
    memcpy(rest + 1 + prefix.size, before.data, before.size);
    memcpy(rest + 1 + prefix.size + before.size, behind.data, behind.size);
    hash_record(made, kind, rest, size, digest);
    made->bare[0] = (char)kind;
    memcpy(made->bare + 1, digest, SEAL_DIGEST);
    made->headers[made->count++] = (record_header){TEXT("amqp.bare"), {made->bare, 1 + SEAL_DIGEST + size}};
}

/* -- the record */

/* Whether the message is one data section in its shortest form and nothing else: then that is all of the record
 * (fast_encode.plain_value). Readers of the record restore this form, so it holds for no other. */
static bool is_plain_data(const uint8_t *data, size_t size, piece *value) {
    if (size >= 5 && memcmp(data, "\x00\x53\x75\xa0", 4) == 0) {
        *value = (piece){(const char *)data + 5, size - 5};
        return data[4] == size - 5;
    }
    if (size >= 8 && memcmp(data, "\x00\x53\x75\xb0", 4) == 0) {
        *value = (piece){(const char *)data + 8, size - 8};
        return read_u32(data + 4) == size - 8 && size - 8 >= 256;
    }
    return false;
}

/* Make the record of a message that is more than data; false: Python has to. */
static bool map_message(const uint8_t *data, ptrdiff_t length, int rules, record *made) {
    ptrdiff_t starts[SECTIONS];
    piece prefix, before, behind;
    int kind, key;
    if (!knows_sha256() || length > INT32_MAX || !find_sections(data, length, starts, MOST_DATA_SECTIONS) ||
        starts[AT_ANNOTATIONS] != starts[AT_MESSAGE] || starts[BODY] > MOST_VALUES)
        return false;
    before = (piece){(const char *)data, (size_t)starts[BODY]};
    behind = (piece){(const char *)data + starts[AT_FOOTER], (size_t)(length - starts[AT_FOOTER])};
    key = find_key(data, starts, length, &made->key);
    if (key == KEY_UNUSUAL || (key == NO_KEY && rules & COMPACTED))
        return false;
    kind = read_value(made, data, starts, &prefix);
    if ((kind == 0 && rules & TOMBSTONES) || prefix.size + before.size + behind.size > MOST_BARE - 64)
        return false;
    if (is_found(data, starts[AT_APPLICATION], starts[BODY], TEXT("cloudEvents")) ||
        !add_application_headers(made, data, starts, length) || !add_property_headers(made, data, starts, length))
        return false;
    if (kind != DATA_VALUE)
        made->headers[made->count++] = (record_header){TEXT("amqp.body"), TEXT("sections")};
    add_bare(made, kind == DATA_VALUE ? DATA_VALUE : SECTIONS_VALUE, prefix, before, behind);
    return true;
}

/* Make the record of a message; false: Python has to. It has pieces of the message, and of `made`. */
static bool map_record(PyObject *message, int rules, record *made) {
    const uint8_t *data;
    ptrdiff_t length;
    made->key = (piece){NULL, 0}, made->count = 0;
    if (!PyBytes_Check(message))
        return false;
    data = (const uint8_t *)PyBytes_AS_STRING(message);
    length = PyBytes_GET_SIZE(message);
    if (is_plain_data(data, (size_t)length, &made->value))
        return !(rules & COMPACTED);
    return rules & MAPPED && map_message(data, length, rules, made);
}
