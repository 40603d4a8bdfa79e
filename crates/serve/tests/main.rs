//! `vmnoise serve` at work beside VMs, and what a scraper finds.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod harness;

mod kvm {
    mod guards;
    mod neighbours;
    mod page;
    mod prometheus;
    mod rights;
    mod service;
    pub mod summaries;
}

mod lab;
mod stored;

mod lab_full {
    use vmnoise_labs::bed::{Kernel, Suite};

    use crate::lab::assert_serves_on;
    use crate::stored;

    mod engines {
        use super::*;

        #[test]
        fn a_store_has_what_was_sent() {
            stored::assert_a_store_has_what_was_sent();
        }

        #[test]
        fn one_that_is_away_costs_no_more_than_its_summaries() {
            stored::assert_one_that_is_away_costs_no_more_than_its_summaries();
        }
    }

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
