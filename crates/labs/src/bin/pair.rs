//! `pair FOLDER` records a Linux guest and its host in a lab beside a disturber, and puts
//! `quiet.rec`, `guest.rec` and `host.rec` into the folder, for `vmnoise explain`.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)]

use std::path::Path;

use anyhow::{Context, Result, bail};
use vmnoise_labs::bed::{Kernel, Suite};
use vmnoise_labs::pair::{DISTURBED, HOST, Pair, QUIET};

const FILES: [&str; 3] = [QUIET, DISTURBED, HOST];

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder] = &arguments[..] else {
        bail!("usage: pair FOLDER");
    };
    let pair = Pair::of(Kernel::Cloud, Suite::Own)?;
    let print = FILES.map(|file| format!("lab-guest print {file}"));
    let recorded = pair
        .virtual_time(0)
        .duration("200ms")
        .run(&print.each_ref().map(String::as_str))?;
    for (output, file) in FILES.iter().enumerate() {
        let name = Path::new(file).file_name().context("a name")?;
        let path = Path::new(folder).join(name);
        let content = recorded.file(output)?;
        std::fs::write(&path, &content).with_context(|| path.display().to_string())?;
        println!("{}: {} bytes", path.display(), content.len());
    }
    println!("disturber: {}", recorded.disturber()?);
    Ok(())
}
