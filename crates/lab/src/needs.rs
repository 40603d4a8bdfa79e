//! Checks that a run has the packages, the network and the disk space that it needs.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use vmnoise_testbed::bed::{self, ToFetch};

use crate::place::CellPlace;
use crate::plan::PlannedCell;

/// Describes the needs of a run of these cells.
///
/// # Errors
/// If the disk has too little space, or if missing packages cannot be fetched. The error names the
/// remedy.
pub fn check(planned: &[PlannedCell], place: &CellPlace) -> Result<String> {
    let to_run = planned.iter().filter(|it| it.refusal.is_none());
    let parts: BTreeSet<_> = to_run.flat_map(|it| place.parts(&it.cell)).collect();
    let to_fetch = bed::to_fetch(&parts)
        .context("apt does not know the packages to fetch: run `apt-get update` with a network")?;
    judge(
        &to_fetch,
        place.room_bytes(),
        bed::free_bytes()?,
        bed::reach,
    )
}

fn judge(
    to_fetch: &ToFetch,
    room_bytes: u64,
    free_bytes: u64,
    reach: impl FnOnce() -> Result<()>,
) -> Result<String> {
    let ToFetch { packages, bytes } = to_fetch;
    let [needed_mb, free_mb] = [bytes + room_bytes, free_bytes].map(|bytes| bytes / 1_000_000);
    ensure!(
        needed_mb <= free_mb,
        "target/lab needs {needed_mb} MB of disk, but only {free_mb} MB are free: make room there"
    );
    if packages.is_empty() {
        return Ok(format!(
            "All packages are here, so no network is needed. {needed_mb} MB of disk are needed, and {free_mb} MB are free."
        ));
    }
    let names = packages.join(", ");
    reach().with_context(|| {
        format!("{names} are not here yet, and Debian's mirror does not answer: try again with a network")
    })?;
    Ok(format!(
        "To be fetched from Debian's mirror, which answers: {names}. {needed_mb} MB of disk are needed, \
         and {free_mb} MB are free."
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use anyhow::bail;

    use super::*;

    const ROOM: u64 = 1 << 30;

    fn one_package() -> ToFetch {
        ToFetch {
            packages: vec!["linux-image-1".to_owned()],
            bytes: 500_000_000,
        }
    }

    #[test]
    fn without_a_network_what_is_here_is_enough() {
        let none = || bail!("no network");
        let said = judge(&ToFetch::default(), ROOM, 2 * ROOM, none).unwrap();
        assert!(said.contains("no network is needed"), "{said}");
        let none = || bail!("it does not resolve");
        let said = format!(
            "{:#}",
            judge(&one_package(), ROOM, 2 * ROOM, none).unwrap_err()
        );
        for words in [
            "linux-image-1",
            "try again with a network",
            "does not resolve",
        ] {
            assert!(said.contains(words), "{said}");
        }
        assert!(judge(&one_package(), ROOM, 2 * ROOM, || Ok(())).is_ok());
    }

    #[test]
    fn a_full_disk_is_told_before_anything_is_fetched() {
        let asked = || -> Result<()> { panic!("nothing is fetched to a full disk") };
        let said = judge(&one_package(), ROOM, ROOM, asked)
            .unwrap_err()
            .to_string();
        assert!(
            said.contains("1573 MB") && said.contains("make room"),
            "{said}"
        );
        assert!(judge(&ToFetch::default(), ROOM, ROOM, asked).is_ok());
        assert!(judge(&ToFetch::default(), ROOM, ROOM / 2, asked).is_err());
        assert!(judge(&ToFetch::default(), 0, ROOM / 2, asked).is_ok());
    }
}
