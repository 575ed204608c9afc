/* Reads one section of an encoded message that begins as usual: `00 53`, the code, a value of the right type with
 * its size. Nothing outside the given bytes is read. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SECTIONS = 7, FIRST_CODE = 0x70, LAST_CODE = 0x78, SMALL_ULONG = 0x53, WIDE = 0x10, EMPTY_LIST = 0x45 };
enum { DELIVERY_ANNOTATIONS = 0x71, MESSAGE_ANNOTATIONS = 0x72, APPLICATION_PROPERTIES = 0x74 };
enum { DATA_SECTION = 0x75, SEQUENCE_SECTION = 0x76 };

/* By code: the index in the order, and the constructor of the value with a one-byte size (0: any with a size). */
static const int8_t order_of[] = {0, 1, 2, 3, 4, 5, 5, 5, 6};
static const uint8_t constructor_of[] = {0xC0, 0xC1, 0xC1, 0xC0, 0xC1, 0xA0, 0xC0, 0, 0xC1};

static bool is_expected_kind(uint8_t wanted, uint8_t kind) {
    if (wanted)
        return kind == wanted;
    return kind == 0xA0 || kind == 0xA1 || kind == 0xA3 || kind == 0xC0 || kind == 0xC1;
}

/* The end of the section at `at`, with its index in `place`; -1 if it begins in an unusual way or is truncated. */
static ptrdiff_t section_end(const uint8_t *data, ptrdiff_t at, ptrdiff_t length, int *place) {
    uint8_t code, constructor;
    uint32_t size;
    if (length - at < 5 || data[at] != 0 || data[at + 1] != SMALL_ULONG)
        return -1;
    code = data[at + 2], constructor = data[at + 3];
    if (code < FIRST_CODE || code > LAST_CODE || !is_expected_kind(constructor_of[code - FIRST_CODE], constructor & ~WIDE))
        return -1;
    *place = order_of[code - FIRST_CODE];
    if (!(constructor & WIDE))
        size = data[at + 4], at += 5;
    else if (length - at < 8)
        return -1;
    else {
        size = (uint32_t)data[at + 4] << 24 | (uint32_t)data[at + 5] << 16 | (uint32_t)data[at + 6] << 8 | data[at + 7];
        at += 8;
    }
    return size > (size_t)(length - at) ? -1 : at + (ptrdiff_t)size; /* on 32 bits their sum may overflow */
}

/* Whether the message may have delivery annotations: false only if the first section after an optional header is
 * another one, or there is none. It reads a few bytes; an unusual message may have some. */
static bool may_be_annotated(const uint8_t *data, ptrdiff_t length) {
    ptrdiff_t at = 0;
    int place = 0;
    if (length > 4 && data[0] == 0 && data[1] == SMALL_ULONG && data[2] == FIRST_CODE) {
        at = data[3] == EMPTY_LIST ? 4 : section_end(data, 0, length, &place);
        if (at < 0)
            return true;
    }
    if (length - at < 4 || data[at] != 0)
        return false;
    return data[at + 1] != SMALL_ULONG || data[at + 2] == DELIVERY_ANNOTATIONS;
}
