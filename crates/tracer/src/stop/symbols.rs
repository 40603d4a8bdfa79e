//! Names of the kernel's functions, from /proc/kallsyms.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

/// Functions, ordered by the address at which they begin.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    begins: Vec<(u64, u32)>,
    /// Names of all functions, each followed by a newline.
    names: String,
}

impl Symbols {
    /// Reads the functions from this file.
    ///
    /// # Errors
    /// If the file cannot be read, or shows no addresses. Addresses require CAP_SYSLOG, or
    /// kernel.kptr_restrict=0.
    pub(super) fn read(path: &Path) -> io::Result<Symbols> {
        let mut symbols = Symbols::default();
        for line in BufReader::new(File::open(path)?).lines() {
            symbols.add(&line?);
        }
        if symbols.begins.is_empty() {
            return Err(io::Error::from(io::ErrorKind::PermissionDenied));
        }
        symbols.begins.sort_unstable();
        Ok(symbols)
    }

    /// Adds a line `ADDRESS TYPE NAME [MODULE]`. Leaves out data and hidden addresses.
    fn add(&mut self, line: &str) {
        let mut words = line.split_ascii_whitespace();
        let address = words.next().and_then(|it| u64::from_str_radix(it, 16).ok());
        let is_function = words.next().is_some_and(|it| "tTwW".contains(it));
        let (Some(address), Some(name), true) = (address, words.next(), is_function) else {
            return;
        };
        if let (1.., Ok(at)) = (address, u32::try_from(self.names.len())) {
            self.begins.push((address, at));
            self.names += name;
            self.names.push('\n');
        }
    }

    /// Returns the name of the function that contains this address; `None` if the address lies
    /// before all functions, or far behind the preceding one.
    pub(super) fn name(&self, address: u64) -> Option<&str> {
        /// Largest distance from the begin of a function, in bytes. Beyond it, the address belongs
        /// to no known function.
        const LONGEST: u64 = 1 << 20;
        let after = self.begins.partition_point(|(begin, _)| *begin <= address);
        let (begin, at) = *self.begins.get(after.checked_sub(1)?)?;
        let name = self.names.get(at as usize..)?.lines().next();
        name.filter(|_| address - begin < LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> io::Result<Symbols> {
        let file = std::env::temp_dir().join(format!("vmnoise-kallsyms-{}", text.len()));
        std::fs::write(&file, text).unwrap();
        let symbols = Symbols::read(&file);
        std::fs::remove_file(&file).unwrap();
        symbols
    }

    #[test]
    fn an_address_is_in_the_function_that_begins_before_it() {
        let text = "ffffffff81000200 T second\nffffffff81000100 t first\nffffffff81000180 d data\nffffffffc0000000 t third\t[kvm]\n";
        let symbols = of(text).unwrap();
        for (address, name) in [
            (0xffff_ffff_8100_00ff, None),
            (0xffff_ffff_8100_0100, Some("first")),
            (0xffff_ffff_8100_01ff, Some("first")),
            (0xffff_ffff_8100_0200, Some("second")),
            (0xffff_ffff_c000_0010, Some("third")),
            (0xffff_ffff_c010_0000, None),
        ] {
            assert_eq!(symbols.name(address), name, "{address:x}");
        }
    }

    #[test]
    fn hidden_addresses_are_none() {
        let hidden = of("0000000000000000 T _text\n0000000000000000 t other\n");
        assert_eq!(hidden.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
