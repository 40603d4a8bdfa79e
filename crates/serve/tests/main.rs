//! Tests of `vmnoise serve` next to running VMs, and of the metrics that a scraper gets.
#![allow(clippy::unwrap_used)] // A failed `unwrap` fails the test.

mod asked;
mod exported;
mod harness;

mod engine {
    mod rules;
}

mod browse_kvm {
    mod page;
}

mod kvm {
    mod asking;
    mod dumps;
    mod exits;
    mod guards;
    mod libvirt;
    mod neighbours;
    mod otlp;
    mod own_cpus;
    mod prometheus;
    mod rights;
    mod service;
    pub mod summaries;
}

mod lab;
mod pause;
mod stored;

mod lab_full {
    mod containers;
    mod dashboard;
    mod kubernetes;
    mod large;

    use vmnoise_testbed::bed::{DebianKernel, DebianSuite};

    use crate::lab::assert_serves_on;
    use crate::pause::assert_time_is_unseen_in_a_pause;
    use crate::stored;

    // These tests take a minute.
    mod hosts {
        use super::*;

        #[test]
        fn what_costs_too_much_is_detached_and_its_time_is_unseen_until_it_is_attached_again() {
            assert_time_is_unseen_in_a_pause();
        }
    }

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
        fn cloud() {
            assert_serves_on(DebianKernel::Cloud, DebianSuite::Own);
        }

        #[test]
        fn rt() {
            assert_serves_on(DebianKernel::Rt, DebianSuite::Own);
        }
    }

    mod trixie {
        use super::*;

        #[test]
        fn cloud() {
            assert_serves_on(DebianKernel::Cloud, DebianSuite::Trixie);
        }
    }

    // Linux 7.3 is left out. Since 6.19, task storage needs CMPXCHG16B (kmalloc_nolock of
    // mm/slub.c), which the CPU of a lab does not have.
}
