"""Causes of rows: the rows of an operator's inputs on which rows of its output stand."""
