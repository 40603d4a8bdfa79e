"""Reads a recording by docs/recording-format.md, and verifies the checksums."""

import json
import zlib

import pyarrow as pa

SOURCE, GAP, ACTIVITY, ANCHOR, TALLY, LOSS, OWN_COST, WATERMARK, FINISH = range(9)
VCPU, EXIT_OF_VCPU, VCPU_INTERVAL, VCPU_TOTALS = range(9, 13)
VCPU_CLOCK = 15
CHECKSUM = 255


def crc_of_batch(previous, batch):
    """Returns the running checksum that docs/recording-format.md defines."""
    parts = []
    for column in batch.columns:
        validity, *buffers = column.buffers()
        if column.null_count:
            parts.append(validity)
        if pa.types.is_map(column.type):
            offsets, _, _, key_offsets, key_data, _, values = buffers
            buffers = [offsets, key_offsets, key_data, values]
        parts += [buffer for buffer in buffers if buffer is not None]
    *others, values = parts
    for part in others:
        previous = zlib.crc32(part, previous)
    return zlib.crc32(memoryview(values)[:-8], previous)


def read(path):
    """Returns the facts and the rows of every complete batch; verifies the checksums."""
    rows = []
    with pa.OSFile(path) as file:
        stream = pa.ipc.open_stream(file)
        metadata = stream.schema.metadata
        facts = metadata[b"vmnoise.facts"]
        checksum = zlib.crc32(facts)
        assert metadata[b"vmnoise.format_version"] in [b"%d" % version for version in range(1, 12)], "another format version"
        assert int(metadata[b"vmnoise.facts_crc32"]) == checksum, "damaged facts"
        while True:
            try:
                batch = stream.read_next_batch()
            except StopIteration:
                break
            except (pa.ArrowInvalid, OSError):
                break  # cut inside a batch
            checksum = crc_of_batch(checksum, batch)
            *events, last = batch.to_pylist()
            assert last["event"] == CHECKSUM, "a batch without its checksum"
            assert dict(last["counters"])["crc32"] == checksum, "a damaged batch"
            rows += events
    return json.loads(facts), rows
