//! The Rust types of `bpf/family.h`, generated from the object's BTF.

use vmnoise_events::{FamilyBooks, FamilyWaits};

use crate::object::compiled;
use crate::plain::Plain;

compiled!("family");

pub(super) use generated::types::{
    family_books as WireBooks, family_cpu as WireCpu, family_culprit as WireCulprit,
    family_losses as WireLosses, family_member as WireMember, vmnoise_source as WireSource,
};

/// Number of kinds of losses with a longest loss, in the order of `enum family_kind`.
pub(super) const KINDS: usize = 5;

const _: () = assert!(size_of::<WireCpu>().is_multiple_of(128));

impl Plain for WireCpu {}
impl Plain for WireCulprit {}
impl Plain for WireMember {}

impl From<&WireBooks> for FamilyBooks {
    fn from(wire: &WireBooks) -> FamilyBooks {
        FamilyBooks {
            wall_ns: wire.wall,
            ran_ns: wire.ran,
            irq_ns: wire.irq,
            softirq_ns: wire.softirq,
            nmi_ns: wire.nmi,
            steal_ns: wire.steal,
            waited_ns: wire.waited,
            waited_own_ns: wire.waited_own,
            throttled_ns: wire.throttled,
            asleep_ns: wire.asleep,
            unseen_ns: wire.unseen,
            unsure_ns: wire.unsure,
            threads: wire.threads,
            kernel_ran_ns: wire.kernel_ran,
            kernel_waited_ns: wire.kernel_waited,
            unshown_ns: wire.unshown,
        }
    }
}

impl WireCpu {
    /// Adds the time for which each cause kept threads of the command waiting for this CPU.
    pub(super) fn add_waits(&self, waits: &mut FamilyWaits) {
        waits.idle_ns += self.idle_waits;
        waits.steal_ns += self.steal_waits;
        // Waits during a turn that is not over are not attributed yet.
        waits.unnamed_ns += self.unnamed_waits + self.turn_waits;
        waits.doubtful_ns += self.doubtful_waits;
    }
}
