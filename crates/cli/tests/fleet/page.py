"""Reads the blocks under a page's headings, and converts answers to JSON values."""

import datetime
import re


def blocks(page, section):
    """Returns the fenced blocks under this heading, in order."""
    with open(page, encoding="utf-8") as file:
        text = file.read()
    body = text.split(f"\n### {section}\n", 1)[1].split("\n## ")[0].split("\n### ")[0]
    return re.findall(r"^```\w+\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)


def plain(value):
    return value.isoformat() if isinstance(value, datetime.datetime) else float(value)
