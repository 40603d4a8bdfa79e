//! What a scenario varies. Each axis takes one value or a list of them.

use std::fmt;
use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::de::value::{SeqAccessDeserializer, StrDeserializer};
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::length::Length;

/// What runs guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Hypervisor {
    /// Nothing: the host itself is measured.
    Bare,
    /// Linux with KVM.
    Kvm,
    /// KVM with vmnoise's own guest, which has no kernel.
    Microvm,
    /// Xen; its host is Dom0.
    Xen,
    /// Xen, and Dom0 itself is measured.
    Dom0,
}

/// How a guest of Xen is virtualized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GuestType {
    /// Paravirtualized: its kernel asks Xen for what hardware would do.
    Pv,
    /// As HVM, with nothing emulated but its CPU.
    Pvh,
    /// With a whole machine that a QEMU in Dom0 emulates.
    Hvm,
}

/// A kernel of Debian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// The one for every machine.
    Ordinary,
    /// PREEMPT_RT.
    Rt,
}

/// What works in the background, on the host or in Dom0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Nothing.
    Idle,
    /// Tasks of ordinary priority that make system calls and interrupts.
    SystemCalls,
    /// A task at FIFO that takes the CPU for 1 ms every 10 ms.
    Bursts,
    /// Packets that the measured CPU receives each millisecond: 32 on a host, and in emulation 32 by each of two network
    /// cards.
    Network,
    /// The same, received by another CPU.
    NetworkElsewhere,
    /// stress-ng.
    StressNg,
}

/// Which exits vmnoise's own guest makes on purpose, one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exercise {
    /// CPUID, which KVM answers.
    Cpuid,
    /// A write to a port, which the VMM answers.
    Io,
}

/// How host and guest are set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tuning {
    /// As they come.
    AsIs,
    /// vCPUs at FIFO 99.
    VcpusAtFifo99,
    /// The threads of the VMM at FIFO 99, as its vCPUs: the cure of the priority inversion of HVM.
    VmmAtFifo99,
    /// CPUs isolated on the host: isolcpus, nohz_full, rcu_nocbs, irqaffinity.
    HostIsolated,
    /// CPUs isolated in the guest.
    GuestIsolated,
    /// Both.
    BothIsolated,
    /// Xen's credit scheduler, where it would take credit2.
    CreditScheduler,
    /// Xen without a scheduler: each vCPU has its CPU.
    NullScheduler,
    /// Xen answers each reading of the TSC.
    TscEmulated,
}

/// How urgently the task runs that measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// As the program has it that measures: `osnoise` as it is started, `timerlat` at FIFO 95.
    Usual,
    /// SCHED_OTHER.
    Other,
    /// SCHED_FIFO with the lowest priority that there is: above all ordinary tasks.
    Fifo1,
}

/// What is run in the guest, or on the host where there is no hypervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// `vmnoise timerlat`: how late a periodic task wakes up, and why.
    Timerlat,
    /// cyclictest of rt-tests: how late, as the papers have it.
    Cyclictest,
    /// `vmnoise osnoise`: what is taken from a task that never sleeps.
    Osnoise,
    /// `vmnoise microvm --exercise`: what an exit takes, as the guest has it and as its host has it.
    Exercise,
}

/// What is varied.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Axes {
    /// What runs guests.
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Hypervisor>")]
    pub hypervisor: Vec<Hypervisor>,
    /// Of Xen alone.
    #[serde(default = "pv", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<GuestType>")]
    pub guest_type: Vec<GuestType>,
    /// Of the host, or of Dom0.
    #[serde(deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Kernel>")]
    pub host_kernel: Vec<Kernel>,
    /// Of the guest; where there is none, the host is measured once.
    #[serde(default = "ordinary", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Kernel>")]
    pub guest_kernel: Vec<Kernel>,
    /// What works in the background.
    #[serde(default = "idle", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Load>")]
    pub load: Vec<Load>,
    /// How all is set up.
    #[serde(default = "as_is", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Tuning>")]
    pub tuning: Vec<Tuning>,
    /// Of a guest of Xen alone: `xen_timer_slop`, below which it sets no timer.
    #[serde(default = "kernels_slop", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Length>")]
    pub timer_slop: Vec<Length>,
    /// Of vmnoise's own guest alone, where it exits on purpose.
    #[serde(default = "cpuid", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Exercise>")]
    pub exercise: Vec<Exercise>,
    /// How urgently the task runs that measures.
    #[serde(default = "usual", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Policy>")]
    pub policy: Vec<Policy>,
    /// How often a periodic task wakes up.
    #[serde(default = "papers_period", deserialize_with = "one_or_more")]
    #[schemars(with = "OneOrMore<Length>")]
    pub period: Vec<Length>,
}

/// What [`one_or_more`] reads, for the schema.
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

fn ordinary() -> Vec<Kernel> {
    vec![Kernel::Ordinary]
}

fn idle() -> Vec<Load> {
    vec![Load::Idle]
}

fn as_is() -> Vec<Tuning> {
    vec![Tuning::AsIs]
}

/// TIMER_SLOP of arch/x86/xen/time.c.
fn kernels_slop() -> Vec<Length> {
    vec![Length::from_us(100)]
}

fn cpuid() -> Vec<Exercise> {
    vec![Exercise::Cpuid]
}

fn usual() -> Vec<Policy> {
    vec![Policy::Usual]
}

/// That of Abeni and Faggioli.
fn papers_period() -> Vec<Length> {
    vec![Length::from_us(50)]
}

/// By hand: what serde derives for either of two shapes says of a wrong value only that it has neither.
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

/// As a file has it, and the name of a cell.
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
named!(Kernel: Ordinary "ordinary", Rt "rt");
named!(Load: Idle "idle", SystemCalls "system-calls", Bursts "bursts", Network "network",
    NetworkElsewhere "network-elsewhere", StressNg "stress-ng");
named!(Tuning: AsIs "as-is", VcpusAtFifo99 "vcpus-at-fifo99", VmmAtFifo99 "vmm-at-fifo99",
    HostIsolated "host-isolated", GuestIsolated "guest-isolated", BothIsolated "both-isolated",
    CreditScheduler "credit-scheduler", NullScheduler "null-scheduler", TscEmulated "tsc-emulated");
named!(Exercise: Cpuid "cpuid", Io "io");
named!(Workload: Timerlat "timerlat", Cyclictest "cyclictest", Osnoise "osnoise", Exercise "exercise");
named!(Policy: Usual "usual", Other "other", Fifo1 "fifo1");

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use super::*;

    /// The list that a file has under this key comes back as it is shown.
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
        read::<Kernel>(&["ordinary", "rt"]);
        read::<Load>(&["idle", "system-calls", "bursts", "network"]);
        read::<Load>(&["network-elsewhere", "stress-ng"]);
        read::<Exercise>(&["cpuid", "io"]);
        read::<Workload>(&["timerlat", "cyclictest", "osnoise", "exercise"]);
        read::<Policy>(&["usual", "other", "fifo1"]);
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
