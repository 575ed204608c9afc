"""Types of proton's C pointers for mypy; at run time each is the object of the Python binding.

The binding has no type annotations, so pointers get their types as parameters or attributes.
"""

from __future__ import annotations

from typing import NewType

ProtonTransport = NewType("ProtonTransport", object)
"""`pn_transport_t *`: the frames of one connection."""
ProtonConnection = NewType("ProtonConnection", object)
"""`pn_connection_t *`."""
ProtonCollector = NewType("ProtonCollector", object)
"""`pn_collector_t *`: the events of one connection."""
ProtonEvent = NewType("ProtonEvent", object)
"""`pn_event_t *`, valid until it is taken off its collector."""
ProtonSession = NewType("ProtonSession", object)
"""`pn_session_t *`; pointers to one session are equal, and have one hash."""
ProtonLink = NewType("ProtonLink", object)
"""`pn_link_t *`, valid until it is freed; pointers to one link are equal, and have one hash."""
ProtonDelivery = NewType("ProtonDelivery", object)
"""`pn_delivery_t *`, valid until it is settled or its link is freed."""
ProtonTerminus = NewType("ProtonTerminus", object)
"""`pn_terminus_t *`: a source or target, part of its link."""
ProtonData = NewType("ProtonData", object)
"""`pn_data_t *`: encoded values; a null pointer is false."""
ProtonCondition = NewType("ProtonCondition", object)
"""`pn_condition_t *`: an error, part of what it is about."""
CString = NewType("CString", object)
"""`const char *`, ended by a NUL; a null pointer is false."""
