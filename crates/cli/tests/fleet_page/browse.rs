//! Test of the page in a headless Chromium.

use std::path::PathBuf;

use serde_json::json;
use vmnoise_testbed::browser::Browser;

use super::{PlantedFleet, page};

#[test]
fn every_chart_is_drawn_and_the_table_of_hosts_sorts() {
    let folder = PlantedFleet::planted(48, 4).data_set();
    page(&folder);
    let mut browser = Browser::start(false);
    browser.open(&folder.path().join("fleet.html"));
    let charts = browser.eval("document.querySelectorAll('figure').length");
    assert_eq!(charts, json!(4));
    // A printed page has no scrolling, so all charts must be drawn.
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    browser
        .wait_for("document.querySelectorAll('figure .plot .main-svg:first-child').length === 4");
    let red = "document.querySelectorAll('#chart0 .plot .scatterlayer .trace:nth-child(2) .point').length";
    assert_eq!(browser.eval(red), json!(2), "those that stand out");
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        json!({"width": 1300, "height": 2300, "deviceScaleFactor": 1, "mobile": false}),
    );
    let picture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fleet.png");
    browser.screenshot(&picture);
    let first = "document.querySelector('table.sortable').tBodies[0].rows[0].cells[0].textContent";
    assert_eq!(browser.eval(first), json!("node-0016"));
    browser.eval(
        "document.querySelector('table.sortable').tHead.rows[0].cells[1].firstChild.id = 'lost'",
    );
    browser.click("#lost");
    browser.click("#lost");
    assert_ne!(browser.eval(first), json!("node-0016"));
    assert_eq!(browser.complaints(), [""; 0]);
    assert_eq!(browser.requests(), 1, "the page itself and nothing else");
}
