"""Reads an interval log with HdrHistogram's own Python implementation, and prints for each tag the number
of values, some percentiles, and the beginning and end of each line (seconds since the epoch)."""

import json
import sys

from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

LONGEST_NS = 3_600_000_000_000
PERCENTILES = [50, 90, 99, 99.9, 100]


def main():
    reader = HistogramLogReader(sys.argv[1], HdrHistogram(1, LONGEST_NS, 3))
    found = {}
    while True:
        line = reader.get_next_interval_histogram()
        if line is None:
            break
        of_tag = found.setdefault(line.get_tag() or "", {"sum": HdrHistogram(1, LONGEST_NS, 3), "lines": []})
        of_tag["sum"].add(line)
        span = [line.get_start_time_stamp() / 1e3, line.get_end_time_stamp() / 1e3, line.get_total_count()]
        of_tag["lines"].append(span)
    for of_tag in found.values():
        histogram = of_tag.pop("sum")
        of_tag["count"] = histogram.get_total_count()
        of_tag["percentiles"] = [histogram.get_value_at_percentile(it) for it in PERCENTILES]
    print(json.dumps(found))


main()
