//! Filter for losses: each drain reads all losses before its watermark, and reports those that have
//! changed.

use vmnoise_events::{Loss, LossKind};

/// Last reported count of each kind of loss.
#[derive(Debug, Default)]
pub struct LossNews([Option<u64>; LossKind::ALL.len()]);

impl LossNews {
    /// Returns the losses whose count has changed or was never reported; a first count of 0 is
    /// reported too.
    pub fn of(&mut self, losses: Vec<Loss>) -> impl Iterator<Item = Loss> {
        losses.into_iter().filter(|loss| {
            let reported = self.0[loss.kind as usize].replace(loss.count);
            reported != Some(loss.count)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changes_is_reported() {
        let mut news = LossNews::default();
        let mut reported = |ring, mailbox| {
            let kinds = [(LossKind::RingFull, ring), (LossKind::MailboxFull, mailbox)];
            let losses = kinds.map(|(kind, count)| Loss { kind, count }).to_vec();
            news.of(losses).map(|loss| loss.count).collect::<Vec<u64>>()
        };
        assert_eq!(reported(0, 0), [0, 0]);
        assert!(reported(0, 0).is_empty());
        assert_eq!(reported(3, 0), [3]);
        assert_eq!(reported(3, 7), [7]);
    }
}
