"""stitch: adjacent rows of equal payload joined into one."""
