"""chop: lifetimes cut at the boundaries of a grid."""
