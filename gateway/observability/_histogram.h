/* Histograms of seconds and sizes as plain integers, for the loops in C; Python reads them at a scrape.
 *
 * A bucket includes its upper bound; the last one has everything above. The bounds of seconds are those of Prometheus'
 * clients, extended at both ends; those of sizes are powers of four.
 */
#ifndef SCOPEGATE_HISTOGRAM_H
#define SCOPEGATE_HISTOGRAM_H

#include <Python.h>
#include <stdint.h>
#include <time.h>

static const double second_bounds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                       0.25,   0.5,   1.0,    2.5,   5.0,  10.0,  30.0, 60.0};
static const double size_bounds[] = {64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};

#define SECOND_BUCKETS (sizeof second_bounds / sizeof *second_bounds + 1)
#define SIZE_BUCKETS (sizeof size_bounds / sizeof *size_bounds + 1)

typedef struct {
    uint64_t counts[SECOND_BUCKETS];
    double total;
} seconds_histogram;

static inline double monotonic_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline void observe_seconds(seconds_histogram *self, double seconds) {
    size_t at = 0;
    while (at < SECOND_BUCKETS - 1 && seconds > second_bounds[at])
        at++;
    self->counts[at]++;
    self->total += seconds;
}

static inline PyObject *counts_tuple(const uint64_t *counts, size_t size) {
    PyObject *found = PyTuple_New((Py_ssize_t)size), *count;
    size_t at;
    for (at = 0; found != NULL && at < size; at++) {
        if ((count = PyLong_FromUnsignedLongLong(counts[at])) == NULL)
            Py_CLEAR(found);
        else
            PyTuple_SET_ITEM(found, (Py_ssize_t)at, count);
    }
    return found;
}

/* (counts by bucket, the sum of the observations) */
static inline PyObject *seconds_reading(const seconds_histogram *self) {
    return Py_BuildValue("(Nd)", counts_tuple(self->counts, SECOND_BUCKETS), self->total);
}

static inline int add_bounds(PyObject *module, const char *name, const double *bounds, size_t size) {
    PyObject *found = PyTuple_New((Py_ssize_t)size), *bound;
    int result = found == NULL ? -1 : 0;
    size_t at;
    for (at = 0; result == 0 && at < size; at++) {
        if ((bound = PyFloat_FromDouble(bounds[at])) == NULL)
            result = -1;
        else
            PyTuple_SET_ITEM(found, (Py_ssize_t)at, bound);
    }
    result = result < 0 ? -1 : PyModule_AddObjectRef(module, name, found);
    Py_XDECREF(found);
    return result;
}

#endif
