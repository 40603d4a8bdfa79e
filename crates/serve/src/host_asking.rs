//! In a guest: requests a dump from the host after the hypervisor took a CPU for too long.

use vmnoise_feed::AskedHost;
use vmnoise_tracer::WaitLengths;

use crate::canary::APART_NS;
use crate::say::say;

/// The host from which dumps are requested, and the check that decides when.
#[derive(Debug)]
pub(crate) struct HostAsking {
    host: AskedHost,
    reason: Reason,
}

impl HostAsking {
    /// Prepares to request a dump after each loss longer than `over_ns`. `over_ns` must be one of
    /// the histogram's bounds.
    pub(crate) fn new(host: AskedHost, over_ns: u64) -> HostAsking {
        HostAsking {
            host,
            reason: Reason::new(over_ns),
        }
    }

    /// Takes the losses of all CPUs so far, and requests a dump if it is due.
    pub(crate) fn look(&mut self, losses: &WaitLengths, now_mono_ns: u64) {
        if let Some(answer) = self.host.answer() {
            say(&format!("the host answers: {answer}"));
        }
        if self.reason.look(losses, now_mono_ns)
            && let Err(error) = self.host.ask()
        {
            say(&format!("{:#}", anyhow::Error::from(error)));
        }
    }
}

/// Decides when to request a dump. Pure.
#[derive(Debug)]
struct Reason {
    over_ns: u64,
    /// Number of losses longer than `over_ns` at the last poll. `None` before the first poll,
    /// because the age of earlier losses is unknown.
    longer: Option<u64>,
    is_due: bool,
    asked_ns: Option<u64>,
}

impl Reason {
    fn new(over_ns: u64) -> Reason {
        Reason {
            over_ns,
            longer: None,
            is_due: false,
            asked_ns: None,
        }
    }

    fn look(&mut self, losses: &WaitLengths, now_mono_ns: u64) -> bool {
        let longer = losses.count() - losses.up_to(self.over_ns);
        let before = self.longer.replace(longer);
        self.is_due |= before.is_some_and(|before| longer > before);
        let is_early = self
            .asked_ns
            .is_some_and(|asked| now_mono_ns < asked + APART_NS);
        if !self.is_due || is_early {
            return false;
        }
        self.is_due = false;
        self.asked_ns = Some(now_mono_ns);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    #[test]
    fn a_loss_that_is_too_long_is_asked_for_once_and_a_minute_later_again() {
        let mut reason = Reason::new(100 * MS);
        let mut look =
            |at_s: u64, losses: &[u64]| reason.look(&losses.iter().copied().collect(), at_s * S);
        // A loss before the first poll causes no request.
        assert!(!look(1, &[200 * MS]));
        assert!(!look(2, &[200 * MS, 100 * MS]));
        assert!(look(3, &[200 * MS, 100 * MS, 101 * MS]));
        assert!(!look(4, &[200 * MS, 100 * MS, 101 * MS]));
        assert!(!look(5, &[200 * MS, 100 * MS, 101 * MS, S]));
        assert!(!look(62, &[200 * MS, 100 * MS, 101 * MS, S]));
        assert!(look(63, &[200 * MS, 100 * MS, 101 * MS, S]));
        assert!(!look(200, &[200 * MS, 100 * MS, 101 * MS, S]));
    }
}
