"""The Java side: which Java, how much memory, the session, and whether it is still there."""
