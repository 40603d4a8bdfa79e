//! The handlers of `exits`, fed streams whose truth is known.

mod root {
    mod clocks;
    mod counted;
    mod harness;
    mod laid_under;
    mod told;
}
