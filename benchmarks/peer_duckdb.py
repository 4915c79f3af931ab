"""Queries in DuckDB: a child process of ``nexmark.py``, which needs duckdb alone.

It reads requests from standard input, a line of JSON each, and answers on standard output. Tables
come as Parquet, and so do results go. The clock runs while a query makes a table in memory of its
results, on one thread.
"""

import json
import os
import sys
import time
import traceback

import duckdb


def load(database, wanted):
    """Read a table into memory, in place of one of this name."""
    name, path = wanted["name"], wanted["path"]
    database.execute(f"CREATE OR REPLACE TABLE {name} AS SELECT * FROM '{path}'")
    return 0.0


def query(database, wanted):
    """Run a query, and write its results if a path is given; return the seconds of the query."""
    begun = time.perf_counter()
    database.execute(f"CREATE OR REPLACE TEMP TABLE result AS {wanted['sql']}")
    seconds = time.perf_counter() - begun
    if "path" in wanted:
        database.execute(f"COPY result TO '{wanted['path']}' (FORMAT parquet)")
    return seconds


TASKS = {"load": load, "query": query}


def main():
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the library prints is not an answer
    database = duckdb.connect()
    database.execute("SET threads = 1")
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        wanted = json.loads(line)
        try:
            answer = {"seconds": TASKS[wanted["task"]](database, wanted)}
        except Exception:
            answer = {"error": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
