/* What proton logs about our transports. It writes these lines to the process's stderr, and some reasons appear
 * nowhere else: after a "process error" a transport produces no more events. The last such lines are kept until the
 * engine asks. */
#include <stdio.h>

#define MAX_CAPTURED 8
enum { LEVEL_CRITICAL = 1, LEVEL_ERROR = 2, LEVEL_WARNING = 4 }; /* pn_log_level_t */

typedef void (*log_sink)(intptr_t context, int subsystem, int level, const char *message);

static struct {
    void *(*logger)(void *transport);
    void (*set_sink)(void *logger, log_sink sink, intptr_t context);
} pn_log;

static struct {
    intptr_t transport; /* 0: free */
    bool fatal;
    char text[240];
} captured[MAX_CAPTURED];

static void capture_line(intptr_t transport, int subsystem, int level, const char *message) {
    int place = 0, index;
    size_t length;
    if (!(level & (LEVEL_CRITICAL | LEVEL_ERROR | LEVEL_WARNING)))
        return;
    for (index = 0; index < MAX_CAPTURED; index++) {
        if (captured[index].transport == transport) {
            place = index;
            break;
        }
        if (captured[index].transport == 0)
            place = index;
    }
    if (captured[place].transport != transport) {
        captured[place].transport = transport;
        captured[place].fatal = false;
        captured[place].text[0] = '\0';
    }
    length = strlen(captured[place].text);
    snprintf(captured[place].text + length, sizeof captured[place].text - length, "%s%s", length ? "; " : "",
             message);
    if (level & (LEVEL_CRITICAL | LEVEL_ERROR))
        captured[place].fatal = true;
}

/* capture_log(transport): capture the errors that proton logs about it. */
static PyObject *capture_log(PyObject *module, PyObject *address) {
    void *transport = PyLong_AsVoidPtr(address);
    if (transport == NULL && PyErr_Occurred())
        return NULL;
    pn_log.set_sink(pn_log.logger(transport), capture_line, (intptr_t)transport);
    Py_RETURN_NONE;
}

/* take_error(transport) -> why it stopped writing, or None; each reason is returned once. */
static PyObject *take_error(PyObject *module, PyObject *address) {
    intptr_t transport = (intptr_t)PyLong_AsVoidPtr(address);
    int index;
    for (index = 0; index < MAX_CAPTURED; index++)
        if (transport != 0 && captured[index].transport == transport) {
            captured[index].transport = 0;
            if (captured[index].fatal)
                return PyUnicode_DecodeUTF8(captured[index].text, (Py_ssize_t)strlen(captured[index].text), "replace");
        }
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* bind_log(pn_transport_logger, pn_logger_set_log_sink) */
static PyObject *bind_log(PyObject *module, PyObject *args) {
    PyObject *logger, *set_sink;
    void *first, *second;
    if (!PyArg_ParseTuple(args, "OO", &logger, &set_sink))
        return NULL;
    first = PyLong_AsVoidPtr(logger), second = PyLong_AsVoidPtr(set_sink);
    if (first == NULL || second == NULL)
        return PyErr_Occurred() ? NULL : (PyErr_SetString(PyExc_ValueError, "no function is at address 0"), NULL);
    memcpy(&pn_log.logger, &first, sizeof first);
    memcpy(&pn_log.set_sink, &second, sizeof second);
    Py_RETURN_NONE;
}
