//! The disk by which a guest hands out files: a byte on a serial port is an exit, and a recording has many. On
//! it is of each file its length in eight bytes, and it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result};

use super::inside::GUEST_DISK;

/// It takes no room until it is written.
const BYTES: u64 = 256 << 20;

/// Makes one that is empty.
///
/// # Errors
/// If it cannot be written.
pub fn create(disk: &Path) -> Result<()> {
    let file = File::create(disk).and_then(|file| file.set_len(BYTES));
    file.with_context(|| disk.display().to_string())
}

/// In the guest: puts these files on it.
///
/// # Errors
/// If one cannot be read, or there is no room for it.
pub fn save(files: &[&str]) -> Result<()> {
    let mut disk = File::options().write(true).open(GUEST_DISK)?;
    for file in files {
        let content = fs::read(file).with_context(|| (*file).to_owned())?;
        disk.write_all(&u64::try_from(content.len())?.to_le_bytes())?;
        disk.write_all(&content)?;
    }
    Ok(disk.sync_all()?)
}

/// On its machine: what the guest has put there, so many files in their order.
///
/// # Errors
/// If there are fewer.
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
