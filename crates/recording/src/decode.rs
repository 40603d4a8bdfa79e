//! Decodes a message to a batch.
//!
//! Arrow's decoder trusts the positions in a message's metadata. It panics if a position is outside
//! the body, or cuts a number in half. Therefore this module first compares the metadata with the
//! body and the columns.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_data::{BufferSpec, layout};
use arrow_ipc::MetadataVersion;
use arrow_ipc::reader::read_record_batch;
use arrow_schema::{ArrowError, DataType, Fields, SchemaRef};

use crate::messages::Message;

/// Decoder of the batches of one schema.
pub(crate) struct Decoder {
    schema: SchemaRef,
    /// Size of one value in bytes, for each buffer of a batch in the order of the buffers.
    widths: Vec<i64>,
}

impl Decoder {
    pub fn new(schema: SchemaRef) -> Decoder {
        let mut widths = Vec::new();
        collect_widths(schema.fields(), &mut widths);
        Decoder { schema, widths }
    }

    /// Returns the batch in this message, or one line that says why there is no batch.
    pub fn decode(&self, message: &Message) -> Result<RecordBatch, String> {
        let header = message.header().ok_or("its metadata is not valid")?;
        let batch = header
            .header_as_record_batch()
            .ok_or("a message that is no batch")?;
        if header.version() != MetadataVersion::V5 || batch.compression().is_some() {
            return Err("an encoding that vmnoise does not write".to_owned());
        }
        if !self.fits(&batch, message.body.len() as i64) {
            return Err("its metadata does not fit its data".to_owned());
        }
        let dictionaries = HashMap::new();
        read_record_batch(
            &message.body,
            batch,
            self.schema.clone(),
            &dictionaries,
            None,
            &MetadataVersion::V5,
        )
        .map_err(|error| first_line(&error))
    }

    fn fits(&self, batch: &arrow_ipc::RecordBatch<'_>, body_bytes: i64) -> bool {
        let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
            return false;
        };
        let within = |bytes: i64| (0..=body_bytes).contains(&bytes);
        // No column has more values than the body has bytes.
        let nodes_fit = nodes
            .iter()
            .all(|node| within(node.length()) && (0..=node.length()).contains(&node.null_count()));
        // Each byte is in one buffer only. Otherwise a few bytes would give any number of rows.
        let mut end = 0;
        let buffers_fit = buffers.iter().zip(&self.widths).all(|(buffer, width)| {
            let (start, length) = (buffer.offset(), buffer.length());
            let fits = (end..=body_bytes).contains(&start) && within(length);
            end = if fits { start + length } else { i64::MAX };
            within(end) && length % width == 0
        });
        within(batch.length()) && nodes_fit && buffers_fit && buffers.len() == self.widths.len()
    }
}

/// Returns the first line of an error. Arrow's errors may have several lines.
pub(crate) fn first_line(error: &ArrowError) -> String {
    let text = error.to_string();
    text.lines().next().unwrap_or_default().to_owned()
}

fn collect_widths(fields: &Fields, widths: &mut Vec<i64>) {
    for field in fields {
        let layout = layout(field.data_type());
        if layout.can_contain_null_mask {
            widths.push(1);
        }
        widths.extend(layout.buffers.iter().map(|buffer| match buffer {
            BufferSpec::FixedWidth { byte_width, .. } => *byte_width as i64,
            _ => 1,
        }));
        match field.data_type() {
            DataType::Map(entries, _) => collect_widths(&vec![entries.clone()].into(), widths),
            DataType::Struct(children) => collect_widths(children, widths),
            _ => {}
        }
    }
}
