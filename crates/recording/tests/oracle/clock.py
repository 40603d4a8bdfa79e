"""Converts stamps of the TSC to CLOCK_MONOTONIC, by the anchors of a recording."""

import bisect

U64_MAX = 2**64 - 1
# Largest difference of the two clocks from one anchor to the next if neither jumped.
RATE_PART, JUMP_NS = 200, 10_000


class Clock:
    """Interpolates linearly between anchors."""

    def __init__(self, anchors, tsc_hz):
        self.tsc_hz = max(1, tsc_hz)
        self.tsc, self.ns, self.refused = [], [], 0
        # Indices of the anchors before which a clock jumped.
        self.jumps = []
        for row in anchors:
            before, after, ns = row["start_tsc"], row["end_tsc"], row["start_mono_ns"]
            middle = (before + after) // 2
            late = bool(self.tsc) and (middle <= self.tsc[-1] or ns <= self.ns[-1])
            if after < before or late:
                self.refused += 1
            else:
                if self.tsc and not self.goes_on(before, after, ns):
                    self.jumps.append(len(self.tsc))
                self.tsc.append(middle)
                self.ns.append(ns)

    def goes_on(self, before, after, ns):
        """Returns true if the clocks ran at the rate of the start, or of the two last anchors."""
        elapsed = ns - self.ns[-1]
        width = -((before - after) * 10**9 // self.tsc_hz)
        allowed = elapsed // RATE_PART + width + JUMP_NS
        measured = max(0, before - self.tsc[-1]) * 10**9 // self.tsc_hz
        if abs(measured - elapsed) <= allowed:
            return True
        if len(self.tsc) < 2:
            return False
        rise, run = self.ns[-1] - self.ns[-2], self.tsc[-1] - self.tsc[-2]
        expected = self.ns[-2] + (before - self.tsc[-2]) * rise // run
        return abs(min(expected, U64_MAX) - ns) <= allowed

    def jumped_between(self, start_tsc, end_tsc):
        return any(start_tsc < self.tsc[place] and self.tsc[place - 1] < end_tsc
                   for place in self.jumps)

    def jumped_ns(self, start_ns, end_ns):
        return sum(max(0, min(self.ns[place], end_ns) - max(self.ns[place - 1], start_ns))
                   for place in self.jumps)

    def ns_at(self, tsc):
        last = len(self.tsc) - 1
        left = bisect.bisect_right(self.tsc, tsc) - 1
        # The first and the last line continue beyond their anchors, unless a clock jumped there.
        if last < 1 or left < 0 and 1 in self.jumps or left == last and last in self.jumps:
            place = min(max(left, 0), max(last, 0))
            at, base = (self.tsc + [0])[place], (self.ns + [0])[place]
            rise, run = 10**9, self.tsc_hz
        else:
            left = min(max(left, 0), last - 1)
            at, base = self.tsc[left], self.ns[left]
            rise, run = self.ns[left + 1] - base, self.tsc[left + 1] - at
        # Python rounds towards minus infinity on both sides of the anchor.
        return min(max(base + (tsc - at) * rise // run, 0), U64_MAX)

    def tsc_at(self, ns):
        turned = object.__new__(Clock)
        turned.tsc, turned.ns, turned.jumps = self.ns, self.tsc, []
        if len(self.tsc) < 2:
            at, base = (self.ns + [0])[0], (self.tsc + [0])[0]
            return min(max(base + (ns - at) * self.tsc_hz // 10**9, 0), U64_MAX)
        return turned.ns_at(ns)
