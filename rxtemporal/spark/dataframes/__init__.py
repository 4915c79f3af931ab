"""DataFrames as streams on the Rx side: bounded ones, and streaming ones."""
