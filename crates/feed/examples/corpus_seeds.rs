//! Writes the seeds of the decoder's fuzz corpus into the given folder: streams of a feed,
//! complete, cut and damaged.

#[path = "../tests/common/mod.rs"]
mod common;

use std::path::PathBuf;

use common::{counts_frame, framed, full_frame};
use vmnoise_feed::{VERSION, encode};

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from);
    let folder = folder.ok_or_else(|| std::io::Error::other("name a folder"))?;
    let save = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes);

    let (counts, full) = (encode(&counts_frame()), encode(&full_frame()));
    save("empty", &[])?;
    save("whole", &[counts.clone(), full.clone()].concat())?;
    save("cut-in-a-header", &[&counts, &full[..9]].concat())?;
    save("cut-in-a-payload", &[&full[..90], &counts].concat())?;
    save(
        "junk-between",
        &[&counts, b"\xf7vm\xf7vmjunk".as_slice(), &full].concat(),
    )?;
    save("no-feed", b"{\"execute\": \"guest-ping\"}\n")?;
    save(
        "newer-version",
        &[framed(VERSION + 1, &[0; 40]), counts].concat(),
    )?;
    save("longest-claim", &framed(VERSION, &[0; 60_000])[..16])?;
    save("empty-payload", &framed(VERSION, &[]))?;
    for (number, at) in (0..full.len()).step_by(full.len() / 8).enumerate() {
        let mut damaged = full.clone();
        damaged[at] ^= 0x55;
        save(
            &format!("damaged-{number}"),
            &[damaged.clone(), full.clone()].concat(),
        )?;
        // Wrong content with valid checksums.
        if at >= 16 {
            save(&format!("wrong-{number}"), &framed(VERSION, &damaged[16..]))?;
        }
    }
    Ok(())
}
