"""Bytes on disk: files written whole or not at all, segments, the event log. Private."""
