//! The port over which this guest asks its host for a dump (docs/feed.md): it is opened before rights go, for it
//! is a device of root, and written to without waiting.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::OFlags;
use vmnoise_feed::PORT_NAME;

use crate::feed::receiver::virtio_port;
use crate::say;

/// What `vmnoise serve --dumps-for` on the host listens for.
const ASK: &[u8] = b"dump\n";

#[derive(Debug)]
pub struct AskedHost {
    path: PathBuf,
    port: File,
}

impl AskedHost {
    /// This port, or the one that is named for the feed.
    ///
    /// # Errors
    /// If there is none, or somebody else has it open: a port has one user.
    pub fn open(path: Option<&Path>) -> Result<AskedHost> {
        let path = path.map(Path::to_owned).or_else(virtio_port);
        let path = path.with_context(|| {
            format!(
                "this machine has no port {PORT_NAME} over which its host could be asked for a dump: \
                 docs/feed.md says how a VMM gives it one, and `dump,port=FILE` names another"
            )
        })?;
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let mut options = OpenOptions::new();
        let port = options.append(true).custom_flags(flags).open(&path);
        let port = port.with_context(|| {
            let path = say::name_of(&path);
            format!("opening {path}, over which the host is asked for a dump; a feed may have it open (--feed none)")
        })?;
        Ok(AskedHost { path, port })
    }

    /// Asks once.
    ///
    /// # Errors
    /// If nobody on the host has the other end open, or it takes nothing.
    pub fn ask(&self) -> Result<()> {
        let mut port = &self.port;
        port.write_all(ASK).with_context(|| {
            let path = say::name_of(&self.path);
            format!("asking the host for a dump over {path}: is `vmnoise serve --dumps-for` running there?")
        })
    }
}
