//! The thread that delivers: the newest message, until it is taken.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::collector::Collector;
use super::counts::Counts;
use crate::say::say;

/// Before another attempt, at first; each time twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// And at last.
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Until nobody has one any more. Sums are cumulative: a message that was not taken is in the next one, but for what
/// was between the two.
pub(super) async fn deliver(
    collector: &Collector,
    mut newest: watch::Receiver<Vec<u8>>,
    counts: Arc<Counts>,
) {
    let mut fails = false;
    while newest.changed().await.is_ok() {
        let mut pause = FIRST_PAUSE;
        loop {
            let message = newest.borrow_and_update().clone();
            let Err(refusal) = collector.take(message).await else {
                counts.taken();
                if std::mem::take(&mut fails) {
                    say(&format!("{} takes metrics again", collector.name()));
                }
                break;
            };
            counts.failed();
            if !std::mem::replace(&mut fails, true) {
                say(&format!(
                    "{} does not take metrics: {}; later ones are sent all the same, and it is told when they are taken",
                    collector.name(),
                    refusal.why
                ));
            }
            let Some(after) = refusal.again else {
                break;
            };
            // Thousands of hosts whose collector was away do not come at once.
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            sleep(jittered.max(after)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}
