//! Decompresses files that Debian compresses: kernel modules, the kernel itself, and Xen.

use std::io::{Seek, Write};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Known formats: the first bytes of a compressed file, the program that decompresses it, and the
/// Debian package of this program.
const FORMATS: [(&[u8], &str, &str); 4] = [
    (b"\x1f\x8b", "gzip", "gzip"),
    (b"\xfd7zXZ\0", "xz", "xz-utils"),
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd"),
    (b"\x02\x21\x4c\x18", "lz4", "lz4"),
];

/// Returns the decompressed content. Returns bytes of an unknown format unchanged.
pub(super) fn decompressed(bytes: &[u8]) -> Result<Vec<u8>> {
    let format = FORMATS.iter().find(|(magic, ..)| bytes.starts_with(magic));
    let Some(&(_, program, package)) = format else {
        return Ok(bytes.to_owned());
    };
    let mut input = tempfile::tempfile()?;
    input.write_all(bytes)?;
    input.rewind()?;
    let output = Command::new(program)
        .args(["-d", "-c"])
        .stdin(input)
        .output()
        .with_context(|| format!("starting {program} (package {package})"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program}: {said}");
    Ok(output.stdout)
}
