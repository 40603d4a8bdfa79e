//! The running checksum of a recording. Arrow IPC has no checksum. Without one, a flipped bit in a
//! time stamp would become a plausible wrong result.

use arrow_array::{Array, RecordBatch};
use arrow_buffer::Buffer;
use arrow_data::ArrayData;
use crc32fast::Hasher;

/// Returns the CRC-32 (as in zlib) of the run's facts. The checksum of the first batch continues
/// from this value.
pub(crate) fn of_facts(facts_json: &str) -> u32 {
    crc32fast::hash(facts_json.as_bytes())
}

/// Returns the CRC-32 of a batch, continued from the previous checksum. The checksum therefore also
/// detects a missing, doubled or swapped batch.
///
/// The checksum covers each column in order: the validity bitmap if the column holds a null, then
/// the buffers of the column, then its children in the same way. The last buffer holds the values
/// of the counters. The last of these values is the checksum itself, which is left out.
pub(crate) fn of_batch(previous: u32, batch: &RecordBatch) -> u32 {
    let mut buffers = Vec::new();
    for column in batch.columns() {
        collect(&column.to_data(), &mut buffers);
    }
    let mut hasher = Hasher::new_with_initial(previous);
    if let Some((values, others)) = buffers.split_last() {
        others.iter().for_each(|buffer| hasher.update(buffer));
        hasher.update(&values[..values.len().saturating_sub(size_of::<u64>())]);
    }
    hasher.finalize()
}

fn collect(data: &ArrayData, buffers: &mut Vec<Buffer>) {
    if let Some(nulls) = data.nulls() {
        buffers.push(nulls.buffer().clone());
    }
    buffers.extend_from_slice(data.buffers());
    for child in data.child_data() {
        collect(child, buffers);
    }
}
