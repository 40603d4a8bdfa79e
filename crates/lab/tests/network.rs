//! Tests a machine that receives packets while it is measured.

use serde_json::Value;

use crate::program::ProgramFolder;

const SCENARIO: &str = r#"
title = "Packets for tests"
source = "none"

[axes]
hypervisor = "bare"
host-kernel = "rt"
load = ["idle", "network"]
policy = "fifo1"

[measure]
workload = "osnoise"
duration = "50ms"
"#;

mod virtual_time {
    use super::*;

    #[test]
    fn what_receives_packets_is_named_and_is_not_there_without_them() {
        let place = ProgramFolder::with(SCENARIO);
        println!("{}", place.said(&["run", "scenario.toml", "-o", "run"]));
        let measured = |cell: &str| {
            let ended = place.json(&format!("run/{cell}/cell.json"));
            assert_eq!(ended["failure"], Value::Null, "{ended}");
            ended["repetitions"][0].clone()
        };
        let ns = |measured: &Value, what: &str| measured[what].as_u64().unwrap();
        let (idle, network) = (measured("idle"), measured("network"));
        println!("{} {}", idle["who"], network["who"]);
        assert_eq!(network["who"][0]["name"], "NET_RX:3");
        assert!(2 * ns(&network, "net_rx_ns") > ns(&network, "worst_ns"));
        // The interrupt's thread is named too: `irq/25-virtio0-:91`.
        assert!(network["who"].to_string().contains("virtio"), "{network}");
        // The machine of the cell `idle` has no network card.
        assert_eq!(ns(&idle, "net_rx_ns"), 0);
        assert!(ns(&idle, "worst_ns") < ns(&network, "worst_ns") / 2);
    }
}
