//! Lists of CPUs as text, in the format that the kernel and users write: `1,3-5`.

/// Reason why a text is not a CPU list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CpuListError {
    /// The list is empty.
    #[error("the CPU list is empty; name CPUs like 1,3-5")]
    Empty,
    /// A part is neither a number nor a range.
    #[error("`{0}` in the CPU list is neither a CPU number nor a range; name CPUs like 1,3-5")]
    Part(String),
    /// The last number of a range is smaller than the first.
    #[error("the range `{0}` in the CPU list runs backwards; write the smaller number first")]
    Backwards(String),
    /// The number is larger than any CPU number.
    #[error("`{0}` in the CPU list is too large; the largest number is {max}", max = MAX_CPU)]
    TooLarge(String),
}

/// Largest CPU number that a kernel can have. NR_CPUS is at most 8192 on x86 and 4096 on arm64.
const MAX_CPU: u32 = 8191;

/// Parses a list like `1,3-5`. The result is ascending and contains each CPU once.
pub fn parse(text: &str) -> Result<Vec<u32>, CpuListError> {
    // A list from an untrusted source may name each CPU thousands of times.
    let mut named = [false; MAX_CPU as usize + 1];
    for part in text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first, part)?, number(last, part)?);
        if first > last {
            return Err(CpuListError::Backwards(part.to_owned()));
        }
        named[first as usize..=last as usize].fill(true);
    }
    let cpus: Vec<u32> = (0..=MAX_CPU).filter(|cpu| named[*cpu as usize]).collect();
    match cpus.is_empty() {
        true => Err(CpuListError::Empty),
        false => Ok(cpus),
    }
}

fn number(digits: &str, part: &str) -> Result<u32, CpuListError> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(CpuListError::Part(part.to_owned()));
    }
    match digits.parse() {
        Ok(cpu) if cpu <= MAX_CPU => Ok(cpu),
        _ => Err(CpuListError::TooLarge(part.to_owned())),
    }
}

/// Formats an ascending list of CPUs in the format that [`parse`] reads.
pub fn format(cpus: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &cpu in cpus {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(cpu) => *last = cpu,
            _ => runs.push((cpu, cpu)),
        }
    }
    let parts: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            _ => format!("{first}-{last}"),
        })
        .collect();
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use proptest::{collection::btree_set, prelude::*};

    use super::*;

    #[test]
    fn reads_what_users_write() {
        assert_eq!(parse("1,3-5"), Ok(vec![1, 3, 4, 5]));
        assert_eq!(parse(" 5 , 1-2,2\n"), Ok(vec![1, 2, 5]));
        assert_eq!(format(&[1, 3, 4, 5]), "1,3-5");
    }

    #[test]
    fn names_the_fault() {
        assert_eq!(parse(""), Err(CpuListError::Empty));
        assert_eq!(parse(" , "), Err(CpuListError::Empty));
        assert_eq!(parse("5-3"), Err(CpuListError::Backwards("5-3".into())));
        for bad in ["x", "1-", "-1", "+1", "1-2-3", "0x1"] {
            assert_eq!(parse(bad), Err(CpuListError::Part(bad.into())));
        }
        for large in ["8192", "0-99999999999"] {
            assert_eq!(parse(large), Err(CpuListError::TooLarge(large.into())));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(cpus in btree_set(0..=MAX_CPU, 1..200)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse(&format(&cpus)), Ok(cpus));
        }

        #[test]
        fn any_text_is_a_list_or_a_clear_error(text in "[0-9,\\- x]{0,20}") {
            match parse(&text) {
                Ok(cpus) => prop_assert!(cpus.is_sorted() && !cpus.is_empty()),
                Err(error) => prop_assert!(error.to_string().contains("CPU list")),
            }
        }
    }
}
