"""Runs a page's queries about hours with an engine, and prints the answers and their times as JSON.

usage: ask_hours.py PAGE ENGINE, in the folder that holds the data set
"""

import json
import sys
import time

from page import blocks, plain

QUESTIONS = ["worst_vms", "culprits", "p99_by_hour"]


def duckdb(page):
    import duckdb

    (view,) = blocks(page, "Hours in DuckDB")
    duckdb.sql(view)
    return lambda query: duckdb.sql(query).fetchall()


def pyspark(page):
    names = {}
    (view,) = blocks(page, "Hours in PySpark")
    exec(view, names)
    return lambda query: [tuple(row) for row in names["spark"].sql(query).collect()]


def main():
    page, engine = sys.argv[1:]
    begun = time.monotonic()
    ask = {"DuckDB": duckdb, "PySpark": pyspark}[engine](page)
    seconds = {"view": time.monotonic() - begun}
    answers = {}
    for question, query in zip(QUESTIONS, blocks(page, "Three questions about hours"), strict=True):
        begun = time.monotonic()
        answers[question] = ask(query)
        seconds[question] = time.monotonic() - begun
    json.dump({"answers": answers, "seconds": seconds}, sys.stdout, default=plain)


main()
