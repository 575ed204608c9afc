/* Where the sections of an encoded message begin, of messages that begin as they usually do: each section once and in
 * order (`_section.h`). */
#pragma once
#include "_section.h"

/* Each section's start or its successor's, by place; false where anything is unusual. */
static bool find(const uint8_t *data, ptrdiff_t length, ptrdiff_t *starts) {
    ptrdiff_t at = 0, end;
    int next = 0, place = 0;
    while (at < length) {
        end = section_end(data, at, length, &place);
        if (end < 0 || place < next)
            return false;
        while (next <= place)
            starts[next++] = at;
        at = end;
    }
    while (next < PLACES)
        starts[next++] = length;
    return true;
}
