"""Runs the queries of one section of a page, and prints their answers as JSON.

usage: ask.py PAGE SECTION, in the folder that holds the data set
"""

import json
import sys

from page import blocks, plain

QUESTIONS = ["worst_hosts", "culprits", "steal_by_hour"]


def duckdb_answers(queries):
    import duckdb

    return {
        question: duckdb.sql(query).fetchall()
        for question, query in zip(QUESTIONS, queries, strict=True)
    }


def python_answers(steps):
    names = {}
    for step in steps:
        exec(step, names)
    return {question: rows(names[question]) for question in QUESTIONS}


def rows(answer):
    return answer.rows() if hasattr(answer, "rows") else [tuple(row) for row in answer.collect()]


def main():
    page, section = sys.argv[1:]
    found = blocks(page, section)
    answers = duckdb_answers(found) if section == "DuckDB" else python_answers(found)
    json.dump(answers, sys.stdout, default=plain)


main()
