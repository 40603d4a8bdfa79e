//! Reads the packages in Cargo.lock, with their versions and checksums.

use std::fs;

use anyhow::{Context, Result};

/// A package from the registry in Cargo.lock.
#[derive(Debug, PartialEq, Eq)]
pub struct Locked {
    pub name: String,
    pub version: String,
    /// SHA-256 of the package's archive.
    pub checksum: String,
}

/// Returns all packages from the registry in Cargo.lock.
pub fn packages() -> Result<Vec<Locked>> {
    let lock = fs::read_to_string("Cargo.lock").context("Cargo.lock")?;
    Ok(read(&lock))
}

/// Parses the text of Cargo.lock. Leaves out packages without a checksum, which are the workspace's
/// own.
fn read(lock: &str) -> Vec<Locked> {
    let package = |text: &str| {
        let value = |key: &str| {
            let mut lines = text.lines();
            let found = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            found.map(|value| value.trim_matches('"').to_owned())
        };
        Some(Locked {
            name: value("name")?,
            version: value("version")?,
            checksum: value("checksum")?,
        })
    };
    lock.split("[[package]]").filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_the_registry_have_a_checksum() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0+c2\"\n\
                    source = \"registry\"\nchecksum = \"5a15\"\n\n\
                    [[package]]\nname = \"own\"\nversion = \"0.1.0\"\n";
        let a = Locked {
            name: "a".into(),
            version: "1.0.0+c2".into(),
            checksum: "5a15".into(),
        };
        assert_eq!(read(lock), [a]);
    }
}
