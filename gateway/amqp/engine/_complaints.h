/* What proton logs about our transports. It writes these lines to the process's stderr, and some reasons appear
 * nowhere else: after a "process error" a transport produces no more events. The last such lines are kept until the
 * engine asks. */
#include <stdio.h>

#define COMPLAINTS 8
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
} complaints[COMPLAINTS];

static void complained(intptr_t transport, int subsystem, int level, const char *message) {
    int place = 0, index;
    size_t length;
    if (!(level & (LEVEL_CRITICAL | LEVEL_ERROR | LEVEL_WARNING)))
        return;
    for (index = 0; index < COMPLAINTS; index++) {
        if (complaints[index].transport == transport) {
            place = index;
            break;
        }
        if (complaints[index].transport == 0)
            place = index;
    }
    if (complaints[place].transport != transport) {
        complaints[place].transport = transport;
        complaints[place].fatal = false;
        complaints[place].text[0] = '\0';
    }
    length = strlen(complaints[place].text);
    snprintf(complaints[place].text + length, sizeof complaints[place].text - length, "%s%s", length ? "; " : "",
             message);
    if (level & (LEVEL_CRITICAL | LEVEL_ERROR))
        complaints[place].fatal = true;
}

/* listen(transport): keep what proton logs about it. */
static PyObject *listen_to(PyObject *module, PyObject *address) {
    void *transport = PyLong_AsVoidPtr(address);
    if (transport == NULL && PyErr_Occurred())
        return NULL;
    pn_log.set_sink(pn_log.logger(transport), complained, (intptr_t)transport);
    Py_RETURN_NONE;
}

/* complaint(transport) -> why it stopped writing, or None; each reason is returned once. */
static PyObject *complaint(PyObject *module, PyObject *address) {
    intptr_t transport = (intptr_t)PyLong_AsVoidPtr(address);
    int index;
    for (index = 0; index < COMPLAINTS; index++)
        if (transport != 0 && complaints[index].transport == transport) {
            complaints[index].transport = 0;
            if (complaints[index].fatal)
                return PyUnicode_DecodeUTF8(complaints[index].text, (Py_ssize_t)strlen(complaints[index].text), "replace");
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
