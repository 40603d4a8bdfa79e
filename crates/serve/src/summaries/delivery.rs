//! The thread that delivers summaries: sends one summary after the other, each until it is
//! accepted.

use std::time::Duration;

use super::destination::Destination;
use super::queue::Queue;
use crate::say::say;

/// Pause before the second attempt. Each further pause is twice as long as the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause between two attempts.
const LAST_PAUSE: Duration = Duration::from_secs(300);

/// Delivers summaries until the queue is closed and empty, or until the process ends.
pub(super) fn deliver(destination: &Destination, queue: &Queue) {
    let mut pause = FIRST_PAUSE;
    while let Some(parcel) = queue.next() {
        match destination.take(&parcel) {
            Ok(()) => {
                queue.delivered(&parcel);
                if pause > FIRST_PAUSE {
                    say("summaries are delivered again");
                }
                pause = FIRST_PAUSE;
            }
            Err(error) => {
                if pause == FIRST_PAUSE {
                    say(&format!(
                        "summaries wait: {error:#}; the next attempt is in {LAST_PAUSE:?} or less"
                    ));
                }
                queue.pause(pause);
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

    use std::fs;
    use std::thread;

    use super::super::queue::Parcel;
    use super::*;

    #[test]
    fn a_place_that_takes_nothing_for_a_while_gets_all_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("fleet");
        // A file prevents the creation of a folder with the same name.
        fs::write(&place, "").unwrap();
        let destination = Destination::Folder(place.clone());
        let queue = Queue::default();
        let push = |number: u8| {
            let place = format!("hours/{number}.parquet").into();
            let bytes = vec![number];
            queue.push(Parcel { place, bytes });
        };
        thread::scope(|scope| {
            scope.spawn(|| deliver(&destination, &queue));
            push(1);
            push(2);
            // `push` has not waited for a delivery, because less time than the first pause has
            // passed.
            thread::sleep(FIRST_PAUSE / 2);
            assert_eq!(queue.counts().waiting, 2);
            fs::remove_file(&place).unwrap();
            assert_eq!(queue.close(FIRST_PAUSE * 10), 0);
        });
        assert_eq!(queue.counts().delivered, 2);
        for number in [1, 2] {
            let file = place.join(format!("hours/{number}.parquet"));
            assert_eq!(fs::read(file).unwrap(), [number]);
        }
    }
}
