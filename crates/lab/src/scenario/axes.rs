//! Axes of a scenario. Each axis takes one value or a list of values.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::length::Length;

/// Hypervisor of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// No hypervisor: the host itself is measured.
    Bare,
    /// Linux with KVM.
    Kvm,
    /// KVM with vmnoise's own guest, which has no kernel.
    Microvm,
    /// Xen. Its host is Dom0.
    Xen,
    /// Xen, with Dom0 as the measured system.
    Dom0,
}

/// Kind of virtualization of a Xen guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestType {
    /// Paravirtualized: its kernel calls Xen instead of using hardware.
    Pv,
    /// Like HVM, but Xen virtualizes only the CPU, and no device is emulated.
    Pvh,
    /// Complete machine, whose devices a QEMU in Dom0 emulates.
    Hvm,
}

/// Kernel of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Kernel")]
#[serde(rename_all = "kebab-case")]
pub enum CellKernel {
    /// Ordinary kernel.
    Ordinary,
    /// PREEMPT_RT kernel.
    Rt,
}

/// Load in the background, on the host or in Dom0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// No load.
    Idle,
    /// Tasks of ordinary priority that make system calls and interrupts.
    SystemCalls,
    /// Task at SCHED_FIFO that takes the CPU for 1 ms every 10 ms.
    Bursts,
    /// Packets that the measured CPU receives each millisecond: 32 on a host, and 32 on each of two
    /// network cards in emulation.
    Network,
    /// The same packets, received by another CPU.
    NetworkElsewhere,
    /// stress-ng.
    StressNg,
}

/// Exits that vmnoise's own guest makes on purpose, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Exercise")]
#[serde(rename_all = "kebab-case")]
pub enum GuestExercise {
    /// CPUID, which KVM handles.
    Cpuid,
    /// Write to a port, which the VMM handles.
    Io,
}

/// Settings of host and guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tuning {
    /// Default settings.
    AsIs,
    /// vCPUs at FIFO 99.
    VcpusAtFifo99,
    /// All threads of the VMM at FIFO 99, including its vCPUs: the remedy for the priority
    /// inversion of HVM.
    VmmAtFifo99,
    /// CPUs isolated on the host: isolcpus, nohz_full, rcu_nocbs, irqaffinity.
    HostIsolated,
    /// CPUs isolated in the guest.
    GuestIsolated,
    /// CPUs isolated on the host and in the guest.
    BothIsolated,
    /// Xen's credit scheduler instead of credit2.
    CreditScheduler,
    /// Xen's null scheduler: each vCPU has its own CPU.
    NullScheduler,
    /// Xen emulates each reading of the TSC.
    TscEmulated,
}

/// Scheduling policy of the measuring task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Policy")]
#[serde(rename_all = "kebab-case")]
pub enum CellPolicy {
    /// Default of the measuring program: `osnoise` keeps the policy with which it is started, and
    /// `timerlat` uses FIFO 95.
    Usual,
    /// SCHED_OTHER.
    Other,
    /// SCHED_FIFO with the lowest priority, which is above all ordinary tasks.
    Fifo1,
}

/// Program that measures, in the guest or on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[schemars(rename = "Workload")]
#[serde(rename_all = "kebab-case")]
pub enum CellWorkload {
    /// `vmnoise timerlat`: latencies of a periodic task, and their causes.
    Timerlat,
    /// cyclictest of rt-tests: latencies, as in the papers.
    Cyclictest,
    /// `vmnoise osnoise`: time taken from a task that never sleeps.
    Osnoise,
    /// `vmnoise microvm --exercise`: lengths of exits by the clocks of guest and host.
    Exercise,
}

/// Axes of a scenario. Each combination of their values is a cell.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Axes {
    /// Hypervisor.
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Hypervisor>")]
    pub hypervisor: Vec<Hypervisor>,
    /// Kind of virtualization; only for guests of Xen.
    #[serde(default = "pv", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<GuestType>")]
    pub guest_type: Vec<GuestType>,
    /// Kernel of the host, or of Dom0.
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<CellKernel>")]
    pub host_kernel: Vec<CellKernel>,
    /// Kernel of the guest. Only cells with a Linux guest (KVM, Xen) vary it.
    #[serde(default = "ordinary", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<CellKernel>")]
    pub guest_kernel: Vec<CellKernel>,
    /// Load in the background.
    #[serde(default = "idle", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Load>")]
    pub load: Vec<Load>,
    /// Settings of host and guest.
    #[serde(default = "as_is", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Tuning>")]
    pub tuning: Vec<Tuning>,
    /// `xen_timer_slop`, the shortest timer that a Xen guest sets; only for guests of Xen.
    #[serde(default = "kernels_slop", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Length>")]
    pub timer_slop: Vec<Length>,
    /// Exits that the guest makes on purpose; only for vmnoise's own guest.
    #[serde(default = "cpuid", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<GuestExercise>")]
    pub exercise: Vec<GuestExercise>,
    /// Scheduling policy of the measuring task.
    #[serde(default = "usual", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<CellPolicy>")]
    pub policy: Vec<CellPolicy>,
    /// Period of the periodic task.
    #[serde(default = "papers_period", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Length>")]
    pub period: Vec<Length>,
}

/// Format that [`one_or_more`] reads. Only the schema uses this type.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "it describes a file, and nothing is made of it")]
pub(super) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

fn pv() -> Vec<GuestType> {
    vec![GuestType::Pv]
}

fn ordinary() -> Vec<CellKernel> {
    vec![CellKernel::Ordinary]
}

fn idle() -> Vec<Load> {
    vec![Load::Idle]
}

fn as_is() -> Vec<Tuning> {
    vec![Tuning::AsIs]
}

/// Default of the kernel: TIMER_SLOP in arch/x86/xen/time.c.
fn kernels_slop() -> Vec<Length> {
    vec![Length::from_us(100)]
}

fn cpuid() -> Vec<GuestExercise> {
    vec![GuestExercise::Cpuid]
}

fn usual() -> Vec<CellPolicy> {
    vec![CellPolicy::Usual]
}

/// Period in the paper of Abeni and Faggioli.
fn papers_period() -> Vec<Length> {
    vec![Length::from_us(50)]
}

/// Reads one value or a list of values. This is not derived with serde, because serde's errors for
/// two formats do not say what is wrong.
pub(super) fn one_or_more<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct OneOrMore<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for OneOrMore<T> {
        type Value = Vec<T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value or a list of values")
        }

        fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<Vec<T>, E> {
            Ok(vec![T::deserialize(StrDeserializer::new(value))?])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, values: A) -> Result<Vec<T>, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(values))
        }
    }

    deserializer.deserialize_any(OneOrMore(PhantomData))
}

/// Implements `Display` with the names that scenario files and cell names use.
macro_rules! named {
    ($type:ident: $($variant:ident $name:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $($type::$variant => $name,)+
                })
            }
        }
    };
}

named!(Hypervisor: Bare "bare", Kvm "kvm", Microvm "microvm", Xen "xen", Dom0 "dom0");
named!(GuestType: Pv "pv", Pvh "pvh", Hvm "hvm");
named!(CellKernel: Ordinary "ordinary", Rt "rt");
named!(Load: Idle "idle", SystemCalls "system-calls", Bursts "bursts", Network "network",
    NetworkElsewhere "network-elsewhere", StressNg "stress-ng");
named!(Tuning: AsIs "as-is", VcpusAtFifo99 "vcpus-at-fifo99", VmmAtFifo99 "vmm-at-fifo99",
    HostIsolated "host-isolated", GuestIsolated "guest-isolated", BothIsolated "both-isolated",
    CreditScheduler "credit-scheduler", NullScheduler "null-scheduler", TscEmulated "tsc-emulated");
named!(GuestExercise: Cpuid "cpuid", Io "io");
named!(CellWorkload: Timerlat "timerlat", Cyclictest "cyclictest", Osnoise "osnoise", Exercise "exercise");
named!(CellPolicy: Usual "usual", Other "other", Fifo1 "fifo1");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use super::*;

    /// Checks that these words of a scenario file are displayed unchanged.
    fn read<T: for<'de> Deserialize<'de> + fmt::Display>(words: &[&str]) {
        for word in words {
            let value = T::deserialize(StrDeserializer::<serde::de::value::Error>::new(word));
            assert_eq!(value.unwrap().to_string(), *word);
        }
    }

    #[test]
    fn what_is_shown_is_what_a_file_has() {
        read::<Hypervisor>(&["bare", "kvm", "microvm", "xen", "dom0"]);
        read::<GuestType>(&["pv", "pvh", "hvm"]);
        read::<CellKernel>(&["ordinary", "rt"]);
        read::<Load>(&["idle", "system-calls", "bursts", "network"]);
        read::<Load>(&["network-elsewhere", "stress-ng"]);
        read::<GuestExercise>(&["cpuid", "io"]);
        read::<CellWorkload>(&["timerlat", "cyclictest", "osnoise", "exercise"]);
        read::<CellPolicy>(&["usual", "other", "fifo1"]);
        read::<Tuning>(&["as-is", "vcpus-at-fifo99", "vmm-at-fifo99", "host-isolated"]);
        read::<Tuning>(&[
            "guest-isolated",
            "both-isolated",
            "credit-scheduler",
            "null-scheduler",
            "tsc-emulated",
        ]);
    }
}
