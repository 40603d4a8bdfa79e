//! Address of a feed: path and kind of a VM's socket.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use vmnoise_events::ShownLine;

use crate::layout::VSOCK_PORT;

/// Maximum length of a unix socket's path in bytes (unix(7)), without the zero byte at its end.
const MAX_PATH_BYTES: usize = 107;

/// A feed as the user names it: `unix:PATH` or `vsock:PATH[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedAddress {
    /// Socket on which the VMM listens.
    pub path: PathBuf,
    /// Port on which the guest listens, if the VMM has a vsock device behind the socket; `None` if
    /// the socket is a serial port.
    pub vsock_port: Option<u32>,
}

impl FromStr for FeedAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<FeedAddress, String> {
        let (path, vsock_port) = match text.split_once(':') {
            Some(("unix", path)) => (path, None),
            Some(("vsock", rest)) => {
                let (path, port) = with_port(rest)?;
                (path, Some(port))
            }
            _ => {
                return Err(
                    "write `unix:PATH` (a virtio-serial port of QEMU) or `vsock:PATH[:PORT]` (a \
                     vsock device of Firecracker or cloud-hypervisor)"
                        .into(),
                );
            }
        };
        match path.len() {
            0 => Err("it names no socket".into()),
            1..=MAX_PATH_BYTES => Ok(FeedAddress {
                path: path.into(),
                vsock_port,
            }),
            _ => Err(format!(
                "the path of a socket has at most {MAX_PATH_BYTES} bytes"
            )),
        }
    }
}

impl FeedAddress {
    /// Returns the address as the user writes it on a command line.
    pub fn words(&self) -> OsString {
        let port = self.vsock_port.map(|port| format!(":{port}"));
        let mut words = OsString::from(match port {
            None => "unix:",
            Some(_) => "vsock:",
        });
        words.push(&self.path);
        words.push(port.unwrap_or_default());
        words
    }
}

fn with_port(text: &str) -> Result<(&str, u32), String> {
    match text.rsplit_once(':') {
        None => Ok((text, VSOCK_PORT)),
        Some((path, port)) => match port.parse() {
            Ok(port) => Ok((path, port)),
            Err(_) => Err(format!("`{port}` is no port")),
        },
    }
}

impl fmt::Display for FeedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = ShownLine::from(&*self.path);
        match self.vsock_port {
            None => write!(f, "unix:{path}"),
            Some(VSOCK_PORT) => write!(f, "vsock:{path}"),
            Some(port) => write!(f, "vsock:{path}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<FeedAddress, String> {
        text.parse()
    }

    #[test]
    fn either_device_is_named_by_its_socket() {
        for text in ["unix:/run/a:1.sock", "vsock:/run/v.sock", "vsock:v.sock:9"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse("vsock:v").unwrap().vsock_port, Some(VSOCK_PORT));
        assert_eq!(parse("unix:v").unwrap().vsock_port, None);
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("unix:/{}", "x".repeat(MAX_PATH_BYTES));
        for text in [
            "",
            "/run/a",
            "tcp:1",
            "unix:",
            "vsock:a:b",
            "vsock::1",
            &long,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
