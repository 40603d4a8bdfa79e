"""Runs the job of a page that computes the cost of a barrier, for steps of STEP_NS and with each host repeated
TIMES times, and prints ranks and slowdown as JSON.

usage: steps.py PAGE STEP_NS TIMES, in the folder that holds the data set
"""

import json
import sys

from page import blocks


def main():
    page, step_ns, times = sys.argv[1:]
    first, *job = blocks(page, "Steps in PySpark")
    names = {"__name__": "__main__"}
    exec(first, names)
    names.update(STEP_NS=int(step_ns), TIMES=int(times))
    for block in job:
        exec(block, names)
    json.dump({key: names[key] for key in ["ranks", "slowdown_percent"]}, sys.stdout)


main()
