"""Encoded messages (part 3, 3.2): finds their sections, and reads and edits them without decoding the rest.

Pure: uses `gateway.amqp.codec` and `gateway.errors`. Import from `sections`.
"""
