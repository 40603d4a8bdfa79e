//! Whether a stream defines its sources and vCPUs before it uses them, in order.

use vmnoise_events::{Event, SourceId, VcpuId};

/// How many are defined so far.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub sources: u32,
    pub vcpus: u32,
}

/// An id that is not defined, or is defined out of order.
#[derive(Debug, thiserror::Error)]
#[error("{what} {id} is out of order, {defined} are defined")]
pub(crate) struct Undefined {
    /// `source` or `vCPU`.
    pub what: &'static str,
    pub id: u32,
    /// How many of its kind are defined.
    pub defined: u32,
}

impl Definitions {
    /// Takes the definition that this event is, or checks those that it refers to.
    pub fn check(&mut self, event: &Event) -> Result<(), Undefined> {
        match event {
            Event::Source(source) => {
                let id = source.id.0;
                within("source", id, self.sources, id == self.sources)?;
                self.sources += 1;
            }
            Event::Activity(activity) => self.source(activity.source)?,
            // A vCPU may be defined anew.
            Event::Vcpu(vcpu) => {
                let id = vcpu.id.0;
                within("vCPU", id, self.vcpus, id <= self.vcpus)?;
                self.vcpus += u32::from(id == self.vcpus);
            }
            Event::VcpuClock(clock) => self.vcpu(clock.vcpu)?,
            Event::Exit(exit) => self.vcpu(exit.vcpu)?,
            Event::VcpuInterval(interval) => {
                self.vcpu(interval.vcpu)?;
                interval.source.map_or(Ok(()), |id| self.source(id))?;
            }
            Event::VcpuTotals(totals) => self.vcpu(totals.vcpu)?,
            Event::Gap(_)
            | Event::Activation(_)
            | Event::Anchor(_)
            | Event::Tally(_)
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
        false => Err(Undefined { what, id, defined }),
    }
}
