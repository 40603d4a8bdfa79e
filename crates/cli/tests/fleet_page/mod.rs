//! Tests of the page of many hosts: planted culprits come first, and among similar hosts none is
//! blamed.

mod browse;
mod engine;
mod hosts;
mod lab_full;

use std::fs;
use std::process::{Command, Output};

use tempfile::TempDir;

use self::hosts::{PlantedFleet, host_name};

const HOSTS: u64 = 48;
const SECONDS: u64 = 8;

fn report(folder: &TempDir, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    command.current_dir(folder.path()).arg("report");
    command.args(words.split_whitespace()).output().unwrap()
}

/// Returns the page of a data set, which must have no errors.
fn page(folder: &TempDir) -> String {
    let output = report(folder, "fleet -o fleet.html");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &*said), (Some(0), ""));
    fs::read_to_string(folder.path().join("fleet.html")).unwrap()
}

/// Returns the headline of the page.
fn headline(page: &str) -> String {
    let (_, after) = page.split_once("<h1>").unwrap();
    plain(after.split_once("</h1>").unwrap().0)
}

/// Returns the text with ordinary spaces.
fn plain(text: &str) -> String {
    text.replace(['\n', '\u{a0}'], " ").replace('\u{202f}', "")
}

/// Returns the findings, each with its figure in front.
fn findings(page: &str) -> Vec<String> {
    let (_, after) = page.split_once("<ol class=\"findings\">").unwrap();
    let (list, _) = after.split_once("</ol>").unwrap();
    let items = list.split("<li>").skip(1);
    let text = |item: &str| {
        let item = plain(item);
        ["<b>", "</b>", "<span>", "</span>", "</li>"]
            .iter()
            .fold(item, |text, tag| text.replace(tag, ""))
            .trim()
            .to_owned()
    };
    items.map(text).collect()
}

/// Returns the rows of a table: for each field its text, and its value for sorting.
fn rows(page: &str, title: &str) -> Vec<Vec<(String, Option<f64>)>> {
    let (_, after) = page.split_once(&format!("<h2>{title}</h2>")).unwrap();
    let (table, _) = after.split_once("</table>").unwrap();
    let rows = table.split_once("<tbody>").unwrap().1.split("<tr>").skip(1);
    rows.map(|row| {
        let fields = row.split("<td").skip(1).map(|field| {
            let (attributes, text) = field.split_once('>').unwrap();
            let rank = attributes.split_once("data-rank=\"");
            let rank = rank.and_then(|(_, it)| it.split_once('"').unwrap().0.parse().ok());
            (text.split_once("</td>").unwrap().0.to_owned(), rank)
        });
        fields.collect()
    })
    .collect()
}

fn assert_finds_what_is_planted(page: &str, fleet: PlantedFleet) {
    let worst = host_name(fleet.worst.unwrap());
    let rank = fleet.straggler.unwrap();
    let its_host = host_name(rank / 2);
    // A tick takes a thousandth, and ksmd a 25th.
    let said = headline(page);
    assert!(
        said.starts_with(&format!(
            "2 of {} hosts stand out: the worst, {worst}, loses 4.",
            fleet.hosts
        )),
        "{said}"
    );
    let findings = findings(page);
    assert!(
        findings[0].contains(&format!("of its time is lost by {worst}: "))
            && findings[0]
                .contains("Most of the difference, 4.0 % of its time, is ksmd running instead."),
        "{findings:?}"
    );
    assert!(
        findings[1].contains(&its_host) && findings[1].contains("irqbalance"),
        "{findings:?}"
    );
    let who = &findings[2];
    assert!(
        who.contains("of all lost time is node_exporter running instead")
            && who.ends_with(&format!("on {} hosts", fleet.hosts)),
        "{findings:?}"
    );
    let of_ranks: Vec<&String> = findings
        .iter()
        .filter(|it| it.contains("of its time is lost by rank "))
        .collect();
    assert!(
        of_ranks[0].contains(&format!(
            "of its time is lost by rank {rank} on {its_host}: "
        )) && of_ranks[0].contains("6.2 % of its time, is irqbalance running instead."),
        "{findings:?}"
    );
    // Exactly the two ranks on the worst host, and the straggler.
    assert_eq!(of_ranks.len(), 3, "{findings:?}");
    assert_eq!(rows(page, "Hosts")[0][0].0, worst);
    assert_eq!(
        rows(page, "Ranks")[0][0].0,
        format!("rank {rank} on {its_host}")
    );
    assert_eq!(rows(page, "Who took it")[0][0].0, "node_exporter");
    assert_eq!(rows(page, "Hosts").len() as u64, fleet.hosts);
}

#[test]
fn the_planted_host_culprit_and_rank_come_first() {
    let fleet = PlantedFleet::planted(HOSTS, SECONDS);
    assert_finds_what_is_planted(&page(&fleet.data_set()), fleet);
}

#[test]
fn of_hosts_that_are_alike_nobody_is_blamed() {
    let page = page(&PlantedFleet::quiet(HOSTS, SECONDS).data_set());
    let said = headline(&page);
    assert!(said.starts_with("None of 48 hosts stands out: "), "{said}");
    let findings = findings(&page);
    // The time of the ticks is a finding on the fleet, and on no single host.
    assert!(
        findings
            .iter()
            .all(|it| !it.contains("node-") && !it.contains("rank ")),
        "{findings:?}"
    );
    assert!(findings[0].contains("local_timer"), "{findings:?}");
    let stand_out = rows(&page, "Hosts");
    assert!(stand_out.iter().all(|row| row[2].0 == "no"));
}

#[test]
fn what_cannot_be_held_against_the_others_is_said() {
    let fleet = PlantedFleet {
        deaf: 3,
        lossy: Some(5),
        ..PlantedFleet::planted(12, SECONDS)
    };
    let folder = fleet.data_set();
    // Run whose table of gaps is destroyed.
    let run = fs::read_dir(folder.path().join("fleet/host=node-0002")).unwrap();
    let run = run.map(|it| it.unwrap().path()).min().unwrap();
    fs::write(run.join("gaps.parquet"), "PAR1").unwrap();
    let output = report(&folder, "fleet -o fleet.html");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said.contains("gaps.parquet: ") && said.lines().count() == 1,
        "{said}"
    );
    let page = fs::read_to_string(folder.path().join("fleet.html")).unwrap();
    assert!(
        page.contains("</strong> is not on this page: cannot read "),
        "{page}"
    );
    let findings = findings(&page);
    let has = |words: &str| findings.iter().any(|it| it.contains(words));
    assert!(
        has(
            "3 hosts cannot be compared, and are only in the tables: fewer than 8 hosts were measured"
        ),
        "{findings:?}"
    );
    assert!(
        has(
            "1 host lost records that may have been gaps, and may have lost more time than shown: node-0005"
        ),
        "{findings:?}"
    );
    let hosts = rows(&page, "Hosts");
    let deaf = hosts.iter().filter(|row| row[2].0 == "not judged");
    let mut deaf: Vec<&str> = deaf.map(|row| &*row[0].0).collect();
    deaf.sort_unstable();
    assert_eq!(deaf, ["node-0009", "node-0010", "node-0011"]);
}

#[test]
fn what_is_no_fleet_is_refused_in_a_line() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("empty")).unwrap();
    fs::write(folder.path().join("a.vmn"), "").unwrap();
    for (words, status, why) in [
        ("empty -o page.html", 1, "empty holds no run of a data set"),
        (
            "a.vmn empty -o page.html",
            129,
            "gets a page of its own: name it alone",
        ),
    ] {
        let output = report(&folder, words);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{said}");
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
        assert!(!folder.path().join("page.html").exists());
    }
}

/// A host that recorded only longer gaps does not make the other hosts' figures less certain.
#[test]
fn thresholds_that_differ_are_told_as_a_range() {
    let fleet = PlantedFleet {
        deaf: 1,
        ..PlantedFleet::quiet(2, 1)
    };
    let folder = fleet.data_set();
    let mut command = Command::new(env!("CARGO_BIN_EXE_vmnoise"));
    let words = ["scale", "fleet", "--ranks", "4"];
    let output = command.current_dir(folder.path()).args(words).output();
    let text = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(
        text.contains("gaps below 1000 ns to 5000 ns, by host, were not recorded"),
        "{text}"
    );
}
