//! Tests that the release binary is small enough to be copied to guests and hosts.

use std::fs;

use vmnoise_testbed::binary;

/// Limit in bytes. The binary must be smaller.
const LIMIT_BYTES: u64 = 16_000_000;

mod release {
    use super::*;

    #[test]
    fn the_release_binary_is_below_its_limit() {
        let binary = binary();
        let bytes = fs::metadata(&binary).unwrap().len();
        assert!(
            bytes < LIMIT_BYTES,
            "{} has {bytes} bytes and must have fewer than {LIMIT_BYTES}: `cargo xtask weight` shows which crates take them",
            binary.display()
        );
    }
}
