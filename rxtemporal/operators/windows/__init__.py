"""Windows as operators: bounds that group rows, and results over them."""
