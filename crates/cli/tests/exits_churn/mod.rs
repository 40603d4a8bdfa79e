//! Tests with VMs that come and go faster than the finder looks: each is counted, in a small table,
//! and is found without delaying the loop that counts.

mod beside;
mod finding;
mod hosts;
mod table;
mod vms;

mod kvm {
    #[test]
    fn vms_that_come_and_go_are_all_counted() {
        super::table::counts_more_vms_than_it_has_places();
    }

    #[test]
    fn finding_vms_reads_no_more_where_20000_files_are_open() {
        super::finding::reads_no_more_where_many_files_are_open();
    }

    #[test]
    fn whoever_drains_the_ring_opens_no_file() {
        super::finding::leaves_no_file_to_the_loop();
    }

    #[test]
    fn nobody_waits_for_a_finder_that_is_held() {
        super::finding::is_waited_for_by_nobody();
    }
}

mod lab_full {
    mod hosts {
        use std::time::Duration;

        #[test]
        fn a_host_on_which_hundreds_of_vms_come_and_go_counts_every_exit() {
            crate::exits_churn::hosts::counts_every_exit(20, Duration::from_secs(30));
        }

        #[test]
        fn a_host_on_which_1200_vms_come_and_go_two_at_a_time_loses_no_event() {
            crate::exits_churn::hosts::loses_no_event(2, 1_200);
        }

        #[test]
        fn ten_minutes_of_200_vms_that_come_and_go_count_every_exit_in_flat_memory() {
            let (memory, bytes_per_vm) =
                crate::exits_churn::hosts::counts_every_exit(200, Duration::from_secs(600));
            crate::exits_churn::hosts::assert_memory_is_flat(&memory, bytes_per_vm);
        }
    }
}
