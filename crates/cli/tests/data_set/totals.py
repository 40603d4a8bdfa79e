"""Sums up a data set with DuckDB: the gaps of each host and CPU with their time, and the time of each culprit.

usage: totals.py, in the folder that holds the data set `fleet`
"""

import json
import sys

import duckdb

GAPS = """
SELECT host, cpu, count(*), sum(dur_ns)::BIGINT
FROM read_parquet('fleet/host=*/run=*/gaps.parquet', hive_partitioning = true)
GROUP BY host, cpu ORDER BY host, cpu
"""
CULPRITS = """
SELECT share, source, sum(ns)::BIGINT, count(*), max(ns), count(DISTINCT host)
FROM read_parquet('fleet/host=*/run=*/gap_parts.parquet', hive_partitioning = true)
GROUP BY share, source ORDER BY 3 DESC, 1, 2
"""
json.dump({"gaps": duckdb.sql(GAPS).fetchall(), "culprits": duckdb.sql(CULPRITS).fetchall()}, sys.stdout)
