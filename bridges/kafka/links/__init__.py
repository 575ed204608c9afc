"""The links of peers to a topic: `receiver` delivers events, `sender` writes messages (ES 3, ES 4; KM-11, KM-12).

`redelivery_queue` has events that are sent again, `checkpointer` stores positions, `group_start` stores when a group
began. Uses every room of the bridge but `groups`, which assigns partitions to these links.
"""
