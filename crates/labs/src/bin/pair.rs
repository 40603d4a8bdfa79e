//! `pair FOLDER [timerlat]` records a Linux guest and its host in a lab beside a disturber, and
//! puts `quiet.rec`, `guest.rec` and `host.rec` into the folder, for `vmnoise explain`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;

use anyhow::{Context, Result, bail};
use vmnoise_labs::bed::{Kernel, Suite};
use vmnoise_labs::pair::{DISTURBED, HOST, Pair, QUIET};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let pair = Pair::of(Kernel::Cloud, Suite::Own)?.virtual_time(0);
    let (folder, pair) = match arguments[..] {
        [folder] => (folder, pair),
        [folder, "timerlat"] => (folder, pair.timerlat()),
        _ => bail!("usage: pair FOLDER [timerlat]"),
    };
    let recorded = pair.duration("200ms").record()?;
    for name in [QUIET, DISTURBED, HOST] {
        let path = Path::new(folder).join(name);
        let bytes = std::fs::copy(recorded.file(name), &path);
        let bytes = bytes.with_context(|| path.display().to_string())?;
        println!("{}: {bytes} bytes", path.display());
    }
    println!("disturber: {}", recorded.disturber()?);
    Ok(())
}
