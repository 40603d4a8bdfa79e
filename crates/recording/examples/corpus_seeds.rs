//! Writes the seeds of the reader's fuzz corpus into the given folder: small recordings, complete,
//! cut and damaged.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use common::{one_of_each, record, replay};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| std::io::Error::other("name a folder"))?;
    let save = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes);

    let whole = record(&one_of_each(), 5);
    let part_ends: Vec<usize> = (1..=whole.len())
        .filter(|len| replay(&whole[..*len]).1.is_ok())
        .collect();
    save("whole", &whole)?;
    save("no-events", &record(&[], 1))?;
    save("header-only", &whole[..part_ends[0]])?;
    save("killed-after-a-batch", &whole[..part_ends[1]])?;
    save("cut-in-the-header", &whole[..part_ends[0] / 2])?;
    save("cut-in-metadata", &whole[..part_ends[0] + 50])?;
    save("cut-in-a-body", &whole[..part_ends[1] - 50])?;
    save("trailing-data", &[whole.as_slice(), b"more"].concat())?;
    save("no-recording", b"PAR1 is how Parquet starts")?;
    // Positions over header, metadata and bodies.
    for (number, at) in (0..whole.len()).step_by(whole.len() / 12).enumerate() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x55;
        save(&format!("damaged-{number}"), &damaged)?;
    }
    Ok(())
}
