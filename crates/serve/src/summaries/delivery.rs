//! The thread that delivers: one after the other, each until it is taken.

use std::time::Duration;

use super::destination::Destination;
use super::queue::Queue;
use crate::say::say;

/// Before another attempt, at first; each time twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// And at last.
const LAST_PAUSE: Duration = Duration::from_secs(300);

/// Until the queue is closed and empty, or the process ends.
pub(super) fn deliver(destination: &Destination, queue: &Queue) {
    let mut pause = FIRST_PAUSE;
    while let Some(parcel) = queue.next() {
        match destination.take(&parcel) {
            Ok(()) => {
                queue.delivered(&parcel);
                if pause > FIRST_PAUSE {
                    say("summaries are taken again");
                }
                pause = FIRST_PAUSE;
            }
            Err(error) => {
                if pause == FIRST_PAUSE {
                    say(&format!(
                        "summaries wait: {error:#}; it is tried again every now and then, after {LAST_PAUSE:?} at the latest"
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
    #![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

    use std::fs;
    use std::thread;

    use super::super::queue::Parcel;
    use super::*;

    #[test]
    fn a_place_that_takes_nothing_for_a_while_gets_all_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("fleet");
        // No folder can be made where a file is.
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
            // In less than the first pause, and whoever pushes has not waited.
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
