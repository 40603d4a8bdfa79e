//! Waits for conditions.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time after which a condition counts as never true. Usually it becomes true much earlier.
const BACKSTOP: Duration = Duration::from_secs(120);
/// Time between two checks.
const LOOK: Duration = Duration::from_millis(10);

/// Waits until `find` returns a value. `what` names the value in the message of the panic.
///
/// # Panics
/// If there is no value within two minutes.
#[track_caller]
pub fn wait_for<T>(what: &str, find: impl FnMut() -> Option<T>) -> T {
    look_every(LOOK, what, find)
}

/// Waits until `is_so` returns true. `what` names the condition in the message of the panic.
///
/// # Panics
/// If the condition is not true within two minutes.
#[track_caller]
pub fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_until_every(LOOK, what, is_so);
}

/// Waits as [`wait_until`] does, with this time between two checks.
///
/// # Panics
/// As [`wait_until`].
#[track_caller]
pub fn wait_until_every(look: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    look_every(look, what, || is_so().then_some(()));
}

#[track_caller]
fn look_every<T>(look: Duration, what: &str, mut find: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = find() {
            return found;
        }
        assert!(begin.elapsed() < BACKSTOP, "waited in vain for {what}");
        sleep(look);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_until_there_is_something() {
        let mut looks = 0;
        let found = wait_for("the third look", || {
            looks += 1;
            (looks == 3).then_some("it")
        });
        assert_eq!((found, looks), ("it", 3));
    }
}
