//! Repairs a fault of QEMU's emulated SVM in a copy of the program.
//!
//! Affected is VMRUN with an interrupt to inject (`helper_vmrun`, type INTR). It delivers the
//! interrupt at once, but also leaves the interrupt's number as the CPU's pending exception. This
//! exception stays until the guest exits or faults. If the emulator interrupts this CPU earlier,
//! the guest gets the interrupt a second time, even if the guest has disabled interrupts. Under
//! virtual time, each timer of the machine interrupts the emulation of the CPU. The fault is in the
//! sources of 7.2, of 10.0, and of the development tree of 2026.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Bytes of x86-64 code. `None` stands for a byte of an offset, which differs between builds.
type Pattern = &'static [Option<u8>];

/// Code of `helper_vmrun` that runs before it delivers an interrupt. The code stores `error_code`
/// (%r13d), `exception_index` (%esi), `exception_is_int` (0) and `exception_next_eip` (-1).
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
/// Bytes of `CASE` with the instruction that stores `exception_index`.
const STORE: std::ops::Range<usize> = 7..13;
/// Instruction of the same length that has no effect.
const NOTHING: [u8; 6] = [0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00];

/// Writes a copy of this program to `copy`. The copy delivers an injected interrupt only once.
///
/// # Errors
/// If the code is not found exactly once. Then another compiler built the program, or this QEMU
/// does not have the fault.
pub(super) fn write(program: &Path, copy: &Path) -> Result<()> {
    let mut code = std::fs::read(program).with_context(|| program.display().to_string())?;
    mend(&mut code)?;
    // Labs may start at the same time, so the copy gets its name when it is complete.
    let folder = copy.parent().context("the copy has no folder")?;
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
        bail!("the code of helper_vmrun was found {} times", found.len());
    };
    code[at..][STORE].copy_from_slice(&NOTHING);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The code as Debian's compiler wrote it for QEMU 10.0.2, with other code before and after it.
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
