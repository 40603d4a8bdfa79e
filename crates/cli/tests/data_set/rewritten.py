"""Rewrites each table of a data set with DuckDB, with its defaults.

usage: rewritten.py, in the folder that holds the data set `fleet`
"""

import glob
import os

import duckdb

for table in glob.glob("fleet/host=*/run=*/*.parquet"):
    duckdb.sql(f"COPY (FROM read_parquet('{table}', hive_partitioning = false)) TO '{table}.new' (FORMAT parquet)")
    os.replace(f"{table}.new", table)
