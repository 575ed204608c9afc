/* Finds the sections of an encoded message that begins as usual: each section in order and once, except data and
 * sequence sections of a body (`_section.h`). */
#pragma once
#include "_section.h"

enum { BODY = 5 };

/* Whether the body section at `at` repeats the preceding code, and may do so. */
static bool is_repeated_body(const uint8_t *data, ptrdiff_t at, ptrdiff_t before) {
    return data[at + 2] == data[before + 2] && (data[at + 2] == DATA_SECTION || data[at + 2] == SEQUENCE_SECTION);
}

/* The start of each section, or of the next one, by index; false if anything is unusual or more than `most` repeat. */
static bool find_sections(const uint8_t *data, ptrdiff_t length, ptrdiff_t *starts, ptrdiff_t most) {
    ptrdiff_t at = 0, end;
    int next = 0, place = 0;
    while (at < length) {
        end = section_end(data, at, length, &place);
        if (end < 0)
            return false;
        if (place < next && !(place == BODY && next == BODY + 1 && most-- > 0 && is_repeated_body(data, at, starts[BODY])))
            return false;
        while (next <= place)
            starts[next++] = at;
        at = end;
    }
    while (next < SECTIONS)
        starts[next++] = length;
    return true;
}
