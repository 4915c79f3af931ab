"""hopping_window, tumbling_window and hopping_window2: windows of a regular grid."""
