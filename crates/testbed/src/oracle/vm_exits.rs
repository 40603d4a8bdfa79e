//! Compares the exits that KVM's own tracepoints report through tracefs with the exits in the
//! output of `vmnoise exits trace`. Each exit must be in both.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::trace::{seconds_ns, timestamp_ns};

/// Name of an interrupt that every kernel has.
const TIMER: &str = "local_timer";

/// One exit from tracefs. It consists of kvm_exit, kvm_entry, and the host's events on the same CPU
/// before kvm_exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracefsExit {
    /// Time of the first host event since the guest was entered, or of kvm_exit if there is none;
    /// CLOCK_MONOTONIC in nanoseconds. The resolution is 1 us.
    pub first_ns: u64,
    /// Time of kvm_exit, CLOCK_MONOTONIC in nanoseconds.
    pub exit_ns: u64,
    /// Time of kvm_entry, CLOCK_MONOTONIC in nanoseconds.
    pub entry_ns: u64,
    /// Name of the exit's reason.
    pub reason: String,
    /// CPU of kvm_exit, and CPU of kvm_entry.
    pub cpus: (u32, u32),
    /// Number of local timer interrupts on the vCPU's CPU since the last entry.
    pub timers: usize,
}

/// One exit, from a line of `vmnoise exits trace`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmnoiseExit {
    /// Start of the exit, CLOCK_MONOTONIC in nanoseconds.
    pub start_ns: u64,
    /// Length of the exit in nanoseconds.
    pub dur_ns: u64,
    /// Name of the exit's reason.
    pub reason: String,
    /// CPU on which the vCPU left the guest, and CPU on which it returned.
    pub cpus: (u32, u32),
    /// Parts of the exit: share, nanoseconds, and the culprit if there is one.
    pub parts: Vec<(String, u64, Option<String>)>,
}

impl VmnoiseExit {
    /// Returns the time of the exit in this share, nanoseconds.
    pub fn share_ns(&self, share: &str) -> u64 {
        let parts = self.parts.iter().filter(|(name, ..)| name == share);
        parts.map(|(_, ns, _)| ns).sum()
    }

    /// Returns whether the exit has a part that the local timer took.
    pub fn has_timer(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.any(|(share, _, by)| {
            share == "host_irq" && by.as_deref().is_some_and(|by| by.starts_with(TIMER))
        })
    }
}

/// Returns the exits of the vCPU's thread with this thread ID from a trace of tracefs.
///
/// # Errors
/// If a line of these events cannot be read.
pub fn witnessed(trace: &str, thread: u32) -> Result<Vec<TracefsExit>> {
    let mut exits = Vec::new();
    let mut seen = Seen::default();
    let thread = format!("-{thread}");
    for text in trace.lines().filter(|line| !line.starts_with('#')) {
        ensure!(!text.contains(" EVENTS]"), "the trace is not whole: {text}");
        let read = |seen: &mut Seen| seen.read(text, &thread);
        let exit = read(&mut seen).with_context(|| format!("a line of the trace: {text}"))?;
        exits.extend(exit);
    }
    Ok(exits)
}

/// Returns the total halt time of this vCPU's thread by KVM's own count in nanoseconds, and the
/// number of halts. Both come from the events kvm_vcpu_wakeup in a trace of tracefs.
///
/// # Errors
/// If a line of these events cannot be read.
pub fn halts(trace: &str, thread: u32) -> Result<(u64, usize)> {
    let thread = format!("-{thread}");
    let (mut sum_ns, mut count) = (0, 0);
    for text in trace.lines().filter(|line| !line.starts_with('#')) {
        ensure!(!text.contains(" EVENTS]"), "the trace is not whole: {text}");
        let Some((before, _, _, "kvm_vcpu_wakeup", words)) = split(text) else {
            continue;
        };
        // The text is `wait time 123 ns, polling valid`.
        if before.trim_end().ends_with(&thread) {
            let mut words = words.split_whitespace();
            let ns = words.find(|word| *word == "time").and(words.next());
            sum_ns += ns.context("no time")?.parse::<u64>()?;
            count += 1;
        }
    }
    Ok((sum_ns, count))
}

/// The part of the current exit that has been read so far.
#[derive(Default)]
struct Seen {
    /// CPU on which the guest was entered last.
    cpu: Option<u32>,
    first_ns: Option<u64>,
    exit: Option<(u64, u32, String)>,
    timers: usize,
}

impl Seen {
    /// Reads one line. Returns an exit if this line completes it.
    fn read(&mut self, text: &str, thread: &str) -> Result<Option<TracefsExit>> {
        // The line is `comm-pid [cpu] flags seconds: event: words`.
        let Some((before, cpu, flags_and_time, event, words)) = split(text) else {
            return Ok(None);
        };
        let at_ns = timestamp_ns(flags_and_time)?;
        let is_its = before.trim_end().ends_with(thread);
        match event {
            "kvm_exit" if is_its => {
                let mut words = words.split_whitespace();
                let reason = words.find(|word| *word == "reason").and(words.next());
                let reason = reason.context("no reason")?.to_owned();
                self.exit = Some((at_ns, cpu, reason));
            }
            "kvm_entry" if is_its => {
                let before = std::mem::take(self);
                self.cpu = Some(cpu);
                return Ok(before.exit.map(|(exit_ns, exit_cpu, reason)| TracefsExit {
                    first_ns: before.first_ns.unwrap_or(exit_ns),
                    exit_ns,
                    entry_ns: at_ns,
                    reason,
                    cpus: (exit_cpu, cpu),
                    timers: before.timers,
                }));
            }
            _ if self.cpu == Some(cpu) && is_host_work(event) => {
                if self.exit.is_none() {
                    self.first_ns.get_or_insert(at_ns);
                }
                self.timers += usize::from(event == "local_timer_entry");
            }
            _ => {}
        }
        Ok(None)
    }
}

fn split(text: &str) -> Option<(&str, u32, &str, &str, &str)> {
    let (before, rest) = text.split_once(" [")?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (flags_and_time, rest) = rest.split_once(": ")?;
    let (event, words) = rest.split_once(':').unwrap_or((rest, ""));
    Some((before, cpu.parse().ok()?, flags_and_time, event, words))
}

fn is_host_work(event: &str) -> bool {
    event.ends_with("_entry") || event == "sched_switch" || event == "nmi_handler"
}

/// Returns the exits of every vCPU from the lines of `vmnoise exits trace`, by VM. The key is the
/// VM's process ID if the VM's name contains one: the name changes from `vm:PID` to `VMM:PID` when
/// `vmnoise` has looked up the VMM. Otherwise the key is the VM's name.
///
/// # Errors
/// If a line with an exit cannot be read.
pub fn reported(trace: &str) -> Result<BTreeMap<String, Vec<VmnoiseExit>>> {
    let mut vms: BTreeMap<String, Vec<VmnoiseExit>> = BTreeMap::new();
    for text in trace.lines() {
        if let Some((_, words)) = text.split_once(": vm_noise: ") {
            let (vm, exit) = exit(words).with_context(|| format!("a line: {text}"))?;
            let key = vm.rsplit(':').next().unwrap_or_default();
            vms.entry(key.to_owned()).or_default().push(exit);
        }
    }
    Ok(vms)
}

fn exit(words: &str) -> Result<(String, VmnoiseExit)> {
    let (kernels, ours) = words.split_once(" | ").context("no bar")?;
    let value = |words: &str, key: &str| -> Result<String> {
        let mut words = words.split(' ').filter_map(|word| word.split_once(':'));
        let value = words.find_map(|(name, value)| (name == key).then(|| value.to_owned()));
        value.with_context(|| format!("no {key}"))
    };
    let number = |key| -> Result<u64> { Ok(value(kernels, key)?.parse()?) };
    let cpu = |key| -> Result<u32> { Ok(u32::try_from(number(key)?)?) };
    let mut parts: Vec<(String, u64, Option<String>)> = Vec::new();
    let shares = ours.split_once(" reason:").context("no reason")?.1;
    for word in shares.split(' ').skip(1) {
        match (word.split_once(':'), parts.last_mut()) {
            (Some(("by", by)), Some((.., source))) => *source = Some(by.to_owned()),
            (Some((share, ns)), _) => parts.push((share.to_owned(), ns.parse()?, None)),
            _ => {}
        }
    }
    let exit = VmnoiseExit {
        start_ns: seconds_ns(&value(kernels, "exit_time")?)?,
        dur_ns: number("duration")?,
        reason: value(ours, "reason")?,
        cpus: (cpu("exit_cpu")?, cpu("entry_cpu")?),
        parts,
    };
    Ok((value(ours, "vm")?, exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "\
# tracer: nop
    vmnoise-vcpu0-95      [000] d..2.     3.000010: kvm_entry: vcpu 0, rip 0x1
    vmnoise-vcpu0-95      [000] d.h2.     3.000100: local_timer_entry: vector=236
    vmnoise-vcpu0-95      [000] d.h2.     3.000103: local_timer_exit: vector=236
    vmnoise-vcpu0-95      [000] .....     3.000110: kvm_exit: vcpu 0 reason interrupt rip 0x2 info1 0x0
        lab-vmm-90        [001] d.h2.     3.000111: local_timer_entry: vector=236
    vmnoise-vcpu0-95      [000] d..2.     3.000120: kvm_entry: vcpu 0, rip 0x2
    vmnoise-vcpu0-95      [000] .....     3.000200: kvm_exit: vcpu 0 reason io rip 0x3 info1 0x0
";

    #[test]
    fn an_exit_begins_with_the_interrupt_that_caused_it() {
        let exits = witnessed(KERNEL, 95).unwrap();
        let expected = TracefsExit {
            first_ns: 3_000_100_000,
            exit_ns: 3_000_110_000,
            entry_ns: 3_000_120_000,
            reason: "interrupt".into(),
            cpus: (0, 0),
            timers: 1,
        };
        assert_eq!(exits, [expected]);
        assert_eq!(witnessed(KERNEL, 5).unwrap(), []);
    }

    #[test]
    fn a_line_of_ours_is_read() {
        let line = "[000] 3.000121: vm_noise: vm_id:0 exit_cpu:0 exit_time:3.000100400 \
            entry_cpu:1 duration:20100 ns exit_reason:0x0060 overhead:17000 ns | vm:web vcpu:0 \
            reason:interrupt kvm:17000 vmm:0 preempted:100 by:a b:7 host_irq:3000 by:local_timer:236";
        let vms = reported(line).unwrap();
        let exit = &vms["web"][0];
        let [before, after] =
            ["vm:7", "qemu:7"].map(|name| line.replace("vm:web", &format!("vm:{name}")));
        assert_eq!(
            reported(&format!("{before}\n{after}")).unwrap()["7"].len(),
            2
        );
        assert_eq!((exit.start_ns, exit.dur_ns), (3_000_100_400, 20_100));
        assert_eq!((exit.reason.as_str(), exit.cpus), ("interrupt", (0, 1)));
        let shares = ["kvm", "preempted", "host_irq"].map(|share| exit.share_ns(share));
        assert_eq!(shares, [17_000, 100, 3_000]);
        assert!(exit.has_timer());
        assert!(reported("x: vm_noise: nothing").is_err());
    }
}
