/* Finds where an encoded value ends, from its constructor and size alone (AMQP 1.0 part 1, 1.2). Nothing outside the
 * given bytes is read. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum { DEEPEST = 32, SIZE_OF_1 = 254, SIZE_OF_4 = 255 }; /* levels of described values (decoder.LIMITS); see below */

/* By constructor: the bytes of the value with its constructor, or those of the size that follows it; 0: there is none. */
static const uint8_t value_widths[256] = {
    [0x40] = 1, [0x41] = 1, [0x42] = 1, [0x43] = 1, [0x44] = 1, [0x45] = 1,
    [0x50] = 2, [0x51] = 2, [0x52] = 2, [0x53] = 2, [0x54] = 2, [0x55] = 2, [0x56] = 2,
    [0x60] = 3, [0x61] = 3,
    [0x70] = 5, [0x71] = 5, [0x72] = 5, [0x73] = 5, [0x74] = 5,
    [0x80] = 9, [0x81] = 9, [0x82] = 9, [0x83] = 9, [0x84] = 9,
    [0x94] = 17, [0x98] = 17,
    [0xA0] = SIZE_OF_1, [0xA1] = SIZE_OF_1, [0xA3] = SIZE_OF_1,
    [0xB0] = SIZE_OF_4, [0xB1] = SIZE_OF_4, [0xB3] = SIZE_OF_4,
    [0xC0] = SIZE_OF_1, [0xC1] = SIZE_OF_1, [0xD0] = SIZE_OF_4, [0xD1] = SIZE_OF_4,
    [0xE0] = SIZE_OF_1, [0xF0] = SIZE_OF_4,
};

static uint32_t read_u32(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The end of a value that is not described; -1 if it does not fit or there is no such constructor. */
static ptrdiff_t simple_end(const uint8_t *data, ptrdiff_t at, ptrdiff_t length) {
    uint32_t size;
    if (at >= length)
        return -1;
    size = value_widths[data[at]];
    if (size == SIZE_OF_1) {
        if (length - at < 2)
            return -1;
        size = data[at + 1], at += 2;
    } else if (size == SIZE_OF_4) {
        if (length - at < 5)
            return -1;
        size = read_u32(data + at + 1), at += 5;
    } else if (size == 0)
        return -1;
    return size > (size_t)(length - at) ? -1 : at + (ptrdiff_t)size; /* on 32 bits their sum may overflow */
}

/* The end of any value; -1 as of `simple_end`, or if descriptors are nested too deeply. */
static ptrdiff_t value_end(const uint8_t *data, ptrdiff_t at, ptrdiff_t length) {
    int pending = 1, left = DEEPEST;
    while (pending > 0) {
        if (at >= length)
            return -1;
        if (data[at] == 0) { /* a descriptor and a value follow */
            if (--left < 0)
                return -1;
            at++, pending++;
            continue;
        }
        at = simple_end(data, at, length);
        if (at < 0)
            return -1;
        pending--;
    }
    return at;
}
