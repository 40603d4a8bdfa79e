//! Limit for the number of gaps, latencies or exits that a result lists.

use clap::builder::RangedU64ValueParser;
use vmnoise_explain::MOST_LISTED;

/// Returns the parser of `--top`, which refuses a number larger than a result can list.
pub(super) fn top() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=MOST_LISTED as u64)
}
