/* Finds the sections of an encoded message (`_section.h`): each in order and once, except data and sequence sections of a
 * body. */
#pragma once
#include "_section.h"

enum { BODY = 5 };

/* The start of each section, or of the next one, by index; false if the message is malformed or more than `most` sections
 * repeat another one. */
static bool find_sections(const uint8_t *data, ptrdiff_t length, ptrdiff_t *starts, ptrdiff_t most) {
    ptrdiff_t at = 0, end;
    int next = 0, place = 0, code = 0, before;
    while (at < length) {
        before = code;
        end = section_end(data, at, length, &code);
        if (end < 0)
            return false;
        place = order_of[code - FIRST_CODE];
        if (place < next && !(code == before && (code == DATA_SECTION || code == SEQUENCE_SECTION) && most-- > 0))
            return false;
        while (next <= place)
            starts[next++] = at;
        at = end;
    }
    while (next < SECTIONS)
        starts[next++] = length;
    return true;
}
