"""From a source to accepted batches: settings, the door, sources, and how events become columns."""
