"""The event-flow page: a run taken apart, or a served one, as one HTML page."""
