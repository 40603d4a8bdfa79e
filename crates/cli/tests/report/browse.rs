//! Tests of the page in a headless Chromium: drawing, clicks, sorting and printing.

use serde_json::json;

use super::*;
use vmnoise_testbed::browser::Browser;

/// Chart of phases of the first recording.
const PHASES: &str = "[...document.querySelectorAll('#run0 figure')].find((it) => it.querySelector('h2').textContent === 'What an average wake-up consists of')";

/// Returns the position of the longest moment after scrolling it into the window.
fn highest(browser: &mut Browser, plot: &str) -> [f64; 2] {
    browser.middle(plot);
    // A chart is drawn only when it becomes visible.
    let points = format!("document.querySelector('{plot}').querySelector('.point')");
    browser.wait_for(&points);
    browser.middle(plot);
    let at = browser.eval(&format!(
        "(() => {{ const plot = document.querySelector('{plot}'); \
         let best; \
         for (const trace of plot.data) trace.y.forEach((y, at) => {{ if (!best || y > best[1]) best = [trace.x[at], y]; }}); \
         const {{xaxis, yaxis}} = plot._fullLayout, box = plot.getBoundingClientRect(); \
         return [box.x + xaxis._offset + xaxis.d2p(best[0]), box.y + yaxis._offset + yaxis.d2p(best[1])]; }})()"
    ));
    [at[0].as_f64().unwrap(), at[1].as_f64().unwrap()]
}

#[test]
fn a_browser_that_cannot_unpack_the_library_shows_the_tables_and_says_so() {
    let folder = Folder::new();
    folder.page("guest.rec");
    let mut browser = Browser::start(false);
    browser.call(
        "Page.addScriptToEvaluateOnNewDocument",
        json!({"source": "delete window.DecompressionStream;"}),
    );
    let url = format!("file://{}", folder.path("page.html").display());
    browser.call("Page.navigate", json!({"url": url}));
    let shown = |what: &str| format!("document.querySelector('{what}')?.checkVisibility()");
    browser.wait_for(&shown(".unscripted"));
    browser.wait_for(&shown("table"));
    assert_eq!(browser.eval(&shown("figure")), false, "no empty frames");
}

#[test]
fn spikes_zoom_and_answer_and_tables_sort() {
    let folder = Folder::new();
    folder.page("guest.rec host.rec");
    let mut browser = Browser::start(false);
    browser.open(&folder.path("page.html"));

    // Longest gap at its place in the drawing.
    let plot = "#run0-spikes .plot";
    let range = format!("document.querySelector('{plot}')._fullLayout.xaxis.range[1]");
    let at = highest(&mut browser, plot);
    browser.drag(at, at);
    let detail = browser.eval("document.querySelector('#run0-spikes .detail').innerText");
    let detail = detail.as_str().unwrap().to_owned();
    assert!(detail.contains("on CPU 0 (vCPU 0 of web) at "), "{detail}");
    assert!(detail.contains("rcuc/3:30"), "the host's thread: {detail}");
    let pictures = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        json!({"width": 1300, "height": 1500, "deviceScaleFactor": 1, "mobile": false}),
    );
    browser.eval("document.querySelector('#run0').scrollIntoView()");
    browser.screenshot(&pictures.join("report.png"));
    let rows = browser.eval("[...document.querySelectorAll('#run0-spikes .timeline > text')].map((it) => it.textContent)");
    let rows: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert_eq!(rows[0], "the guest", "the workload is on top: {rows:?}");
    assert!(
        rows.iter().any(|row| row.starts_with("below: ")),
        "{rows:?}"
    );

    let before = browser.eval(&range).as_f64().unwrap();
    let [x, y] = browser.middle(plot);
    browser.drag([x - 200.0, y - 60.0], [x, y + 60.0]);
    let zoomed = browser.eval(&range).as_f64().unwrap();
    assert!(zoomed < before, "{zoomed} {before}");

    let table = "#run0 table.sortable:has(th:nth-child(7))";
    let column = |browser: &mut Browser| -> Vec<f64> {
        let ranks = browser.eval("(() => { const table = [...document.querySelectorAll('#run0 table.sortable')].find((it) => it.caption.textContent === 'Who took it'); return [...table.tBodies[0].rows].map((row) => Number(row.cells[6].dataset.rank)); })()");
        ranks
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it.as_f64().unwrap())
            .collect()
    };
    browser.eval(&format!("[...document.querySelectorAll('{table}')].find((it) => it.caption.textContent === 'Who took it').tHead.rows[0].cells[6].firstChild.id = 'most'"));
    browser.click("#most");
    let sorted = column(&mut browser);
    assert!(
        sorted.len() > 1 && sorted.is_sorted_by(|a, b| a >= b),
        "{sorted:?}"
    );
    browser.click("#most");
    let sorted = column(&mut browser);
    assert!(sorted.is_sorted(), "{sorted:?}");

    assert_eq!(browser.complaints(), [""; 0]);
    assert_eq!(browser.requests(), 1, "the page itself and nothing else");
}

/// The charts' library turns such texts into links by default.
const LINK: &str = "<a href=\"https://example.org/\">web</a><br><b>1</b>&lt;";

#[test]
fn a_name_that_is_a_tag_stays_letters() {
    let folder = Folder::new();
    let flaws = Flaws {
        vm_name: Some(LINK),
        // Charts name vCPUs if there are several.
        has_a_twin: true,
        ..Flaws::default()
    };
    write_host(&folder.path("host.rec"), flaws);
    folder.page("host.rec");
    let mut browser = Browser::start(false);
    browser.open(&folder.path("page.html"));
    let plots = browser.eval("document.querySelectorAll('.plot').length");
    for plot in 0..plots.as_u64().unwrap() {
        // A chart is drawn only when it becomes visible.
        let plot = format!("document.querySelectorAll('.plot')[{plot}]");
        browser.eval(&format!("{plot}.scrollIntoView()"));
        browser.wait_for(&format!("{plot}.querySelector('.main-svg')"));
    }
    let links = browser.eval("[...document.querySelectorAll('.plot text a, a[href]:not([href^=\"#run\"])')].map((it) => it.outerHTML).join()");
    assert_eq!(links, json!(""));
    let bold = browser.eval("[...document.querySelectorAll('.plot text')].filter((it) => it.innerHTML.includes('font-weight')).length");
    assert_eq!(bold, json!(0));
    let as_letters = browser.eval("[...document.querySelectorAll('.plot text')].filter((it) => it.textContent.includes('<a href=')).length");
    assert!(as_letters.as_u64().unwrap() > 0, "it is on no chart");
    assert_eq!(browser.complaints(), [""; 0]);
    // No script that came with a name may run.
    browser.eval("{ const script = document.createElement('script'); script.textContent = 'window.ran = 1'; document.body.append(script); }");
    assert_eq!(browser.eval("window.ran === undefined"), json!(true));
}

#[test]
fn a_late_wake_up_shows_phase_by_phase_who_on_the_host_it_waited_for() {
    let folder = Folder::new();
    folder.page("tasks.rec host.rec");
    let mut browser = Browser::start(false);
    browser.open(&folder.path("page.html"));
    let at = highest(&mut browser, "#run0-spikes .plot");
    browser.drag(at, at);
    let lines = "[...document.querySelectorAll('#run0-spikes .tree tr')].map((row) => [row.cells[0].className, row.cells[0].textContent, row.cells[1].textContent])";
    let lines = browser.eval(lines);
    let lines: Vec<[String; 3]> = serde_json::from_value(lines).unwrap();
    let line = |depth: &str, words: &str| {
        let found = lines
            .iter()
            .find(|it| it[0] == depth && it[1].contains(words));
        found.unwrap_or_else(|| panic!("{words}: {lines:?}"))[2].clone()
    };
    assert_eq!(line("d0", "until the timer’s interrupt"), "63.2 µs");
    assert_eq!(line("d1", "exit interrupt, host CPU 3"), "62.5 µs");
    assert_eq!(line("d2", "ksoftirqd/3:31, host CPU 3"), "20.4 µs");
    let rows = browser.eval("[...document.querySelectorAll('#run0-spikes .timeline > text')].map((it) => it.textContent)");
    let rows: Vec<String> = serde_json::from_value(rows).unwrap();
    assert_eq!(rows[0], "a task of the guest", "{rows:?}");
    assert!(rows.iter().any(|row| row == "phases"), "{rows:?}");
    let below = "below: preempted by a host task";
    assert!(rows.iter().any(|row| row == below), "{rows:?}");
    let hosts = browser.eval("[...document.querySelectorAll('#run0-spikes .timeline rect title')].map((it) => it.textContent)");
    assert!(hosts.to_string().contains("rcuc/3:30: "), "{hosts}");

    // The phases, divided by side.
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    browser.wait_for(&format!(
        "{PHASES}.querySelectorAll('.bars .point').length > 3"
    ));
    let sides = browser.eval(&format!(
        "{PHASES}.querySelector('.plot').data.map((it) => it.name)"
    ));
    // The side of a phase that is shorter than the clock error is unknown.
    let all = ["the guest", "its host", "unknown"];
    assert_eq!(sides, json!(all));
    browser.call(
        "Emulation.setDeviceMetricsOverride",
        json!({"width": 1300, "height": 1660, "deviceScaleFactor": 1, "mobile": false}),
    );
    browser.eval("document.querySelector('#run0').scrollIntoView()");
    let picture = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("latencies.png");
    browser.screenshot(&picture);
    assert_eq!(browser.complaints(), [""; 0]);
    assert_eq!(browser.requests(), 1, "the page itself and nothing else");
}

#[test]
fn phases_of_all_cpus_are_bars_beside_each_other() {
    let folder = Folder::new();
    timer_recording::write(&folder.path("timer.rec"));
    folder.page("timer.rec");
    let mut browser = Browser::start(false);
    browser.open(&folder.path("page.html"));
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    browser.wait_for(&format!("{PHASES}.querySelector('.bars .point')"));
    let drawn = browser.eval(&format!(
        "{PHASES}.querySelector('.plot').data.map((it) => [it.name, it.y])"
    ));
    let drawn: Vec<(String, Vec<String>)> = serde_json::from_value(drawn).unwrap();
    let names: Vec<&str> = drawn.iter().map(|(name, _)| &**name).collect();
    assert_eq!(
        names.first(),
        Some(&"until the timer’s interrupt"),
        "{names:?}"
    );
    assert_eq!(names.last(), Some(&"phases unknown"), "{names:?}");
    // Bars are ordered from bottom to top.
    assert_eq!(drawn[0].1, ["CPU 1", "CPU 0", "all CPUs"]);
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn every_chart_is_drawn_in_the_dark_too() {
    let folder = Folder::new();
    folder.page("guest.rec tasks.rec host.rec");
    let mut browser = Browser::start(true);
    browser.open(&folder.path("page.html"));
    let charts = browser.eval("document.querySelectorAll('figure').length");
    assert!(charts.as_u64().unwrap() >= 10, "{charts}");
    // A printed page has no scrolling, so all charts must be drawn.
    browser.eval("dispatchEvent(new Event('beforeprint'))");
    browser.wait_for(&format!(
        "document.querySelectorAll('figure .plot .main-svg:first-child').length === {charts}"
    ));
    let paper = browser.eval("getComputedStyle(document.documentElement).backgroundColor");
    assert_eq!(paper, "rgb(20, 23, 26)");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn a_comparison_is_a_page_too() {
    let folder = Folder::new();
    many_gaps::write(&folder.path("many.vmn"), 50_000, PEAK_EVERY);
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    let arguments = "compare guest.rec many.vmn --format html --fail-if gaps>1";
    command
        .current_dir(folder.0.path())
        .args(arguments.split_whitespace());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2), "the condition holds");
    let page = String::from_utf8(output.stdout).unwrap();
    let text = text_of(&page);
    assert!(
        text.contains("many.vmn differs from guest.rec: it loses "),
        "{text}"
    );
    assert!(text.contains("The recordings"), "{text}");
    fs::write(folder.path("page.html"), page).unwrap();
    let mut browser = Browser::start(false);
    browser.open(&folder.path("page.html"));
    let points = browser.eval("document.querySelectorAll('#chart0 .plot .point').length");
    assert!(points.as_u64().unwrap() > 5, "{points}");
    assert_eq!(browser.complaints(), [""; 0]);
    browser.screenshot(&PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compare.png"));
}

#[test]
fn on_paper_every_section_is_there_and_headings_come_again() {
    let folder = Folder::new();
    many_gaps::write_cpus(&folder.path("many.vmn"), 128);
    folder.page("guest.rec host.rec many.vmn");
    let mut browser = Browser::start(true);
    browser.open(&folder.path("page.html"));
    let headings = browser
        .eval("[...document.querySelectorAll('h1, h2, caption')].map((it) => it.textContent)");
    let pdf = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report.pdf");
    browser.print(&pdf);
    assert_eq!(browser.complaints(), [""; 0]);
    let mut command = Command::new("pdftotext");
    command
        .args(["-layout", "-enc", "UTF-8"])
        .arg(&pdf)
        .arg("-");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let sheets: Vec<String> = text.split('\x0c').map(without_spaces).collect();
    assert!((10..60).contains(&sheets.len()), "{}", sheets.len());
    let all = sheets.concat();
    for heading in headings.as_array().unwrap() {
        let heading = without_spaces(heading.as_str().unwrap());
        assert!(all.contains(&heading), "{heading}: {all}");
    }
    // 128 rows need more than one sheet.
    let columns = "CPUruntimegapsnoise";
    let with_columns = sheets.iter().filter(|sheet| sheet.contains(columns));
    assert!(with_columns.count() >= 4, "{text}");
}

/// Removes spaces, since lines break elsewhere on paper.
fn without_spaces(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Distance of the gaps that are longer than all others around them.
const PEAK_EVERY: u64 = 4_999;

#[test]
fn a_million_gaps_are_a_small_page_with_every_peak() {
    const GAPS: u64 = 1_000_000;
    let folder = Folder::new();
    let peaks = many_gaps::write(&folder.path("many.vmn"), GAPS, PEAK_EVERY);
    folder.page("many.vmn");
    let mut browser = Browser::start(false);
    let took = browser.open(&folder.path("page.html"));
    let busy = browser.busy();
    let bytes = fs::metadata(folder.path("page.html")).unwrap().len();
    assert!(bytes < USUAL_BYTES, "{bytes}");
    let shown = browser.eval("JSON.parse(document.querySelector('#run0-spikes script').textContent).spikes.map((it) => it[2])");
    let shown: Vec<u64> = shown
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it.as_u64().unwrap())
        .collect();
    println!(
        "a page of {GAPS} gaps: {bytes} bytes, {} points, drawn after {} ms, for {} ms of them on a CPU",
        shown.len(),
        took.as_millis(),
        busy.as_millis()
    );
    assert!((1_000..=4_200).contains(&shown.len()), "{}", shown.len());
    assert!(peaks.len() > 150, "{}", peaks.len());
    for peak_ns in peaks {
        assert!(shown.contains(&peak_ns), "{peak_ns} ns is lost");
    }
    let reported = browser.eval("document.querySelector('#run0-spikes figcaption').innerText");
    assert!(
        reported
            .as_str()
            .unwrap()
            .contains("1\u{202f}000\u{202f}000 gaps"),
        "{reported}"
    );
    assert_eq!(browser.complaints(), [""; 0]);
}
