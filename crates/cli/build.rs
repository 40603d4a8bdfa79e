//! Has the linker pack the binary's relocations, where the C library that is linked in unpacks them as it starts.

use std::env;
use std::process::Command;

/// The first glibc whose static programs do so.
const FIRST_GLIBC: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // What is linked in is this machine's own.
    if env::var_os("HOST") != env::var_os("TARGET") || glibc().is_none_or(|it| it < FIRST_GLIBC) {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
}

/// `glibc 2.36` of getconf(1); `None` where there is another library.
fn glibc() -> Option<(u32, u32)> {
    let said = Command::new("getconf").arg("GNU_LIBC_VERSION").output();
    let said = String::from_utf8(said.ok()?.stdout).ok()?;
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
