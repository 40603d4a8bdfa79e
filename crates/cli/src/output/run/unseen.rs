//! What a run of a command could not see, in words.

use vmnoise_judge::fitness::NotSeen;

use crate::units::human;

/// One sentence, without a stop.
pub(super) fn unseen(what: &NotSeen) -> String {
    match what {
        NotSeen::Steal => {
            "the hypervisor of this machine does not tell what it takes (no steal clock)".into()
        }
        NotSeen::Nmi => "NMIs are not seen on this kernel".into(),
        NotSeen::Threads => "no thread of the command was seen".into(),
        NotSeen::Unbounded { events } => format!(
            "{events} events were missed that do not tell how much is missing (interrupts, or books that two CPUs \
             wrote at once)"
        ),
        NotSeen::Unfollowed { threads } => {
            format!("{threads} threads of the command were not followed")
        }
        NotSeen::Waits => {
            "events were missed, and this kernel keeps no books of how long threads waited".into()
        }
        NotSeen::Doubtful { ns, events } => format!(
            "{} of the threads' time is not known for certain: {events} events were missed",
            human(*ns)
        ),
        NotSeen::Untraced { why } => why.clone(),
        NotSeen::OnlyFromProc => {
            "from /proc: interrupts and who had the CPU are not told, and threads that ended between two looks are \
             missing"
                .into()
        }
    }
}
