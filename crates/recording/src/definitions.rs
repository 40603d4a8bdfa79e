//! Checks that a stream defines its sources and vCPUs in order and before their use, and that its
//! header lists its CPUs.

use vmnoise_events::{Event, Exit, MeasuringCommand, RunFacts, SourceId, VcpuId};

use crate::limits::CPUS;

/// Number of definitions so far, and the CPUs whose events are valid.
#[derive(Debug)]
pub(crate) struct Definitions {
    pub sources: u32,
    pub vcpus: u32,
    cpus: Cpus,
}

/// Reference in an event to something that is not defined, or is defined out of order.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Undefined {
    #[error("{what} {id} is out of order, {defined} are defined")]
    Id {
        /// `source` or `vCPU`.
        what: &'static str,
        id: u32,
        /// Number of definitions of this kind so far.
        defined: u32,
    },
    #[error("it has an event of CPU {0}, which the header does not list")]
    Cpu(u32),
}

/// CPUs whose events are valid.
#[derive(Debug)]
enum Cpus {
    /// CPUs that the header lists. The index is the CPU's number; the vector ends with the last
    /// listed CPU.
    Listed(Vec<bool>),
    /// Any CPU number that a machine may have. Observed threads and vCPUs move, and a CPU may come
    /// online during the run.
    Any,
}

impl Cpus {
    fn of(facts: &RunFacts) -> Cpus {
        if matches!(
            facts.workload,
            MeasuringCommand::Observed | MeasuringCommand::Exits
        ) {
            return Cpus::Any;
        }
        let of_host = facts.host.apic_ids.iter().map(|id| &id.0);
        let listed = facts.options.cpus.iter().chain(&facts.host.allowed_cpus);
        let mut cpus = Vec::new();
        // Skips CPUs beyond the limits of a header, because a writer does not check these limits.
        for &cpu in listed.chain(of_host).filter(|cpu| **cpu < CPUS) {
            let place = cpu as usize;
            if place >= cpus.len() {
                cpus.resize(place + 1, false);
            }
            cpus[place] = true;
        }
        Cpus::Listed(cpus)
    }

    fn check(&self, cpu: u32) -> Result<(), Undefined> {
        let is_there = match self {
            Cpus::Listed(listed) => listed.get(cpu as usize) == Some(&true),
            Cpus::Any => cpu < CPUS,
        };
        is_there.then_some(()).ok_or(Undefined::Cpu(cpu))
    }

    fn check_exit(&self, exit: &Exit) -> Result<(), Undefined> {
        self.check(exit.exit_cpu)?;
        self.check(exit.entry_cpu)
    }
}

impl Definitions {
    /// Creates the definitions for a stream with this header.
    pub fn new(facts: &RunFacts) -> Definitions {
        Definitions {
            sources: 0,
            vcpus: 0,
            cpus: Cpus::of(facts),
        }
    }

    /// Adds the definition in this event, or checks the references in it.
    pub fn check(&mut self, event: &Event) -> Result<(), Undefined> {
        match event {
            Event::Source(source) => {
                let id = source.id.0;
                within("source", id, self.sources, id == self.sources)?;
                self.sources += 1;
            }
            Event::Activity(activity) => {
                self.cpus.check(activity.cpu)?;
                self.source(activity.source)?;
            }
            Event::Gap(gap) => self.cpus.check(gap.cpu)?,
            Event::Activation(activation) => self.cpus.check(activation.cpu)?,
            Event::Tally(tally) => self.cpus.check(tally.cpu)?,
            // A vCPU may be defined again.
            Event::Vcpu(vcpu) => {
                let id = vcpu.id.0;
                within("vCPU", id, self.vcpus, id <= self.vcpus)?;
                self.vcpus += u32::from(id == self.vcpus);
            }
            Event::VcpuClock(clock) => self.vcpu(clock.vcpu)?,
            Event::Exit(exit) => {
                self.vcpu(exit.vcpu)?;
                self.cpus.check_exit(&exit.exit)?;
            }
            Event::VcpuInterval(interval) => {
                self.vcpu(interval.vcpu)?;
                self.cpus.check(interval.cpu)?;
                self.cpus.check(interval.to_cpu)?;
                interval.source.map_or(Ok(()), |id| self.source(id))?;
            }
            Event::VcpuTotals(totals) => {
                self.vcpu(totals.vcpu)?;
                (totals.worst.as_ref()).map_or(Ok(()), |exit| self.cpus.check_exit(exit))?;
            }
            Event::Anchor(_)
            | Event::Loss(_)
            | Event::OwnCost(_)
            | Event::Watermark(_)
            | Event::HostFrame(_)
            | Event::FeedTotals(_)
            | Event::Finish(_) => {}
        }
        Ok(())
    }

    fn source(&self, id: SourceId) -> Result<(), Undefined> {
        within("source", id.0, self.sources, id.0 < self.sources)
    }

    fn vcpu(&self, id: VcpuId) -> Result<(), Undefined> {
        within("vCPU", id.0, self.vcpus, id.0 < self.vcpus)
    }
}

fn within(what: &'static str, id: u32, defined: u32, fits: bool) -> Result<(), Undefined> {
    match fits {
        true => Ok(()),
        false => Err(Undefined::Id { what, id, defined }),
    }
}
