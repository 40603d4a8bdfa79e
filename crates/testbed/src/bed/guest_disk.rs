//! Exchanges files through a disk of a guest. A serial port would cost one exit per byte, and a
//! recording has many bytes. Each file is stored as its length in eight bytes, followed by its
//! content.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::inside::GUEST_DISK;

/// Size of the disk, a sparse file.
const BYTES: u64 = 256 << 20;

/// Creates an empty disk.
///
/// # Errors
/// If the file of the disk cannot be written.
pub fn create(disk: &Path) -> Result<()> {
    let file = File::create(disk).and_then(|file| file.set_len(BYTES));
    file.with_context(|| disk.display().to_string())
}

/// Writes these files to the disk. Call this function in the guest.
///
/// # Errors
/// If a file cannot be read, or does not fit.
pub fn save(files: &[&str]) -> Result<()> {
    let mut disk = File::options().write(true).open(GUEST_DISK)?;
    for file in files {
        let content = fs::read(file).with_context(|| (*file).to_owned())?;
        disk.write_all(&u64::try_from(content.len())?.to_le_bytes())?;
        disk.write_all(&content)?;
    }
    Ok(disk.sync_all()?)
}

/// Reads the first `count` files that the guest wrote to the disk. Call this function on the
/// machine that booted the guest.
///
/// # Errors
/// If the disk has fewer files.
pub fn load(disk: &Path, count: usize) -> Result<Vec<Vec<u8>>> {
    let mut disk = File::open(disk)?;
    let mut next = || -> Result<Vec<u8>> {
        let mut length = [0; 8];
        disk.read_exact(&mut length)?;
        let mut content = vec![0; usize::try_from(u64::from_le_bytes(length))?];
        disk.read_exact(&mut content)?;
        Ok(content)
    };
    (0..count).map(|_| next()).collect()
}
