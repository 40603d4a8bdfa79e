//! Known causes, and what the built binary says of them.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod altered;
mod blame_judge;
mod exits_judge;
mod join_judge;
mod neighbours_judge;
mod pairing_judge;
mod recorded;

mod adversity;
mod background;
mod bed;
mod blame;
mod chaos;
mod clocks;
mod disks;
mod domain;
mod exercise;
mod exits;
mod feed;
mod feed_nested;
mod fingerprint;
mod found;
mod guest;
mod join;
mod join_timers;
mod kernels;
mod neighbours;
mod newcomer;
mod nmi;
mod observed;
mod oracle;
mod osnoise;
mod osnoise_options;
mod packets;
mod reliability;
mod relocations;
mod streamed;
mod tied;
mod timerlat;
mod timerlat_truth;
mod trace;
mod undone;
mod vms;
mod without_root;
mod xen;
