//! A fault of QEMU's emulated SVM, and its mending in a copy of the program. VMRUN with an
//! interrupt to inject (`helper_vmrun`, type INTR) delivers it at once, yet also leaves its
//! number as the CPU's pending exception. Nobody takes that back until the guest exits or
//! faults: where the emulator's turn ends before, as it does under virtual time at each
//! timer of the machine, the guest gets the interrupt once more, with its interrupts off or
//! on. Found in the sources of 7.2, 10.0 and of the development tree of 2026.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Of x86-64 code, a byte; `None` where a distance stands that each build has its own of.
type Pattern = &'static [Option<u8>];

/// What the case of an interrupt stores before it delivers: `error_code` (%r13d),
/// `exception_index` (%esi), `exception_is_int` (0) and `exception_next_eip` (-1).
const CASE: Pattern = &{
    const ANY: Option<u8> = None;
    const fn is(byte: u8) -> Option<u8> {
        Some(byte)
    }
    [
        is(0x44),
        is(0x89),
        is(0xab),
        ANY,
        ANY,
        ANY,
        ANY, // mov %r13d, error_code
        is(0x89),
        is(0xb3),
        ANY,
        ANY,
        ANY,
        ANY, // mov %esi, exception_index
        is(0xc7),
        is(0x83),
        ANY,
        ANY,
        ANY,
        ANY,
        is(0),
        is(0),
        is(0),
        is(0),
        is(0x48),
        is(0xc7),
        is(0x83),
        ANY,
        ANY,
        ANY,
        ANY,
        is(0xff),
        is(0xff),
        is(0xff),
        is(0xff),
    ]
};
/// Where in it `exception_index` is stored.
const STORE: std::ops::Range<usize> = 7..13;
/// An instruction of as many bytes that does nothing.
const NOTHING: [u8; 6] = [0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Writes a copy of this program that delivers an injected interrupt once.
///
/// # Errors
/// If the place is not found exactly once: another compiler, or a QEMU that is sound.
pub(super) fn write(program: &Path, copy: &Path) -> Result<()> {
    let mut code = std::fs::read(program).with_context(|| program.display().to_string())?;
    mend(&mut code)?;
    // Whoever finds the copy finds all of it: labs may start at the same time.
    let folder = copy.parent().context("a folder")?;
    std::fs::create_dir_all(folder)?;
    let part = tempfile::NamedTempFile::new_in(folder)?;
    std::fs::write(part.path(), code)?;
    std::fs::set_permissions(part.path(), PermissionsExt::from_mode(0o755))?;
    part.persist(copy)?;
    Ok(())
}

fn mend(code: &mut [u8]) -> Result<()> {
    let matches = |window: &[u8]| {
        let mut both = window.iter().zip(CASE);
        both.all(|(byte, pattern)| pattern.is_none_or(|it| it == *byte))
    };
    let windows = code.windows(CASE.len()).enumerate();
    let found: Vec<usize> = windows
        .filter(|(_, it)| matches(it))
        .map(|(at, _)| at)
        .collect();
    let [at] = found[..] else {
        bail!("the place in helper_vmrun is there {} times", found.len());
    };
    code[at..][STORE].copy_from_slice(&NOTHING);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The case as Debian's compiler wrote it for QEMU 10.0.2, between other code.
    const DEBIAN: &[u8] = b"\x41\x0f\xb6\xf4\
        \x44\x89\xab\xe0\x33\x00\x00\
        \x89\xb3\x10\xd7\xff\xff\
        \xc7\x83\xe4\x33\x00\x00\x00\x00\x00\x00\
        \x48\xc7\x83\xe8\x33\x00\x00\xff\xff\xff\xff\
        \xf6\x05\x9a\xa7\x3c\x01\x02";

    #[test]
    fn only_the_store_of_the_exception_goes() {
        let mut code = DEBIAN.to_vec();
        mend(&mut code).unwrap();
        assert_eq!(code[..11], DEBIAN[..11]);
        assert_eq!(code[11..17], NOTHING);
        assert_eq!(code[17..], DEBIAN[17..]);
    }

    #[test]
    fn what_is_not_there_once_is_left_alone() {
        let mut none = DEBIAN[..16].to_vec();
        let mut twice = [DEBIAN, DEBIAN].concat();
        assert!(mend(&mut none).is_err());
        assert!(
            mend(&mut twice)
                .unwrap_err()
                .to_string()
                .contains("2 times")
        );
        assert_eq!(none, DEBIAN[..16]);
    }
}
