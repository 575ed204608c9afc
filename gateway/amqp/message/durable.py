"""Messages that a container has to keep over a restart (AMQP 1.0 part 3, 3.2.1). Pure."""

from __future__ import annotations

from gateway.amqp.message.sections import HEADER, header, section, walk
from gateway.errors import AmqpError


def durable(data: bytes) -> bytes:
    """The message with `durable` in its header, whose other fields stay; its receiver refuses a malformed one."""
    try:
        layout = walk(data)
        fields = header(data, layout)
    except AmqpError:
        return data
    if fields[:1] == [True]:
        return data
    return section(HEADER, [True, *fields[1:]]) + data[layout.da :]
