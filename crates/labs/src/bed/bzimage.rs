//! The kernel in a bzImage, which unpacks itself when it boots: in emulation that is a good part of
//! its boot.

use std::path::Path;

use anyhow::{Context, Result};

use super::compressed::decompressed;

/// It, as an ELF file.
pub(super) fn vmlinux(image: &Path) -> Result<Vec<u8>> {
    decompressed(payload(&std::fs::read(image)?)?)
}

/// The compressed kernel (Documentation/arch/x86/boot.rst). Behind it stands its size.
fn payload(image: &[u8]) -> Result<&[u8]> {
    const SETUP_SECTORS: usize = 0x1f1;
    const PAYLOAD_OFFSET: usize = 0x248;
    const PAYLOAD_LENGTH: usize = 0x24c;
    let sectors = usize::from(*image.get(SETUP_SECTORS).context("no bzImage")?);
    let start = (sectors + 1) * 512 + word(image, PAYLOAD_OFFSET)?;
    let end = start + word(image, PAYLOAD_LENGTH)? - size_of::<u32>();
    image.get(start..end).context("a bzImage cut short")
}

/// A little-endian number of four bytes.
pub(super) fn word(bytes: &[u8], at: usize) -> Result<usize> {
    let word = bytes.get(at..at + size_of::<u32>()).context("cut short")?;
    Ok(u32::from_le_bytes(word.try_into()?) as usize)
}
