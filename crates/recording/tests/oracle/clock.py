"""When a stamp of the TSC was, by the anchors of a recording."""

import bisect

U64_MAX = 2**64 - 1


class Clock:
    """TSC to CLOCK_MONOTONIC along straight lines between anchors."""

    def __init__(self, anchors, tsc_hz):
        self.tsc_hz = max(1, tsc_hz)
        self.tsc, self.ns, self.refused = [], [], 0
        for row in anchors:
            before, after, ns = row["start_tsc"], row["end_tsc"], row["start_mono_ns"]
            middle = (before + after) // 2
            late = bool(self.tsc) and (middle <= self.tsc[-1] or ns <= self.ns[-1])
            if after < before or late:
                self.refused += 1
            else:
                self.tsc.append(middle)
                self.ns.append(ns)

    def ns_at(self, tsc):
        if len(self.tsc) < 2:
            at, base = (self.tsc + [0])[0], (self.ns + [0])[0]
            rise, run = 10**9, self.tsc_hz
        else:
            left = bisect.bisect_right(self.tsc, tsc) - 1
            left = min(max(left, 0), len(self.tsc) - 2)
            at, base = self.tsc[left], self.ns[left]
            rise, run = self.ns[left + 1] - base, self.tsc[left + 1] - at
        # Python rounds towards minus infinity on both sides of the anchor.
        return min(max(base + (tsc - at) * rise // run, 0), U64_MAX)

    def tsc_at(self, ns):
        turned = object.__new__(Clock)
        turned.tsc, turned.ns = self.ns, self.tsc
        if len(self.tsc) < 2:
            at, base = (self.ns + [0])[0], (self.tsc + [0])[0]
            return min(max(base + (ns - at) * self.tsc_hz // 10**9, 0), U64_MAX)
        return turned.ns_at(ns)
