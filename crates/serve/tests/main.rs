//! `vmnoise serve` at work beside VMs, and what a scraper finds.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod harness;

mod kvm {
    mod neighbours;
    mod page;
    mod prometheus;
    mod rights;
    mod service;
}
