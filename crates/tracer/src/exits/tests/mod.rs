//! Tests of the handlers of `exits` with event streams whose result is known.

mod bpf_run {
    mod buckets;
    mod clocks;
    mod counted;
    mod glue;
    mod halts;
    mod harness;
    mod hidden;
    mod laid_under;
    mod life;
    mod lives;
    mod moment;
    mod oracle;
    mod painted;
    mod paired;
    mod places;
    mod rebuilt;
    mod reported;
    mod unseen;
}

/// Tests that attach to the events of this machine.
mod root {
    mod watched;
}
