/* What `amqp.bare` of a record begins with (bridges/kafka/records/envelope.py), and the digest in it. */
#pragma once
#include "../../gateway/amqp/message/_libcrypto.h"

enum { SEAL_DIGEST = 16, SEAL_HEAD = 13 }; /* the kind, and the sizes of key, value and the rest of `amqp.bare` */

static unsigned char *put_size(unsigned char *at, uint32_t number) {
    at[0] = (unsigned char)(number >> 24), at[1] = (unsigned char)(number >> 16);
    at[2] = (unsigned char)(number >> 8), at[3] = (unsigned char)number;
    return at + 4;
}
