"""What DuckDB finds in a data set: for each host and CPU its gaps and what they took, and for each culprit what it took.

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
