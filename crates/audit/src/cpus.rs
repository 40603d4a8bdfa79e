//! Parses lists and masks of CPUs, in the formats of the kernel's files and its command line.

use vmnoise_host::cpu_list;

use crate::rule::CpuFormat;

/// Parses CPUs in a format of the kernel. Returns no CPUs for text in another format: the kernel
/// writes `(null)` if there are none. `last` is the machine's last CPU.
pub(crate) fn listed(text: &str, format: CpuFormat, last: u32) -> Vec<u32> {
    match format {
        CpuFormat::List => list(text, last).unwrap_or_default(),
        CpuFormat::Mask => {
            let words = text.split(',').rev();
            let words = words.map(|word| u32::from_str_radix(word, 16).unwrap_or(0));
            let bits = (0..).zip(words).flat_map(|(place, word)| {
                (0..32).filter_map(move |bit| (word >> bit & 1 == 1).then_some(place * 32 + bit))
            });
            bits.collect()
        }
    }
}

/// Parses a list in the format of the kernel's command line. `2-N` ends at the last CPU, `all`
/// means all CPUs, and `0-15:2/4` means the first two of each four. `None` if the kernel refuses
/// the list.
fn list(text: &str, last: u32) -> Option<Vec<u32>> {
    let last = last.to_string();
    let mut listed = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (range, stride) = part.split_once(':').unwrap_or((part, "1/1"));
        let (used, group) = stride.split_once('/')?;
        let (used, group) = (used.parse::<u32>().ok()?, group.parse::<u32>().ok()?);
        if group == 0 || used > group {
            return None;
        }
        let range = range.replace("all", "0-N").replace('N', &last);
        let range = cpu_list::parse(&range).ok()?;
        let first = *range.first()?;
        let of_stride = range.into_iter().filter(|cpu| (cpu - first) % group < used);
        listed.extend(of_stride);
        // A list from outside may contain each CPU thousands of times.
        if listed.len() > 1 << 16 {
            listed.sort_unstable();
            listed.dedup();
        }
    }
    listed.sort_unstable();
    listed.dedup();
    Some(listed)
}
