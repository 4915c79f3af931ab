"""count_window: windows of consecutive distinct starts."""
