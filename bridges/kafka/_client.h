/* Gives C code the librdkafka handle that confluent-kafka keeps private in its clients (decision 17).
 *
 * It uses the functions of the library that confluent-kafka has loaded; a module's `bind` receives their addresses.
 */
#include <Python.h>
#include <string.h>

typedef void *pointer;

typedef struct {
    int code;
    pointer topic;
    int32_t partition;
    const char *value;
    size_t value_size;
    const char *key;
    size_t key_size;
    int64_t offset;
    pointer own;
} message; /* rd_kafka_message_t */

/* Fill a table of functions; if an address is invalid, the table stays unchanged. */
static int bound(PyObject *addresses, void *table, Py_ssize_t count) {
    pointer found[64];
    Py_ssize_t index;
    if (PyTuple_GET_SIZE(addresses) != count) {
        PyErr_Format(PyExc_TypeError, "%zd addresses are wanted", count);
        return -1;
    }
    for (index = 0; index < count; index++) {
        found[index] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, index));
        if (found[index] == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "no function is at address 0");
            return -1;
        }
    }
    memcpy(table, found, (size_t)count * sizeof(pointer));
    return 0;
}

/* librdkafka's handle of a client: the first field after the object header of confluent-kafka's opaque object. */
static pointer handle_of(PyObject *client, PyTypeObject *type, pointer (**opaque)(pointer client)) {
    pointer found;
    if (type == NULL || !PyObject_TypeCheck(client, type)) {
        PyErr_Format(PyExc_TypeError, "a %s of confluent-kafka is wanted", type == NULL ? "client" : type->tp_name);
        return NULL;
    }
    memcpy(&found, (char *)client + sizeof(PyObject), sizeof found);
    if (found == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the client is closed");
        return NULL;
    }
    if ((*opaque)(found) != client) {
        PyErr_SetString(PyExc_TypeError, "the client is not laid out as this gateway was made for");
        return NULL;
    }
    return found;
}
