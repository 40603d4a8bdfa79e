//! Tests of `vmnoise report` as a user runs it: the page as text, and in a browser.

mod browse;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use tempfile::TempDir;
use vmnoise_events::{Event, RunFacts, Witnesses};
use vmnoise_recording::{RecordingReader, Writer};

use crate::join_pair::{Flaws, write_guest, write_host, write_tasks};
use crate::{many_gaps, timer_recording};

/// Largest size of a page of one recording with few CPUs.
const USUAL_BYTES: u64 = 1_200_000;
/// Largest size of any page here: the packed charts' library (0.6 MB), and 3.3 MB of its own.
const MOST_BYTES: usize = 3_900_000;

/// Folder with the recordings of a guest and its host.
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

    /// Returns the page of these recordings.
    fn page(&self, recordings: &str) -> String {
        self.page_and_status(recordings, 0)
    }

    fn page_and_status(&self, recordings: &str, status: i32) -> String {
        let output = self.report(&format!("{recordings} -o page.html"));
        assert_eq!(output.status.code(), Some(status), "{output:?}");
        let page = fs::read_to_string(self.path("page.html")).unwrap();
        assert!(page.len() < MOST_BYTES, "{}", page.len());
        page
    }
}

/// Returns the page without scripts, style and tags: the text that is visible without scripts.
pub fn text_of(page: &str) -> String {
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
        assert!(!page.contains(tag), "{tag}");
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
        "Which vCPU each CPU is, and the evidence",
        "The longest, and who took them",
        "Exits by reason",
        "Exits, vCPU by vCPU",
        "What this rests on, and what it cannot show",
        "CPU 0 (vCPU 0 of web)",
    ] {
        assert!(text.contains(heading), "{heading}: {text}");
    }
}

#[test]
fn late_tasks_show_who_on_the_host_made_them_late() {
    let folder = Folder::new();
    let text = text_of(&folder.page("tasks.rec host.rec"));
    for words in [
        "tasks.rec joined with host.rec",
        "On CPU 0 (vCPU 0 of web) a task of the guest wakes up 63.9 µs late at worst",
        "ksoftirqd/3 preempting the vCPU",
        "of the lateness belongs to the host: for 7.10 ms the vCPU was outside its guest; 1.1 % passed while the guest ran, and 67 % is unknown",
        "phases too short for the two clocks",
        "of the lateness passes from the expiry to the timer’s interrupt",
        "Latencies, CPU by CPU",
        "What an average wake-up consists of",
        "What wake-ups consist of",
        "until the timer’s interrupt",
        "of them between instants",
        "exit interrupt, host CPU 3, 500 ns after the expiry",
        "preempted by a host task ksoftirqd/3:31, host CPU 3",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("Not joined"), "{text}");
}

#[test]
fn what_the_host_did_not_see_is_reported() {
    let folder = Folder::new();
    let bytes = fs::read(folder.path("host.rec")).unwrap();
    fs::write(folder.path("cut.rec"), &bytes[..bytes.len() * 7 / 10]).unwrap();
    let output = folder.report("tasks.rec cut.rec -o page.html");
    assert_eq!(output.status.code(), Some(1), "the host's broke off");
    let page = fs::read_to_string(folder.path("page.html")).unwrap();
    let text = text_of(&page);
    for words in [
        "tasks.rec joined with cut.rec",
        "wake-ups are not in the host’s recording: ",
        "The page shows only the part before a fault: ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(page.contains("The host did not record it."));
}

#[test]
fn what_is_not_known_to_be_kvms_is_nobodys() {
    let folder = Folder::new();
    let mut seen = RecordingReader::open(&folder.path("host.rec")).unwrap();
    let mut facts = seen.facts().clone();
    facts.witnesses.irq = false;
    let mut blind = Writer::create(&folder.path("blind.rec"), &facts).unwrap();
    while let ControlFlow::Continue(event) = seen.next_event().unwrap() {
        blind.push(&event).unwrap();
    }
    blind.finish().unwrap();
    let kvms = "KVM handling";
    assert!(text_of(&folder.page("host.rec")).contains(kvms));
    let text = text_of(&folder.page("blind.rec"));
    assert!(!text.contains(kvms), "{text}");
    assert!(text.contains("not explained by any probe"), "{text}");
}

/// A VMM may run two VMs one after the other in the same thread.
#[test]
fn vcpus_of_one_thread_are_two() {
    let folder = Folder::new();
    let flaws = Flaws {
        has_a_twin: true,
        shares_a_thread: true,
        ..Flaws::default()
    };
    write_host(&folder.path("host.rec"), flaws);
    let page = folder.page("host.rec");
    let both = ["vCPU 0 of twin", "vCPU 0 of web"];
    let spikes = &views_of(&page, "Exits over time")[0];
    let lanes = spikes["lanes"].as_array().unwrap().iter();
    let lanes: BTreeSet<&str> = lanes.filter_map(Value::as_str).collect();
    assert!(lanes.iter().eq(&both), "{lanes:?}");
    let drawn = spikes["spikes"].as_array().unwrap().iter();
    let drawn: BTreeSet<u64> = drawn.filter_map(|spike| spike[0].as_u64()).collect();
    assert!(drawn.into_iter().eq([0, 1]), "each has exits of its own");
    let takers = first_fields(&page, "Who took it");
    assert!(takers.iter().eq(&both), "{takers:?}");
}

/// Copies a recording without its activities, and changes its facts accordingly.
fn write_without_activities(from: &Path, to: &Path, change: impl FnOnce(&mut RunFacts)) {
    let mut from = RecordingReader::open(from).unwrap();
    let mut facts = from.facts().clone();
    change(&mut facts);
    let mut copy = Writer::create(to, &facts).unwrap();
    while let ControlFlow::Continue(event) = from.next_event().unwrap() {
        if !matches!(event, Event::Activity(_)) {
            copy.push(&event).unwrap();
        }
    }
    copy.finish().unwrap();
}

#[test]
fn a_run_that_could_not_watch_its_kernel_names_nobody_below_it() {
    let folder = Folder::new();
    let [guest, blind, quiet] =
        ["guest.rec", "blind.rec", "quiet.rec"].map(|name| folder.path(name));
    write_without_activities(&guest, &blind, |facts| {
        facts.witnesses = Witnesses::default();
    });
    // Its kernel was watched, but did nothing.
    write_without_activities(&guest, &quiet, |_| {});
    let unexplained = "unexplained, because vmnoise could not watch all of this kernel";
    let below = "the hypervisor or the hardware below";
    for (recording, said, unsaid) in [
        ("blind.rec", unexplained, below),
        ("quiet.rec", below, unexplained),
    ] {
        let text = text_of(&folder.page(recording));
        let heading = format!("; 100 % of the noise is {said}");
        assert!(text.contains(&heading), "{heading}: {text}");
        assert!(!text.contains(unsaid), "{text}");
    }
}

#[test]
fn the_last_lines_are_the_headline_of_each_run_and_the_place_of_the_page() {
    let folder = Folder::new();
    let output = folder.report("guest.rec -o page.html");
    let said = String::from_utf8(output.stdout).unwrap();
    let [lost, taker, place] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert!(said.is_ascii(), "{said}");
    assert!(lost.starts_with("On CPU 0 a thread loses "), "{lost}");
    let text = text_of(&fs::read_to_string(folder.path("page.html")).unwrap());
    // Texts on a terminal use this spelling of microseconds.
    let text = text.replace('µ', "u");
    let headline = format!("{}; {taker}", lost.trim_end_matches('.'));
    assert!(text.contains(&headline), "{headline}: {text}");
    assert!(place.starts_with("report: /"), "{place}");

    let output = folder.report("guest.rec tasks.rec -o page.html");
    let said = String::from_utf8(output.stdout).unwrap();
    let files: Vec<&str> = said
        .lines()
        .filter_map(|it| it.split(": ").next())
        .collect();
    let of_each = ["guest.rec", "guest.rec", "tasks.rec", "tasks.rec", "report"];
    assert_eq!(files, of_each, "{said}");
}

#[test]
fn what_a_host_was_asked_for_is_reported() {
    let folder = Folder::new();
    let flaws = Flaws {
        only_long_exits: true,
        ..Flaws::default()
    };
    write_host(&folder.path("long.rec"), flaws);
    let reported = "only for interrupt";
    for recordings in ["long.rec", "guest.rec long.rec"] {
        let text = text_of(&folder.page(recordings));
        assert!(text.contains(reported), "{recordings}: {text}");
    }
    for recordings in ["host.rec", "guest.rec host.rec"] {
        assert!(!text_of(&folder.page(recordings)).contains(reported));
    }
}

#[test]
fn tasks_of_a_wrong_clock_are_shown_alone_and_why() {
    let folder = Folder::new();
    let flaws = Flaws {
        offset_tsc: 25_000,
        ..Flaws::default()
    };
    write_host(&folder.path("host.rec"), flaws);
    let text = text_of(&folder.page_and_status("tasks.rec host.rec", 1));
    assert!(text.contains("Not joined with host.rec: "), "{text}");
    assert!(
        text.contains("On CPU 0 a periodic task wakes up "),
        "{text}"
    );
}

#[test]
fn what_is_not_joined_is_no_error_where_each_host_has_its_guest() {
    let folder = Folder::new();
    let flaws = Flaws {
        offset_tsc: 25_000,
        ..Flaws::default()
    };
    write_host(&folder.path("wrong.rec"), flaws);
    timer_recording::write(&folder.path("before.rec"));
    let not_joined = [
        ("before.rec host.rec guest.rec", 0),
        ("tasks.rec wrong.rec host.rec", 0),
        ("tasks.rec guest.rec", 0),
        ("tasks.rec wrong.rec", 1),
        ("guest.rec host.rec before.rec wrong.rec", 1),
    ];
    for (recordings, status) in not_joined {
        let text = text_of(&folder.page_and_status(recordings, status));
        let reported = text.contains("Not joined with ");
        assert_eq!(reported, recordings != "tasks.rec guest.rec", "{text}");
    }
}

#[test]
fn a_timer_recording_alone_has_its_phases() {
    let folder = Folder::new();
    timer_recording::write(&folder.path("timer.rec"));
    let text = text_of(&folder.page("timer.rec"));
    for words in [
        "phases unknown",
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
    assert!(!text.contains("its host"), "nobody knows of a host: {text}");
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

/// Returns the data of a chart's views, which its scripts read.
pub fn views_of(page: &str, title: &str) -> Vec<Value> {
    let (_, after) = page.split_once(&format!("<h2>{title}</h2>")).unwrap();
    let (figure, _) = after.split_once("</figure>").unwrap();
    let scripts = figure.split("<script type=\"application/json\"").skip(1);
    let json = scripts.map(|it| {
        let (_, json) = it.split_once('>').unwrap();
        serde_json::from_str(json.split_once("</script>").unwrap().0).unwrap()
    });
    json.collect()
}

/// Returns the first field of each row of a table.
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
    // One view of all CPUs together, and one of each of the sixteen.
    assert_eq!(views_of(&page, "Who took which part of the time").len(), 17);
    let left = &views_of(&page, "Least time left in any window")[0];
    let lines = left["data"].as_array().unwrap();
    assert_eq!(lines.len(), 16);
    for line in lines {
        // The longest window is the whole run.
        let whole = line["y"]
            .as_array()
            .unwrap()
            .last()
            .unwrap()
            .as_f64()
            .unwrap();
        assert!(whole > 50.0 && whole < 100.0, "{line}");
    }
    let tails = &views_of(&page, "How many were longer")[0];
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
    let chart = &views_of(&page, "Periodic gaps")[0];
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
    assert_eq!(gaps.iter().sum::<f64>(), 1_000.0, "other gaps are there");
    assert!(page.contains(&format!("CPU {}: 30.0", many_gaps::BEAT_CPU)));
}
