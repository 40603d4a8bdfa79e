"""Runs the queries of one section of a page, and prints what they answer as JSON.

usage: ask.py PAGE SECTION, in the folder that holds the data set
"""

import datetime
import json
import re
import sys

QUESTIONS = ["worst_hosts", "culprits", "steal_by_hour"]


def blocks(page, section):
    """The fenced blocks under this heading, in their order."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    body = text.split(f"\n### {section}\n", 1)[1].split("\n## ")[0].split("\n### ")[0]
    return re.findall(r"^```\w+\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)


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


def plain(value):
    return value.isoformat() if isinstance(value, datetime.datetime) else float(value)


def main():
    page, section = sys.argv[1:]
    found = blocks(page, section)
    answers = duckdb_answers(found) if section == "DuckDB" else python_answers(found)
    json.dump(answers, sys.stdout, default=plain)


main()
