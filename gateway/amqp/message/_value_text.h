/* The text of a simple value, as it is in a header of a record: numbers in decimal digits, times in milliseconds. Needs the
 * interpreter lock, because Python checks texts that are not ASCII. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdio.h>

#include "_section.h"

enum { DIGITS_OF_64_BITS = 24 };

typedef struct {
    const char *data; /* NULL: null, which differs from empty */
    size_t size;
} value_span;

static int64_t signed_number(const uint8_t *at, int size) {
    uint64_t number = at[0] & 0x80 ? UINT64_MAX : 0;
    for (; size > 0; size--)
        number = number << 8 | *at++;
    return (int64_t)number;
}

static uint64_t unsigned_number(const uint8_t *at, int size) {
    uint64_t number = 0;
    for (; size > 0; size--)
        number = number << 8 | *at++;
    return number;
}

static bool is_ascii_text(const uint8_t *at, size_t size) {
    uint8_t all = 0;
    for (; size > 0; size--)
        all |= *at++;
    return all < 0x80;
}

static bool is_utf8_text(const uint8_t *at, size_t size) {
    PyObject *checked;
    if (is_ascii_text(at, size))
        return true;
    checked = PyUnicode_DecodeUTF8((const char *)at, (Py_ssize_t)size, NULL);
    PyErr_Clear();
    Py_XDECREF(checked);
    return checked != NULL;
}

/* A binary as it is, a string if it is UTF-8, a symbol if it is ASCII. */
static bool variable_text(const uint8_t *at, const uint8_t *end, int form, value_span *text) {
    size_t size = (size_t)(end - at);
    *text = (value_span){(const char *)at, size};
    return form == 0xA0 || (form == SYMBOL ? is_ascii_text(at, size) : is_utf8_text(at, size));
}

static bool boolean_text(bool value, value_span *text) {
    *text = value ? (value_span){"true", 4} : (value_span){"false", 5};
    return true;
}

static bool number_text(int length, char *digits, value_span *text) {
    *text = (value_span){digits, (size_t)length};
    return true;
}

/* The text of the simple value from `at` to `end`; false: it is of another type, or malformed. Digits are put into
 * `digits`, which has room for DIGITS_OF_64_BITS. */
static bool read_text(const uint8_t *at, const uint8_t *end, char *digits, value_span *text) {
    uint8_t form = *at++;
    int size = (int)(end - at);
    switch (form) {
    case 0x40:
        *text = (value_span){NULL, 0};
        return true;
    case 0x41:
    case 0x42:
        return boolean_text(form == 0x41, text);
    case 0x56:
        return *at <= 1 && boolean_text(*at == 1, text);
    case 0x43:
    case 0x44:
        *text = (value_span){"0", 1};
        return true;
    case 0x50:
    case 0x52:
    case 0x53:
    case 0x60:
    case 0x70:
    case 0x80:
        return number_text(snprintf(digits, DIGITS_OF_64_BITS, "%llu", (unsigned long long)unsigned_number(at, size)), digits, text);
    case 0x51:
    case 0x54:
    case 0x55:
    case 0x61:
    case 0x71:
    case 0x81:
    case 0x83:
        return number_text(snprintf(digits, DIGITS_OF_64_BITS, "%lld", (long long)signed_number(at, size)), digits, text);
    case 0xA0:
    case 0xA1:
    case 0xA3:
        return variable_text(at + 1, end, form, text);
    case 0xB0:
    case 0xB1:
    case 0xB3:
        return variable_text(at + 4, end, form & ~WIDE, text);
    default:
        return false;
    }
}
