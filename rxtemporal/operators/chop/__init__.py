"""chop and sample: lifetimes cut, and read, at the boundaries of a grid."""
