"""The operators as methods: what ``Streamable`` is put together from, one file for each family."""
