//! How many of the longest a result may list.

use clap::builder::RangedU64ValueParser;
use vmnoise_explain::MOST_LISTED;

/// Of `--top`: a longer list would be cut short without a word.
pub(super) fn top() -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(..=MOST_LISTED as u64)
}
