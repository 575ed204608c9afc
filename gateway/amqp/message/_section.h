/* Reads one section of an encoded message, in any legal form: its descriptor is a ulong or a symbol, its value has a size
 * of one byte or four, or is the empty list. Nothing outside the given bytes is read. */
#pragma once
#include <stdbool.h>
#include <string.h>

#include "_value.h"

enum { SECTIONS = 7, FIRST_CODE = 0x70, LAST_CODE = 0x78, SMALL_ULONG = 0x53, ULONG = 0x80, WIDE = 0x10 };
enum { LIST = 0xC0, EMPTY_LIST = 0x45, SYMBOL = 0xA3 };
enum { DELIVERY_ANNOTATIONS = 0x71, MESSAGE_ANNOTATIONS = 0x72, APPLICATION_PROPERTIES = 0x74 };
enum { DATA_SECTION = 0x75, SEQUENCE_SECTION = 0x76 };

/* By code: the index in the order, and the constructor of the value with a one-byte size (0: any value). */
static const int8_t order_of[] = {0, 1, 2, 3, 4, 5, 5, 5, 6};
static const uint8_t constructor_of[] = {LIST, 0xC1, 0xC1, LIST, 0xC1, 0xA0, LIST, 0, 0xC1};
static const char *const section_names[] = {
    "amqp:header:list", "amqp:delivery-annotations:map", "amqp:message-annotations:map",
    "amqp:properties:list", "amqp:application-properties:map", "amqp:data:binary",
    "amqp:amqp-sequence:list", "amqp:amqp-value:*", "amqp:footer:map",
};

static int code_of_name(const uint8_t *name, size_t size) {
    int index;
    for (index = 0; index <= LAST_CODE - FIRST_CODE; index++)
        if (strlen(section_names[index]) == size && memcmp(section_names[index], name, size) == 0)
            return FIRST_CODE + index;
    return -1;
}

/* The code of a section whose descriptor is not `00 53`. */
static int long_code(const uint8_t *data, ptrdiff_t at, ptrdiff_t length, ptrdiff_t *value) {
    static const uint8_t high[7] = {0};
    ptrdiff_t end = simple_end(data, at + 1, length);
    uint8_t form = data[at + 1];
    if (end < 0)
        return -1;
    *value = end;
    if (form == ULONG)
        return memcmp(data + at + 2, high, sizeof high) == 0 ? data[at + 9] : -1;
    if (form == SYMBOL)
        return code_of_name(data + at + 3, (size_t)(end - at - 3));
    return form == SYMBOL + WIDE ? code_of_name(data + at + 6, (size_t)(end - at - 6)) : -1;
}

/* The code of the section at `at`, with the start of its value in `value`; -1: it is none. */
static int section_code(const uint8_t *data, ptrdiff_t at, ptrdiff_t length, ptrdiff_t *value) {
    int code;
    if (length - at < 4 || data[at] != 0)
        return -1;
    *value = at + 3;
    code = data[at + 1] == SMALL_ULONG ? data[at + 2] : long_code(data, at, length, value);
    return code < FIRST_CODE || code > LAST_CODE ? -1 : code;
}

/* The end of the section at `at`, with its code in `code`; -1 if it is malformed. */
static ptrdiff_t section_end(const uint8_t *data, ptrdiff_t at, ptrdiff_t length, int *code) {
    ptrdiff_t value;
    uint8_t wanted, constructor;
    *code = section_code(data, at, length, &value);
    if (*code < 0 || value >= length)
        return -1;
    wanted = constructor_of[*code - FIRST_CODE], constructor = data[value];
    if (wanted == 0)
        return value_end(data, value, length);
    if (constructor != wanted && constructor != wanted + WIDE && !(wanted == LIST && constructor == EMPTY_LIST))
        return -1;
    return simple_end(data, value, length);
}

/* Whether the message may have delivery annotations: false only if the first section after an optional header is
 * another one, or there is none. It reads a few bytes; a malformed message may have some. */
static bool may_be_annotated(const uint8_t *data, ptrdiff_t length) {
    ptrdiff_t at = 0, end, value;
    int code;
    if (length < 4 || data[0] != 0)
        return false;
    code = section_code(data, 0, length, &value);
    if (code == FIRST_CODE) {
        end = section_end(data, at, length, &code);
        if (end < 0)
            return true;
        if (length - end < 4 || data[end] != 0)
            return false;
        code = section_code(data, end, length, &value);
    }
    return code < 0 || code == DELIVERY_ANNOTATIONS;
}
