//! `vmnoise report` as a user runs it: what is on the page as text, and in a browser.
#![allow(clippy::unwrap_used)] // What a test cannot unwrap fails it.

mod browser;
mod join_pair;
mod many_gaps;
mod timer_recording;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

use join_pair::{Flaws, write_guest, write_host, write_tasks};
use tempfile::TempDir;

/// What a page may weigh.
const MOST_BYTES: usize = 8_000_000;

/// A folder with a guest's recording and its host's.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = tempfile::tempdir().unwrap();
        write_guest(&folder.path().join("guest.rec"));
        write_tasks(&folder.path().join("tasks.rec"));
        write_host(&folder.path().join("host.rec"), Flaws::default());
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn report(&self, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
        command.current_dir(self.0.path()).arg("report");
        command.args(words.split_whitespace()).output().unwrap()
    }

    /// The page of these recordings.
    fn page(&self, recordings: &str) -> String {
        let output = self.report(&format!("{recordings} -o page.html"));
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let page = fs::read_to_string(self.path("page.html")).unwrap();
        assert!(page.len() < MOST_BYTES, "{}", page.len());
        page
    }
}

/// The page without its scripts, its style and its tags: what is read where no script runs.
fn text_of(page: &str) -> String {
    let mut text = String::new();
    let mut rest = page;
    while let Some((before, tag)) = rest.split_once('<') {
        text += before;
        let end = ["script", "style"]
            .iter()
            .find(|name| tag.starts_with(*name));
        let (_, after) = match end {
            Some(name) => tag.split_once(&format!("</{name}>")).unwrap(),
            None => tag.split_once('>').unwrap(),
        };
        text.push(' ');
        rest = after;
    }
    let text = text + rest;
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_page_loads_nothing_and_says_it_in_words_first() {
    let folder = Folder::new();
    let page = folder.page("guest.rec");
    let head = page.split_once("</head>").unwrap().0;
    assert!(head.contains("default-src 'none'"));
    for tag in [
        "<script src",
        "<link rel=\"style",
        "<img",
        "<iframe",
        "@import",
        "url(",
    ] {
        let (own, _) = page.split_once("plotly.js v").unwrap();
        assert!(!own.contains(tag), "{tag}");
    }
    assert_eq!(page.matches("<link ").count(), 1, "its empty icon");
    let text = text_of(&page);
    assert!(text.contains("On CPU 0 a thread loses "), "{text}");
    assert!(text.contains("is the longest gap, on CPU 0 at "), "{text}");
}

#[test]
fn without_scripts_every_figure_is_in_a_table() {
    let folder = Folder::new();
    let text = text_of(&folder.page("guest.rec host.rec"));
    for heading in [
        "guest.rec joined with host.rec",
        "Percentiles of gaps, CPU by CPU",
        "Who took it",
        "Every share",
        "Which vCPU each CPU is, and what says so",
        "The longest, and who took them",
        "Exits by reason",
        "Exits, vCPU by vCPU",
        "What this rests on, and what it cannot know",
        "CPU 0 (vCPU 0 of web)",
    ] {
        assert!(text.contains(heading), "{heading}: {text}");
    }
}

#[test]
fn late_tasks_are_told_who_on_the_host_made_them_late() {
    let folder = Folder::new();
    let text = text_of(&folder.page("tasks.rec host.rec"));
    for words in [
        "tasks.rec joined with host.rec",
        "On CPU 0 (vCPU 0 of web) a task of the guest wakes up 63.9 µs late at worst",
        "ksoftirqd/3 preempting the vCPU",
        "of the lateness is the host’s, 7.10 ms, in which the vCPU was out of its guest; 68 % passed while the guest ran",
        "of the lateness passes from the expiry to the timer’s interrupt",
        "Latencies, CPU by CPU",
        "What an average wake-up consists of",
        "What wake-ups consist of",
        "until the timer’s interrupt",
        "instants tested",
        "exit interrupt, host CPU 3, 500 ns after the expiry",
        "preempted by a host task ksoftirqd/3:31, host CPU 3",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("Not joined"), "{text}");
}

#[test]
fn what_the_host_did_not_see_is_told() {
    let folder = Folder::new();
    let bytes = fs::read(folder.path("host.rec")).unwrap();
    fs::write(folder.path("cut.rec"), &bytes[..bytes.len() * 7 / 10]).unwrap();
    let output = folder.report("tasks.rec cut.rec -o page.html");
    assert_eq!(output.status.code(), Some(1), "the host's broke off");
    let page = fs::read_to_string(folder.path("page.html")).unwrap();
    let text = text_of(&page);
    for words in [
        "tasks.rec joined with cut.rec",
        "wake-ups have no witness below: ",
        "Only what lies before a fault is shown: ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(page.contains("The host did not witness it."));
}

#[test]
fn tasks_of_a_wrong_clock_are_shown_alone_and_why() {
    let folder = Folder::new();
    let flaws = Flaws {
        offset_tsc: 25_000,
        ..Flaws::default()
    };
    write_host(&folder.path("host.rec"), flaws);
    let text = text_of(&folder.page("tasks.rec host.rec"));
    assert!(text.contains("Not joined with host.rec: "), "{text}");
    assert!(
        text.contains("On CPU 0 a periodic task wakes up "),
        "{text}"
    );
}

#[test]
fn a_timer_recording_alone_has_its_phases() {
    let folder = Folder::new();
    timer_recording::write(&folder.path("timer.rec"));
    let text = text_of(&folder.page("timer.rec"));
    for words in [
        "phases not told apart",
        "until the switch to the task",
        "other thread hog:4711",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let text = text_of(&folder.page("tasks.rec"));
    assert!(
        text.contains("On CPU 0 a periodic task wakes up "),
        "{text}"
    );
    assert!(
        text.contains("What an average wake-up consists of"),
        "{text}"
    );
    assert!(
        !text.contains("its host’s"),
        "nobody knows of a host: {text}"
    );
}

#[test]
fn what_is_refused_is_named_and_the_rest_is_there() {
    let folder = Folder::new();
    fs::write(folder.path("letter.txt"), "Dear all,\n").unwrap();
    let bytes = fs::read(folder.path("host.rec")).unwrap();
    fs::write(folder.path("cut.rec"), &bytes[..bytes.len() / 2]).unwrap();
    let output = folder.report("letter.txt guest.rec cut.rec nowhere.rec -o page.html");
    assert_eq!(output.status.code(), Some(1));
    let text = text_of(&fs::read_to_string(folder.path("page.html")).unwrap());
    assert!(text.contains("letter.txt is not on this page: "), "{text}");
    assert!(text.contains("nowhere.rec is not on this page: "), "{text}");
    assert!(text.contains("On CPU 0 "), "{text}");
    let nothing = folder.report("letter.txt -o none.html");
    assert_eq!(nothing.status.code(), Some(1));
    assert!(!folder.path("none.html").exists());
}

#[test]
fn a_stranger_cannot_write_into_the_page() {
    let folder = Folder::new();
    fs::rename(folder.path("guest.rec"), folder.path("<b>&.rec")).unwrap();
    let page = folder.page("<b>&.rec");
    assert!(!page.contains("<b>&.rec"));
    assert!(text_of(&page).contains("&#60;b&#62;&#38;.rec"));
}

/// What the scripts of a chart read, its views.
fn views_of(page: &str, title: &str) -> Vec<Value> {
    let (_, after) = page.split_once(&format!("<h2>{title}</h2>")).unwrap();
    let (figure, _) = after.split_once("</figure>").unwrap();
    let scripts = figure.split("<script type=\"application/json\"").skip(1);
    let json = scripts.map(|it| {
        let (_, json) = it.split_once('>').unwrap();
        serde_json::from_str(json.split_once("</script>").unwrap().0).unwrap()
    });
    json.collect()
}

/// The first fields of the rows of a table.
fn first_fields(page: &str, title: &str) -> BTreeSet<String> {
    let (_, after) = page.split_once(&format!("<h2>{title}</h2>")).unwrap();
    let (table, _) = after.split_once("</table>").unwrap();
    let rows = table.split("<tr>").skip(2);
    let fields = rows.map(|row| text_of(row.split_once("</td>").unwrap().0));
    fields.collect()
}

#[test]
fn of_many_cpus_none_is_lost_and_sixteen_are_drawn_one_by_one() {
    const CPUS: u32 = 128;
    let folder = Folder::new();
    many_gaps::write_cpus(&folder.path("many.vmn"), CPUS);
    let page = folder.page("many.vmn");
    let all: BTreeSet<String> = (0..CPUS).map(|cpu| format!("CPU {cpu}")).collect();
    for table in [
        "Percentiles of gaps, CPU by CPU",
        "Every share",
        "Who took it",
    ] {
        assert_eq!(first_fields(&page, table), all, "{table}");
    }
    let heat = &views_of(&page, "Who lost time when")[0];
    let rows = heat["data"][0]["y"].as_array().unwrap();
    let rows: BTreeSet<String> = rows.iter().map(|it| it.as_str().unwrap().into()).collect();
    assert_eq!(rows, all);
    assert_eq!(heat["data"][0]["z"].as_array().unwrap().len(), all.len());
    assert!(
        heat["layout"]["height"].as_u64() < Some(900),
        "on one sheet of paper"
    );
    let spikes = &views_of(&page, "Noise over time")[0];
    assert_eq!(spikes["lanes"].as_array().unwrap().len(), all.len());
    // All together, and sixteen.
    assert_eq!(views_of(&page, "Who took which part of the time").len(), 17);
    let tails = &views_of(&page, "How many were longer than that")[0];
    assert_eq!(tails["data"].as_array().unwrap().len(), 16);
    assert!(text_of(&page).contains("The 16 noisiest of 128 CPUs are drawn; the table has all."));
}

#[test]
fn what_a_reason_took_adds_up_on_the_page() {
    let folder = Folder::new();
    let page = folder.page("host.rec");
    let (_, after) = page.split_once("<h2>Exits by reason</h2>").unwrap();
    let (table, _) = after.split_once("</table>").unwrap();
    let mut rows = 0;
    for row in table.split("<tr>").skip(2) {
        let ranks = row.split("data-rank=\"").skip(1);
        let ranks = ranks.map(|it| it.split_once('"').unwrap().0.parse::<f64>().unwrap());
        let [_, _, total_ns, _, _, _, parts_ns @ ..] = &ranks.collect::<Vec<f64>>()[..] else {
            panic!("{row}")
        };
        assert_eq!(parts_ns.iter().sum::<f64>(), *total_ns, "{row}");
        rows += 1;
    }
    assert!(rows > 0, "{table}");
}

#[test]
fn a_period_stands_in_the_middle_of_its_chart() {
    let folder = Folder::new();
    many_gaps::write_cpus(&folder.path("many.vmn"), many_gaps::BEAT_CPU + 1);
    let page = folder.page("many.vmn");
    let chart = &views_of(&page, "What comes back by a clock")[0];
    let [at_s, gaps] = ["x", "y"].map(|axis| {
        let numbers = chart["data"][0][axis].as_array().unwrap().iter();
        numbers.map(|it| it.as_f64().unwrap()).collect::<Vec<f64>>()
    });
    let step_s = at_s[1] - at_s[0];
    let period_s = step_s * at_s.len() as f64;
    let expected_s = many_gaps::BEAT_EVERY_NS as f64 / 1e9;
    assert!((period_s / expected_s - 1.0).abs() < 1e-6, "{period_s}");
    let most = gaps.iter().copied().fold(0.0, f64::max);
    let tallest = gaps.iter().position(|it| *it == most).unwrap();
    assert!(at_s[tallest].abs() < step_s / 2.0, "{}", at_s[tallest]);
    assert!(most >= 500.0, "every beat is on it: {most}");
    assert_eq!(
        gaps.iter().sum::<f64>(),
        1_000.0,
        "those off the beat are there"
    );
    assert!(page.contains(&format!("CPU {}: 30.0", many_gaps::BEAT_CPU)));
}

/// In a headless Chromium.
mod browse {
    use serde_json::json;

    use super::browser::Browser;
    use super::*;

    /// The chart of phases of the first recording.
    const PHASES: &str = "[...document.querySelectorAll('#run0 figure')].find((it) => it.querySelector('h2').textContent === 'What an average wake-up consists of')";

    /// Where the longest moment is drawn, scrolled into the window.
    fn highest(browser: &mut Browser, plot: &str) -> [f64; 2] {
        browser.middle(plot);
        // A chart is drawn when it comes into sight.
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
    fn spikes_zoom_and_answer_and_tables_sort() {
        let folder = Folder::new();
        folder.page("guest.rec host.rec");
        let mut browser = Browser::start(false);
        browser.open(&folder.path("page.html"));

        // The longest gap, where the drawing has it.
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

    #[test]
    fn a_late_wake_up_tells_phase_by_phase_who_on_the_host_it_waited_for() {
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

        // The phases, each by whose time it was.
        browser.eval("dispatchEvent(new Event('beforeprint'))");
        browser.wait_for(&format!(
            "{PHASES}.querySelectorAll('.bars .point').length > 3"
        ));
        let sides = browser.eval(&format!(
            "{PHASES}.querySelector('.plot').data.map((it) => it.name)"
        ));
        assert_eq!(sides, json!(["the guest’s", "its host’s"]));
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
        assert_eq!(names.last(), Some(&"phases not told apart"), "{names:?}");
        // Bars go from the bottom up.
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
        // On paper nobody scrolls.
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

    /// Lines are broken elsewhere on paper.
    fn without_spaces(text: &str) -> String {
        text.split_whitespace().collect()
    }

    /// Every so many gaps one is longer than all others around it.
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
        let told = browser.eval("document.querySelector('#run0-spikes figcaption').innerText");
        assert!(
            told.as_str()
                .unwrap()
                .contains("1\u{202f}000\u{202f}000 gaps"),
            "{told}"
        );
        assert_eq!(browser.complaints(), [""; 0]);
    }
}
