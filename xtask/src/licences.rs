//! Every dependency's licence must be one that a distributor of the static
//! binary can follow.

use anyhow::{Result, bail};
use cargo_metadata::MetadataCommand;

/// Licences that ask for no more than notice.
const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Fails with the names of the packages whose licence allows none of [`ALLOWED`].
pub fn check() -> Result<()> {
    println!("== licences of all dependencies");
    let metadata = MetadataCommand::new().exec()?;
    let refused: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| !package.license.as_deref().is_some_and(is_allowed))
        .map(|package| {
            let licence = package.license.as_deref().unwrap_or("no licence");
            format!("{} {} ({licence})", package.name, package.version)
        })
        .collect();
    if refused.is_empty() {
        return Ok(());
    }
    bail!("licences outside the allowed list: {}", refused.join(", "))
}

/// An SPDX expression without parentheses nested deeper than one level: each
/// `AND` part must offer at least one allowed choice.
fn is_allowed(expression: &str) -> bool {
    expression
        .replace(['(', ')'], "")
        .split(" AND ")
        .all(|part| {
            part.split(" OR ")
                .flat_map(|choice| choice.split('/'))
                .any(|choice| ALLOWED.contains(&choice.trim()))
        })
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn choices_and_conjunctions() {
        assert!(is_allowed("MIT OR Apache-2.0"));
        assert!(is_allowed("MIT/Apache-2.0"));
        assert!(is_allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(is_allowed("LGPL-2.1-only OR BSD-2-Clause"));
        assert!(!is_allowed("GPL-3.0"));
        assert!(!is_allowed("MIT AND GPL-3.0-only"));
    }
}
