//! Tests the live page in a real browser.

use vmnoise_testbed::browser::Browser;
use vmnoise_testbed::{Disturber, VmnoiseRun};

use crate::harness::Serve;

#[test]
fn it_shows_who_has_the_cpu_of_which_vm_and_asks_nobody_else() {
    let serve = Serve::start();
    let mut browser = Browser::start(false);
    browser.visit(&serve.address("/"));
    browser
        .wait_for("document.getElementById('state')?.textContent === 'No VM runs on this host.'");

    let run = VmnoiseRun::microvm(0, &["--duration", "60s"]).unwrap();
    let busy = Disturber::busy(0).unwrap();
    let name = format!("vmnoise:{}", run.pid());
    let rows = "[...document.querySelectorAll('#vms tr')]";
    let culprit = "it.textContent.includes('lab-disturb')";
    browser.wait_for(&format!(
        "{rows}.find((it) => it.cells[0].textContent === '{name}' && {culprit})"
    ));
    assert_eq!(
        browser.eval("document.getElementById('state').hidden"),
        true
    );
    let drawn =
        "document.querySelector('.spark polyline').getAttribute('points').split(' ').length > 2";
    browser.wait_for(drawn);
    assert_eq!(browser.complaints(), [""; 0]);
    drop((busy, run));

    // The page shows the current state: after the server stops, it shows that the server does not
    // answer.
    drop(serve);
    browser.wait_for("document.getElementById('state').textContent.includes('does not answer')");
}
