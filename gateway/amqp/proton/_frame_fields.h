/* Reads fields of a peer's transfers and flows that proton does not expose: a message-format other than 0, a resumed
 * delivery (part 2, 2.7.5), a flow that requests an echo or grants a very large credit (2.7.4). Only the usual encodings are read. */

/* The size of an encoded uint or null; 0 for any other type. */
static size_t uint_size(const uint8_t *at, size_t left) {
    size_t size;
    if (left == 0)
        return 0;
    size = at[0] == 0x43 || at[0] == 0x40 ? 1 : at[0] == 0x52 ? 2 : at[0] == 0x70 ? 5 : 0;
    return size <= left ? size : 0;
}

/* Whether an encoded uint of this size is 0 or null. */
static bool is_zero(const uint8_t *at, size_t size) {
    return size == 1 || (size == 2 && at[1] == 0) || (size == 5 && !at[1] && !at[2] && !at[3] && !at[4]);
}

/* The bytes of a list before its first field, and how many fields it has; 0: not the usual encoding. */
static size_t list_head(const uint8_t *at, size_t left, size_t *count) {
    if (left >= 3 && at[0] == 0xC0)
        return *count = at[2], 3;
    if (left >= 9 && at[0] == 0xD0 && !at[5] && !at[6] && !at[7])
        return *count = at[8], 9;
    return 0;
}

/* What the scan says of a transfer. */
enum { USUAL_TRANSFER, UNUSUAL_TRANSFER, STATED_TRANSFER };

/* The size of a described list, as all states are; 0: another type, or more than the bytes that are there. */
static size_t state_size(const uint8_t *at, size_t left) {
    size_t size = left < 4 || at[0] != 0 || at[1] != 0x53 ? 0 : at[3] == 0x45 ? 4 : at[3] == 0xC0 && left > 4 ? 5 + (size_t)at[4] : 0;
    return size <= left ? size : 0;
}

/* The same for the fields after the message-format: settled, more, rcv-settle-mode, state, resume. A transfer that is
 * marked as resumed, or that cannot be read here, is unusual. */
static int transfer_flags(const uint8_t *at, size_t left, size_t count, const uint8_t **state, size_t *bytes) {
    size_t index, size;
    int found = USUAL_TRANSFER;
    for (index = 0; index < 5 && index < count; index++) {
        if (left == 0)
            return UNUSUAL_TRANSFER;
        if (index == 3 && at[0] != 0x40) {
            found = STATED_TRANSFER;
            if ((size = state_size(at, left)) != 0)
                *state = at, *bytes = size;
            if (count == 4)
                break; /* nothing follows */
        } else
            size = at[0] == 0x40 || at[0] == 0x42 || (at[0] == 0x41 && index != 4)  ? 1
                   : (at[0] == 0x56 && index < 2) || (at[0] == 0x50 && index == 2) ? 2
                                                                                   : 0;
        if (size == 0 || size > left)
            return UNUSUAL_TRANSFER;
        at += size, left -= size;
    }
    return found;
}

/* What the fields of a transfer say: it may have a message-format other than 0, a state, or fields that cannot be read
 * here. `*state` is where a state begins of which all `*bytes` are there, and unchanged otherwise. */
static int transfer_kind(const uint8_t *at, size_t left, const uint8_t **state, size_t *bytes) {
    size_t size, count, index;
    if (left >= 1 && at[0] == 0x45)
        return USUAL_TRANSFER;
    if ((size = list_head(at, left, &count)) == 0)
        return UNUSUAL_TRANSFER;
    at += size, left -= size;
    for (index = 0; index < 2 && index < count; index++) {
        if ((size = uint_size(at, left)) == 0)
            return UNUSUAL_TRANSFER;
        at += size, left -= size;
    }
    if (count < 4)
        return USUAL_TRANSFER;
    if (left >= 2 && at[0] == 0xA0)
        size = 2 + (size_t)at[1];
    else if ((size = left >= 1 && at[0] == 0x40) == 0)
        return UNUSUAL_TRANSFER;
    if (size > left)
        return UNUSUAL_TRANSFER;
    at += size, left -= size;
    if ((size = uint_size(at, left)) == 0)
        return UNUSUAL_TRANSFER;
    if (!is_zero(at, size))
        return UNUSUAL_TRANSFER;
    return transfer_flags(at + size, left - size, count - 4, state, bytes);
}

/* The size of an encoded boolean or null. */
static size_t boolean_size(const uint8_t *at, size_t left) {
    size_t size = left == 0 ? 0 : at[0] == 0x40 || at[0] == 0x41 || at[0] == 0x42 ? 1 : at[0] == 0x56 ? 2 : 0;
    return size <= left ? size : 0;
}

/* The offset of the first byte of a link-credit of 2^31 or more, which proton takes for less than none; 0: the flow has
 * none, or the byte is not there yet. */
static size_t large_credit(const uint8_t *fields, size_t left) {
    size_t count, index, at = 0, size = list_head(fields, left, &count);
    if (size == 0 || count < 7)
        return 0;
    for (index = 0; index < 6; index++) { /* the seventh field is link-credit */
        at += size, left -= size;
        if ((size = uint_size(fields + at, left)) == 0)
            return 0;
    }
    at += size, left -= size;
    return left >= 2 && fields[at] == 0x70 && fields[at + 1] >= 0x80 ? at + 1 : 0;
}

static bool is_true(const uint8_t *at) { return at[0] == 0x41 || (at[0] == 0x56 && at[1]); }

/* What a flow requests: an echo for its link, for its session, a drain without any credit (2.6.7), or nothing. */
static int requested_echo(const uint8_t *at, size_t left) {
    size_t count, index, size = list_head(at, left, &count);
    bool link = false, spent = false, drain = false, echo = false;
    if (size == 0 || count < 9)
        return NO_ECHO;
    for (index = 0; index < 10 && index < count; index++) { /* the last of them are drain and echo */
        at += size, left -= size;
        if ((size = index < 8 ? uint_size(at, left) : boolean_size(at, left)) == 0)
            return NO_ECHO;
        link |= index == 4 && at[0] != 0x40;
        spent |= index == 6 && is_zero(at, size);
        drain |= index == 8 && is_true(at);
        echo |= index == 9 && is_true(at);
    }
    if (echo)
        return link ? ECHO_LINK : ECHO_SESSION;
    return link && spent && drain ? EMPTY_DRAIN : NO_ECHO;
}

/* Whether a flow may have a transaction in its properties (part 4, 4.4.3): whoever decodes it sees. */
static bool names_transaction(const uint8_t *at, size_t left) { return memmem(at, left, "txn-id", 6) != NULL; }
