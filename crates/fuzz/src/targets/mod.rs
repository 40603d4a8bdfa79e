//! Targets of the search, and their properties. In addition, each target must end, must not panic
//! with overflow checks, and must not exceed the memory limit in `docs/reliability.md`.

mod activity_decode;
mod commands;
mod exit_decode;
mod explain;
mod feed_receiver;
mod feed_sender;
mod sources;

#[path = "../../../../fuzz/properties/feed_decoder.rs"]
mod feed_decoder;
#[path = "../../../../fuzz/properties/recording_reader.rs"]
mod recording_reader;

use crate::recordings::recording;

/// Property that must hold for any bytes.
#[derive(Debug, Clone, Copy)]
pub struct FuzzTarget {
    /// Name of the target.
    pub name: &'static str,
    /// Folder of the target's corpus. Targets that read the same inputs share one folder.
    pub corpus: &'static str,
    /// Function that panics if the property does not hold.
    pub check: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [FuzzTarget; 13] = [
    target("recording_reader", |bytes| {
        let _ = recording_reader::check(bytes);
    }),
    recordings("recording_sealed", |bytes| {
        let _ = recording_reader::check(&recording(bytes));
    }),
    recordings("explain", explain::check),
    recordings("explain_command", commands::explain),
    recordings("judge", commands::judge),
    target("join", commands::join),
    recordings("report", commands::report),
    recordings("export", commands::export),
    target("activity_decode", activity_decode::check),
    target("exit_decode", exit_decode::check),
    target("feed_sender", feed_sender::check),
    target("feed_decoder", |bytes| {
        feed_decoder::check(bytes);
    }),
    target("feed_receiver", feed_receiver::check),
];

/// Target whose property does not hold, for the test of the search. Some inputs panic, and others
/// need more memory than allowed.
pub const BROKEN: FuzzTarget = target("broken", |bytes| match bytes {
    [0..32, ..] => panic!("as it is meant to"),
    [32..64, ..] => drop(std::hint::black_box(vec![1_u8; 1 << 30])),
    _ => {}
});

const fn target(name: &'static str, check: fn(&[u8])) -> FuzzTarget {
    let corpus = name;
    FuzzTarget {
        name,
        corpus,
        check,
    }
}

const fn recordings(name: &'static str, check: fn(&[u8])) -> FuzzTarget {
    let corpus = "recordings";
    FuzzTarget {
        name,
        corpus,
        check,
    }
}
