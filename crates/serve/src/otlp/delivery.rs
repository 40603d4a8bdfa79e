//! The thread that delivers messages: sends the newest message until the collector accepts it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use super::collector::Collector;
use super::counts::Counts;
use crate::say::say;

/// Pause before the second attempt. Each further pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const LAST_PAUSE: Duration = Duration::from_secs(60);

/// Delivers messages until the sender of the channel is dropped. Sums are cumulative, so a message
/// also contains what earlier messages contained. If a message is not accepted, only its
/// intermediate values are lost.
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
                    say(&format!("{} accepts metrics again", collector.name()));
                }
                break;
            };
            counts.failed();
            if !std::mem::replace(&mut fails, true) {
                say(&format!(
                    "{} does not accept metrics: {}; vmnoise continues to send, and prints a line when they are accepted",
                    collector.name(),
                    refusal.why
                ));
            }
            let Some(after) = refusal.again else {
                break;
            };
            // A random pause spreads the attempts of many hosts after an outage of their collector.
            let jittered = pause.mul_f64(0.5 + fastrand::f64() / 2.0);
            sleep(jittered.max(after)).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}
