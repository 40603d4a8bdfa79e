//! Pressure stall information of the CPUs (Documentation/accounting/psi.rst).

use super::Host;

impl Host {
    /// Returns the time since boot in which at least one task waited for a CPU, in nanoseconds.
    /// `None` if this kernel does not measure it.
    pub fn cpu_pressure_ns(&self) -> Option<u64> {
        let pressure = self.text("proc/pressure/cpu").ok()?;
        let some = pressure.lines().find(|line| line.starts_with("some "))?;
        let total = some.split(' ').find_map(|word| word.strip_prefix("total="));
        Some(total?.parse::<u64>().ok()? * 1_000)
    }
}

#[cfg(test)]
mod tests {
    use crate::fixtures::tree;

    #[test]
    fn pressure_is_the_sum_of_some_and_not_of_full() {
        let text = "some avg10=78.61 avg60=47.76 avg300=44.07 total=4125\n\
                    full avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        for (text, ns) in [(text, Some(4_125_000)), ("", None)] {
            let (_root, host) = tree(&[("proc/pressure/cpu", text)]);
            assert_eq!(host.cpu_pressure_ns(), ns);
        }
        assert_eq!(tree(&[]).1.cpu_pressure_ns(), None);
    }
}
