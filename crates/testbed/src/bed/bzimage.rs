//! Unpacks the kernel in a bzImage. Otherwise the bzImage would unpack itself at boot, which takes
//! a large part of an emulated boot.

use std::path::Path;

use anyhow::{Context, Result};

use super::compressed::decompressed;

/// Returns the kernel in a bzImage as an ELF file.
pub(super) fn vmlinux(image: &Path) -> Result<Vec<u8>> {
    decompressed(payload(&std::fs::read(image)?)?)
}

/// Returns the compressed kernel, without its uncompressed size, which is stored after the
/// compressed kernel (Documentation/arch/x86/boot.rst).
fn payload(image: &[u8]) -> Result<&[u8]> {
    const SETUP_SECTORS: usize = 0x1f1;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    let sectors = usize::from(*image.get(SETUP_SECTORS).context("no bzImage")?);
    let start = (sectors + 1) * 512 + word(image, PAYLOAD_OFFSET)?;
    let end = start + word(image, PAYLOAD_LENGTH)? - size_of::<u32>();
    image.get(start..end).context("a bzImage cut short")
}

/// Returns the little-endian number in the four bytes from `at`.
pub(super) fn word(bytes: &[u8], at: usize) -> Result<usize> {
    let word = bytes.get(at..at + size_of::<u32>()).context("cut short")?;
    Ok(u32::from_le_bytes(word.try_into()?) as usize)
}
