//! `vmnoise serve` at work beside VMs, and what a scraper finds.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod harness;

mod kvm {
    mod guards;
    mod libvirt;
    mod neighbours;
    mod page;
    mod prometheus;
    mod rights;
    mod service;
}

mod lab;

mod lab_full {
    use vmnoise_labs::bed::{Kernel, Suite};

    use crate::lab::assert_serves_on;

    mod own_suite {
        use super::*;

        #[test]
        fn rt() {
            assert_serves_on(Kernel::Rt, Suite::Own);
        }
    }

    mod trixie {
        use super::*;

        #[test]
        fn cloud() {
            assert_serves_on(Kernel::Cloud, Suite::Trixie);
        }
    }

    // Not on Linux 7.3: since 6.19 storage of a task needs CMPXCHG16B (kmalloc_nolock of mm/slub.c),
    // which the CPU of a lab has not.
}
