"""Storage on disk: atomically written files, segments, the event log. Private."""
