/* Steps through the items of an encoded list or map, in any legal form (AMQP 1.0 part 1, 1.6.22 and 1.6.23). Nothing outside the given
 * bytes is read. */
#pragma once
#include "_section.h"

enum { MAP = 0xC1, LIST_OF_1 = 3, LIST_OF_4 = 9, NULL_VALUE = 0x40 }; /* bytes before the first field */

typedef struct {
    const uint8_t *data;
    ptrdiff_t at, end, count;
} list_view;

/* Enter the LIST or MAP at `at`; false if it is none, or does not fit. */
static bool open_items(list_view *list, ptrdiff_t at, ptrdiff_t length, uint8_t kind) {
    ptrdiff_t head;
    list->end = simple_end(list->data, at, length);
    if (list->end < 0)
        return false;
    if (list->data[at] == EMPTY_LIST && kind == LIST) {
        list->at = list->end, list->count = 0;
        return true;
    }
    if (list->data[at] != kind && list->data[at] != kind + WIDE)
        return false;
    head = list->data[at] == kind ? LIST_OF_1 : LIST_OF_4;
    list->at = at + head;
    if (list->at > list->end)
        return false;
    list->count = head == LIST_OF_1 ? list->data[at + head - 1] : (ptrdiff_t)read_u32(list->data + at + head - 4);
    return list->count >= 0 && list->count <= list->end - list->at;
}

static bool open_list(list_view *list, ptrdiff_t at, ptrdiff_t length) { return open_items(list, at, length, LIST); }

/* Skip the next field; returns where its bytes begin; -1: it does not fit. */
static ptrdiff_t skip_field(list_view *list) {
    ptrdiff_t start = list->at, end = value_end(list->data, start, list->end);
    if (end < 0)
        return -1;
    list->at = end;
    return start;
}

/* Whether a message may have a ttl: false only if its header (3.2.1) has none, or there is no header. */
static bool may_have_ttl(const uint8_t *data, ptrdiff_t length) {
    list_view header = {.data = data};
    ptrdiff_t value, start = -1;
    int index;
    if (section_code(data, 0, length, &value) != FIRST_CODE)
        return false;
    if (!open_list(&header, value, length))
        return true;
    if (header.count < 3)
        return false;
    for (index = 0; index < 3; index++)
        if ((start = skip_field(&header)) < 0)
            return true;
    return data[start] != NULL_VALUE;
}
