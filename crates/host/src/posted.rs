//! Numbers of posted interrupts of each CPU, from /proc/interrupts. No tracepoint reports these
//! interrupts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::Host;

/// Lines of /proc/interrupts for posted interrupts (arch_show_interrupts of arch/x86/kernel/irq.c).
const LINES: [&[u8]; 3] = [b"PIN:", b"NPI:", b"PIW:"];

/// Reader of the numbers of posted interrupts. It keeps /proc/interrupts open, because this process
/// may later lose the right to open the file.
#[derive(Debug)]
pub struct PostedCounts {
    file: File,
    text: Vec<u8>,
}

impl Host {
    /// Returns a reader of the numbers of posted interrupts.
    ///
    /// # Errors
    /// If /proc/interrupts cannot be opened.
    pub fn posted_counts(&self) -> io::Result<PostedCounts> {
        Ok(PostedCounts {
            file: File::open(self.root.join("proc/interrupts"))?,
            text: vec![0; 1 << 16],
        })
    }
}

impl PostedCounts {
    /// Returns the number of posted interrupts of each online CPU since this CPU came up.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&mut self) -> io::Result<BTreeMap<u32, u64>> {
        let mut length = 0;
        loop {
            if length == self.text.len() {
                self.text.resize(2 * length, 0);
            }
            match self.file.read_at(&mut self.text[length..], length as u64)? {
                0 => return Ok(counts(&self.text[..length])),
                more => length += more,
            }
        }
    }
}

/// Returns the sum of these lines for each CPU. The first line of the file names the CPU of each
/// column. A kernel without KVM has no lines for posted interrupts.
fn counts(text: &[u8]) -> BTreeMap<u32, u64> {
    let mut lines = text.split(|byte| *byte == b'\n');
    let cpus = words(lines.next().unwrap_or_default());
    let cpus: Vec<u32> = cpus
        .filter_map(|cpu| cpu.strip_prefix("CPU")?.parse().ok())
        .collect();
    let mut counts = BTreeMap::new();
    for line in lines {
        let line = line.trim_ascii_start();
        if LINES.iter().any(|name| line.starts_with(name)) {
            let numbers = words(line)
                .skip(1)
                .map_while(|word| word.parse::<u64>().ok());
            for (cpu, count) in cpus.iter().zip(numbers) {
                *counts.entry(*cpu).or_default() += count;
            }
        }
    }
    counts
}

fn words(line: &[u8]) -> impl Iterator<Item = &str> {
    std::str::from_utf8(line)
        .unwrap_or_default()
        .split_ascii_whitespace()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tree;

    const INTERRUPTS: &str = "           CPU0       CPU2       \n  \
         0:         42          0   IO-APIC   2-edge      timer\n \
         NMI:          9          9   Non-maskable interrupts\n \
         ERR:          0\n \
         PIN:          1          2   Posted-interrupt notification event\n \
         NPI:          0          4   Nested posted-interrupt event\n \
         PIW:         30          8   Posted-interrupt wakeup event\n";

    #[test]
    fn posted_interrupts_are_added_up_by_cpu() {
        let (_root, host) = tree(&[("proc/interrupts", INTERRUPTS)]);
        let mut posted = host.posted_counts().unwrap();
        let expected = BTreeMap::from([(0, 31), (2, 14)]);
        assert_eq!(posted.read().unwrap(), expected);
        assert_eq!(
            posted.read().unwrap(),
            expected,
            "it is read from its begin"
        );
    }

    #[test]
    fn a_kernel_without_them_counts_none() {
        let (_root, host) = tree(&[("proc/interrupts", "   CPU0\n ERR:  0\n")]);
        assert!(host.posted_counts().unwrap().read().unwrap().is_empty());
        assert!(tree(&[]).1.posted_counts().is_err());
    }

    /// With 128 CPUs, the file is longer than one read.
    #[test]
    fn a_long_file_is_read_to_its_end() {
        let columns = |word: &dyn Fn(u32) -> String| (0..128).map(word).collect::<String>();
        let mut text = columns(&|cpu| format!(" CPU{cpu:<7}")) + "\n";
        for irq in 0..400 {
            text += &format!("{irq:4}:{} PCI-MSIX\n", columns(&|_| format!(" {:10}", 7)));
        }
        text += &format!(
            " PIW:{} Posted-interrupt wakeup event\n",
            columns(&|cpu| format!(" {cpu:10}"))
        );
        let (_root, host) = tree(&[("proc/interrupts", &text)]);
        let counts = host.posted_counts().unwrap().read().unwrap();
        assert_eq!(counts, (0..128).map(|cpu| (cpu, cpu.into())).collect());
    }
}
