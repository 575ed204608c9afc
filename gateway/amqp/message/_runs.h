/* Changes consecutive messages of a link as the functions for a single one do, in one call.
 *
 * Included by `_sections.c`, behind these functions. The result has the messages up to the first one that Python has to look
 * at: one that came settled, one for which the function returns `...`, and one for which it fails, which fails again when
 * Python changes it alone.
 */

enum { RUN_ARGS = 3, MOST_WITH = 3 }; /* messages, start, end; and what the function takes behind a message */
typedef PyObject *(*change_message)(PyObject *module, PyObject *const *args, Py_ssize_t count);

static bool is_unsettled(PyObject *item) {
    return PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 3 && PyTuple_GET_ITEM(item, 2) == Py_False;
}

/* Append the changed message; 1: done, 0: Python has to look at it, -1: an exception. */
static int add_changed(PyObject *found, PyObject *item, change_message change, PyObject **with, Py_ssize_t count) {
    PyObject *made;
    int result = 0;
    Py_INCREF(item); /* `mint` may run any code */
    with[0] = PyTuple_GET_ITEM(item, 1);
    made = change(NULL, with, count);
    if (made == NULL && PyErr_ExceptionMatches(PyExc_Exception))
        PyErr_Clear();
    else if (made == NULL)
        result = -1;
    else if (PyBytes_Check(made))
        result = PyList_Append(found, made) < 0 ? -1 : 1;
    Py_XDECREF(made);
    Py_DECREF(item);
    return result;
}

static PyObject *change_run(change_message change, PyObject *const *args, Py_ssize_t count, bool right) {
    PyObject *with[1 + MOST_WITH], *found;
    Py_ssize_t index, end;
    int result = 1;
    if (!right || count < RUN_ARGS || count > RUN_ARGS + MOST_WITH || !PyList_Check(args[0]) || !PyLong_Check(args[1]) ||
        !PyLong_Check(args[2])) {
        PyErr_SetString(PyExc_TypeError, "expected messages and a range of them, and what one message takes");
        return NULL;
    }
    index = PyLong_AsSsize_t(args[1]), end = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred())
        return NULL;
    memcpy(with + 1, args + RUN_ARGS, (size_t)(count - RUN_ARGS) * sizeof *with);
    if ((found = PyList_New(0)) == NULL)
        return NULL;
    for (; result > 0 && index >= 0 && index < end && index < PyList_GET_SIZE(args[0]); index++) {
        PyObject *item = PyList_GET_ITEM(args[0], index);
        result = is_unsettled(item) ? add_changed(found, item, change, with, count - RUN_ARGS + 1) : 0;
    }
    if (result < 0)
        Py_CLEAR(found);
    return found;
}

/* The message itself, unless it may have delivery annotations. */
static PyObject *unannotated(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    if (!PyBytes_Check(args[0]) || may_be_annotated((const uint8_t *)PyBytes_AS_STRING(args[0]), PyBytes_GET_SIZE(args[0])))
        return not_supported();
    return Py_NewRef(args[0]);
}

/* unannotated_run(messages, start, end) -> the bytes of those without delivery annotations */
static PyObject *unannotated_run(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return change_run(unannotated, args, count, count == RUN_ARGS);
}

/* annotate_run(messages, start, end, sections by encoded reply-to) -> as `add_annotations` */
static PyObject *annotate_run(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return change_run(add_annotations, args, count, count == RUN_ARGS + 1 && PyDict_Check(args[3]));
}

/* rewrite_run(messages, start, end, addresses, mark, mint) -> as `rewrite_request` */
static PyObject *rewrite_run(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return change_run(rewrite_request, args, count, count == RUN_ARGS + 3 && PyDict_Check(args[3]) && PyBytes_Check(args[4]));
}
