"""Reads a trace with Perfetto's own definitions (PyPI's `perfetto`), checks the rules for every
trace, and prints its tracks as JSON.

usage: read.py TRACE
"""

import json
import sys
from collections import defaultdict

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

BOOTTIME, MONOTONIC = 6, 3
NEEDS_STATE = pb.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
CLEARED = pb.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED


class Track:
    def __init__(self, descriptor):
        self.name = descriptor.name
        self.parent = descriptor.parent_uuid if descriptor.HasField("parent_uuid") else None
        self.counts = descriptor.HasField("counter")
        self.events = []


def read(path):
    trace = pb.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    return trace.packet


def unknown_fields(packets):
    """Returns the number of bytes in fields that the definitions do not know: such fields are kept
    when read, so discarding them makes the packets shorter."""
    kept = sum(len(packet.SerializeToString()) for packet in packets)
    for packet in packets:
        packet.DiscardUnknownFields()
    return kept - sum(len(packet.SerializeToString()) for packet in packets)


def gather(packets):
    tracks, clocks, primary = {}, set(), set()
    default_clock, state = BOOTTIME, False
    names = {"event_names": {}, "event_categories": {}, "debug_annotation_names": {}}
    for packet in packets:
        assert packet.trusted_packet_sequence_id == 1
        if packet.sequence_flags & CLEARED:
            state = True
        if packet.sequence_flags & NEEDS_STATE:
            assert state, "interned before anything was cleared"
        if packet.HasField("trace_packet_defaults"):
            default_clock = packet.trace_packet_defaults.timestamp_clock_id
        for kind, known in names.items():
            for entry in getattr(packet.interned_data, kind):
                assert entry.iid not in known, "a number twice"
                known[entry.iid] = entry.name if isinstance(entry.name, str) else entry.name.decode()
        if packet.HasField("timestamp"):
            clocks.add(packet.timestamp_clock_id or default_clock)
        if packet.HasField("clock_snapshot"):
            primary.add(packet.clock_snapshot.primary_trace_clock)
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in tracks, "a track twice"
            tracks[descriptor.uuid] = Track(descriptor)
        if packet.HasField("track_event"):
            assert primary, "an event before the clock is told"
            event = packet.track_event
            name = names["event_names"][event.name_iid] if event.name_iid else None
            notes = {
                names["debug_annotation_names"][note.name_iid]: note.uint_value
                for note in event.debug_annotations
            }
            tracks[event.track_uuid].events.append((packet.timestamp, event, name, notes))
    assert clocks == primary <= {MONOTONIC}, (clocks, primary)
    return tracks


def slices_of(track):
    """Returns every slice with its depth; fails unless they are balanced and nest properly."""
    found, open_slices = [], []
    events = sorted(track.events, key=lambda event: event[0])  # stable, as the trace processor
    for at, event, name, notes in events:
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            slice = {"name": name, "start": at, "notes": notes, "flows": list(event.flow_ids)}
            slice["depth"] = len(open_slices)
            open_slices.append(slice)
            found.append(slice)
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            slice = open_slices.pop()
            slice["end"] = at
        else:
            raise AssertionError(f"an event of type {event.type} on {track.name}")
    assert not open_slices, f"{len(open_slices)} slices of {track.name} have no end"
    for depth in {slice["depth"] for slice in found}:
        flat = [slice for slice in found if slice["depth"] == depth]
        for one, next_one in zip(flat, flat[1:]):
            assert one["end"] <= next_one["start"], f"{one} overlaps {next_one} on {track.name}"
    return found


def main():
    packets = read(sys.argv[1])
    assert unknown_fields(packets) == 0, "fields that Perfetto does not know"
    tracks = gather(packets)
    ends, shown = defaultdict(int), []
    for track in tracks.values():
        path = [track.name]
        if track.parent is not None:
            path.insert(0, tracks[track.parent].name)
        told = {"path": path, "slices": [], "counts": []}
        if track.counts:
            told["counts"] = [[at, event.counter_value] for at, event, _, _ in track.events]
            assert all(event.type == pb.TrackEvent.TYPE_COUNTER for _, event, _, _ in track.events)
        else:
            told["slices"] = slices_of(track)
        for slice in told["slices"]:
            for flow in slice["flows"]:
                ends[flow] += 1
        shown.append(told)
    assert all(count == 2 for count in ends.values()), "a flow without two ends"
    json.dump(shown, sys.stdout)


main()
